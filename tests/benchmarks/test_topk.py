"""The study of the top-k operators: it runs, its quality is what the operators give, its promises are of its sizes."""

from pathlib import Path

import pytest
import torch
from benchmarks import topk
from benchmarks.catalogue import choose, choose_studies
from benchmarks.command import main
from benchmarks.topk import HALVING, HARD, ITERATIVE, PLAIN, Promise, Size, names_at, quality

from broadsheet.modeling.successive_halving import plain_successive_halving
from broadsheet.results.record import read_record
from broadsheet.tokenization.input_checks import InputError


def test_quick_run(tmp_path: Path) -> None:
    assert main(["topk", "--quick", "--skip-tests", "--output", str(tmp_path)]) == 0
    record = read_record(tmp_path / "topk_operators.json")
    assert record.budget["quick"] is True
    assert record.measurements["promises"] == []
    assert set(record.measurements["sizes"]["64 to 16, width 4"]) == set(topk.CONTESTANTS)
    assert set(record.measurements["sizes"]["64 to 16, width 8"]) == {HARD, HALVING, PLAIN}
    assert [row[0] for row in record.tables[2].rows] == ["forward"]
    assert all(len(row) == len(table.columns) for table in record.tables for row in table.rows)
    assert all((tmp_path / figure).stat().st_size > 10_000 for figure in record.figures)


def test_chosen_by_name() -> None:
    assert choose_studies(["topk"]) == [topk.STUDY]
    assert topk.STUDY in choose_studies(["all"])
    assert choose(["topk"]) == []
    assert choose_studies(["skimformer-*"]) == []
    with pytest.raises(InputError, match="no benchmark nonsense"):
        choose_studies(["topk", "nonsense"])


def test_quality() -> None:
    size = Size(512, 64, 16)
    found = {name: quality(name, size, 2) for name in topk.CONTESTANTS}
    assert found[HARD] == pytest.approx(1.0, abs=1e-5)
    assert found["LapSum"] == pytest.approx(1.0, abs=1e-5)
    assert found[HALVING] == pytest.approx(found[PLAIN], abs=1e-4)
    assert found["random"] < found["without sorting"] < found[HALVING]


def test_the_lean_loop_is_successive_halving() -> None:
    embeddings, scores = topk.entries(Size(256, 32, 8), 2)
    vectors, values = topk.lean_halving(embeddings, scores, 32)
    expected = plain_successive_halving(embeddings, scores, 32, preserve_order=False)
    torch.testing.assert_close((vectors, values), expected)


def test_what_takes_too_long_is_left_out() -> None:
    assert ITERATIVE in names_at(Size(8192, 2048, 32))
    assert ITERATIVE not in names_at(Size(8192, 4096, 32))


def test_promises_are_of_measured_sizes() -> None:
    sizes = {topk.LEAN: topk.NARROW}
    assert all(promise.size in sizes.get(promise.peer, [*topk.SWEEP, *topk.WIDE]) for promise in topk.PROMISES)
    promise = Promise(Size(64, 16, 8), HARD, 6.0)
    assert promise.sentence(6.0).startswith("holds: successive halving 64 to 16, width 8: 6.00x of hard top-k")
    assert promise.sentence(6.1).startswith("FAILS")
