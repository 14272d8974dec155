"""The study of LongLayoutLM's processor: it runs, both sides get the same documents, its promises are of its cases."""

from pathlib import Path

import pytest
from benchmarks import long_layoutlm_processor as study
from benchmarks.catalogue import choose, choose_studies
from benchmarks.command import main
from benchmarks.long_layoutlm_processor import CASES, PATTERNS, PEER, PROMISES, QUICK, Case, Promise

from broadsheet.results.record import read_record
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.tokenizer import train_tokenizer


def test_quick_run(tmp_path: Path) -> None:
    assert main([study.NAME, "--quick", "--skip-tests", "--output", str(tmp_path)]) == 0
    record = read_record(tmp_path / f"{study.NAME}.json")
    assert record.budget["quick"] is True
    assert record.measurements["promises"] == []
    assert set(record.measurements["cases"]) == {str(case) for case in QUICK}
    for results in record.measurements["cases"].values():
        assert set(results) == {PEER, *PATTERNS}
        assert results[PEER]["ratio"]["median"] == 1
        assert all(result["words_per_s"]["median"] > 0 for result in results.values())
    assert len(record.tables[0].rows) == len(QUICK) * (1 + len(PATTERNS))


def test_both_sides_do_the_same_words() -> None:
    documents = study.made_up_documents(3)
    tokenizer = train_tokenizer((" ".join(document["words"]) for document in documents), "bpe", 300, min_frequency=1)
    cut = study.cut_documents(documents, tokenizer, 40, most=2)
    assert len(cut) == 6
    calls = study.make_contestants(tokenizer, cut, 40)
    made = {name: call(cut) for name, call in calls.items()}
    for name in PATTERNS:
        assert (made[name]["input_ids"] == made[PEER]["input_ids"]).all()
        assert (made[name]["attention_mask"] == made[PEER]["attention_mask"]).all()
        assert made[name]["input_ids"].shape == (6, 40)
        assert ("block_members" in made[name]) == (name != "sliding_window")
    assert made[PEER]["attention_mask"].sum(1).min() > 30


def test_windows_are_documents_by_themselves() -> None:
    documents = study.made_up_documents(2)
    tokenizer = train_tokenizer((" ".join(document["words"]) for document in documents), "bpe", 300, min_frequency=1)
    cut = study.cut_documents(documents, tokenizer, 150)
    assert any(len(window["page_sizes"]) == 2 for window in cut)
    for window in cut:
        assert window["page_ids"][0] == 0
        assert len(window["page_sizes"]) == window["page_ids"][-1] + 1
        assert len(window["words"]) == len(window["boxes"]) == len(window["page_ids"])


def test_promises_are_of_measured_cases() -> None:
    assert all(promise.case in CASES and promise.contestant in PATTERNS for promise in PROMISES)
    assert {(promise.case.length, promise.unit, promise.at_most) for promise in PROMISES} == {
        (512, "x", 1.0),
        (4096, "ms", 150),
    }
    case = Case(512, 16, 16, 1, 0)
    assert Promise("union", case, "x", 1.0).sentence(1.0).startswith("holds: union, 512 tokens, 16 at once: 1.00x of")
    assert Promise("union", case, "ms", 150).sentence(151).startswith("FAILS: union, 512 tokens, 16 at once: 151 ms")


def test_chosen_by_name() -> None:
    assert choose_studies([study.NAME]) == [study.STUDY]
    assert choose([study.NAME]) == []


def test_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BROADSHEET_DATA", raising=False)
    with pytest.raises(InputError, match="set BROADSHEET_DATA"):
        study.run(False, tmp_path)
    tokenizer = train_tokenizer(["one two three"], "bpe", 300, min_frequency=1)
    with pytest.raises(InputError, match=r"There are 0 windows of 24 tokens, but 6 are needed"):
        study.measure(QUICK[0], study.made_up_documents(1, 2), tokenizer)
