"""The study of FormNet's parts."""

import json
from pathlib import Path

import torch
from benchmarks import formnet_parts as study
from benchmarks.formnet_parts import BATCHED, LOOP, PROMISES, graph_name

from broadsheet.modeling.viterbi import TagGrammar, viterbi_decode


def test_both_decoders_find_the_same() -> None:
    grammar = TagGrammar(["O", *(f"{prefix}-{kind}" for kind in range(3) for prefix in "BIES")])
    scores = torch.randn(8, 30, 13, generator=torch.Generator().manual_seed(1))
    assert viterbi_decode(scores, grammar).tolist() == study.decode_one_by_one(scores, grammar)


def test_a_quick_run_judges_nothing(tmp_path: Path) -> None:
    assert study.run(True, tmp_path) == []
    record = json.loads((tmp_path / f"{study.NAME}.json").read_text())
    assert {graph_name(16), graph_name(32), BATCHED, LOOP} == set(record["measurements"]["results"])
    assert record["measurements"]["promises"] == []


def test_promises() -> None:
    def measured(page: float, longest: float, ratio: float) -> study.Measured:
        times = {study.PAGE: page, study.LONG: 1.0, study.LONGEST: longest}
        graphs = {graph_name(words): {"cpu_s": {"median": time}} for words, time in times.items()}
        return {**graphs, LOOP: {"ratio": {"median": ratio}}}

    assert all(promise.holds(measured(0.01, 20, 20)) for promise in PROMISES)
    assert not any(promise.holds(measured(0.011, 21, 19)) for promise in PROMISES)
    assert PROMISES[0].sentence(measured(0.011, 21, 19)) == (
        "FAILS: milliseconds for a graph of 512 words: 11.0, promised at most 10"
    )
