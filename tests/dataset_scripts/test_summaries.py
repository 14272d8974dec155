"""Corpora of summaries: small files in their official formats, and the real ones where they are."""

import json
import os
from pathlib import Path

import pytest

from broadsheet.dataset_scripts import load_dataset, skipped_files
from broadsheet.tokenization.input_checks import InputError

PAPER = {
    "article_id": "PMC1",
    "article_text": ["a first sentence .", "and the second , longer one ."],
    "abstract_text": ["<S> what it says . </S>", "<S> and why . </S>"],
    "labels": None,
    "section_names": ["intro"],
    "sections": [["a first sentence .", "and the second , longer one ."]],
}
MEETING = {
    "topic_list": [],
    "general_query_list": [{"query": "Summarize the whole meeting", "answer": "They met."}],
    "specific_query_list": [
        {"query": "What did A say?", "answer": "Hello.", "relevant_text_span": [["0", "1"]]},
        {"query": "What else?", "answer": "Nothing.", "relevant_text_span": [["1", "1"]]},
    ],
    "meeting_transcripts": [
        {"speaker": "A", "content": "Hello {vocalsound} there ."},
        {"speaker": "B", "content": "{disfmarker}"},
    ],
}


def write_lines(path: Path, *records: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", ["arxiv_summarization", "pubmed_summarization"])
def test_papers(tmp_path, name):
    folder = tmp_path / f"{name.split('_')[0]}-dataset"
    write_lines(folder / "train.txt", PAPER, {**PAPER, "article_id": "PMC2", "article_text": []}, PAPER)
    write_lines(folder / "val.txt", PAPER)
    dataset = load_dataset(name, data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in dataset.items()} == {"train": 2, "validation": 1}
    row = dataset["train"][0]
    assert row["id"] == "PMC1"
    assert row["words"] == ["a", "first", "sentence", ".", "and", "the", "second", ",", "longer", "one", "."]
    assert row["summary"] == "what it says .\nand why ."
    assert row["boxes"] is None
    assert [report["reason"] for report in skipped_files(dataset["train"])] == ["Line 2 has no text."]
    inside = load_dataset(name, data_dir=folder, split="train", streaming=True)
    assert [each["id"] for each in inside] == ["PMC1", "PMC1"]


def test_broken_papers(tmp_path):
    write_lines(tmp_path / "train.txt", PAPER, {"article_id": "PMC2", "article_text": "one string"})
    with pytest.raises(InputError, match=r"Line 2 of .*train.txt has no article_text, a list of sentences"):
        load_dataset("pubmed_summarization", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    write_lines(tmp_path / "train.txt", PAPER, '{"article_id": ')
    with pytest.raises(InputError, match=r"Line 2 of .*train.txt is not valid JSON"):
        load_dataset("pubmed_summarization", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"holds no files of dataset .*train.txt, val.txt and test.txt"):
        load_dataset("arxiv_summarization", data_dir=tmp_path / "..", cache_dir=str(tmp_path / "cache"))


def test_meetings(tmp_path):
    for split, count in (("train", 2), ("val", 1)):
        for number in range(count):
            path = tmp_path / "data" / "ALL" / split / f"M{number}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(MEETING))
    dataset = load_dataset("qmsum", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in dataset.items()} == {"train": 2, "validation": 1}
    assert dataset["train"][1]["words"] == ["A:", "Hello", "there", ".", "B:"]
    assert dataset["train"][1]["summary"] == "They met."
    every = load_dataset(
        "qmsum", data_dir=tmp_path, split="validation", cache_dir=str(tmp_path / "cache"), queries="all", clean=False
    )
    assert [row["id"] for row in every] == ["M0-general-0", "M0-specific-0", "M0-specific-1"]
    assert every[1]["words"][:6] == ["What", "did", "A", "say?", "A:", "Hello"]
    assert "{vocalsound}" in every[1]["words"]
    with pytest.raises(InputError, match="queries is 'some'; choose general, specific or all"):
        load_dataset("qmsum", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"), queries="some")


def test_meetings_as_lines(tmp_path):
    write_lines(tmp_path / "train.jsonl", MEETING, {"meeting": 1})
    with pytest.raises(InputError, match=r"Line 2 of .*train.jsonl is no meeting of QMSum"):
        load_dataset("qmsum", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    write_lines(tmp_path / "train.jsonl", MEETING, MEETING)
    rows = load_dataset("qmsum", data_dir=tmp_path, split="train", cache_dir=str(tmp_path / "cache"))
    assert rows["id"][:] == ["train-1-general-0", "train-2-general-0"]


def test_broken_files(tmp_path):
    """Neither another encoding nor an empty file ends in a traceback; a byte order mark is no fault."""

    def load(content, name="text_summaries", file="train.jsonl"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(content)
        return load_dataset(name, data_dir=tmp_path, split="train", cache_dir=str(tmp_path / "cache"))

    line = json.dumps({"text": "caf\u00e9", "summary": "few"}, ensure_ascii=False)
    assert load(line.encode("utf-8-sig"))[0]["words"] == ["caf\u00e9"]
    with pytest.raises(InputError, match=r"train.jsonl is no text in UTF-8 .*save it in that encoding"):
        load(line.encode("latin-1"))
    with pytest.raises(InputError, match=r"Split 'train' of .* has no documents; remove its files, or fill them"):
        load(b"")
    (tmp_path / "train.jsonl").unlink()
    meeting = json.dumps(MEETING).replace("Hello", "H\u00e9llo").encode("latin-1")
    with pytest.raises(InputError, match=r"M0.json is not valid JSON \('utf-8' codec"):
        load(meeting, "qmsum", "train/M0.json")


def test_text_and_words(tmp_path):
    layout = {"words": ["two", "words"], "boxes": [[0, 0, 5, 5], [6, 0, 9, 5]], "page_sizes": [[10, 10]]}
    write_lines(tmp_path / "train.jsonl", {"text": "one two  three", "summary": "few"}, {**layout, "summary": "two"})
    rows = load_dataset("text_summaries", data_dir=tmp_path, split="train", cache_dir=str(tmp_path / "cache"))
    assert rows[0]["words"] == ["one", "two", "three"]
    assert rows[0]["boxes"] is None
    assert rows[1]["page_ids"] == [0, 0]
    assert rows[1]["boxes"][1] == [6, 0, 9, 5]
    beyond = {**layout, "boxes": [[0, 0, 5, 5], [6, 0, 12, 5]], "page_ids": None, "id": None, "summary": "two"}
    write_lines(tmp_path / "train.jsonl", beyond)
    options = {"data_dir": tmp_path, "split": "train", "cache_dir": str(tmp_path / "cache")}
    (row,) = load_dataset("text_summaries", clip_boxes=True, **options)
    assert (row["id"], row["page_ids"], row["boxes"][1]) == ("train-1", [0, 0], [6, 0, 10, 5])
    with pytest.raises(InputError, match="reaches beyond its page .*--dataset_options clip_boxes=true"):
        load_dataset("text_summaries", **options)
    for record, sentence in (
        ({"text": "a", "words": ["a"], "summary": "b"}, "both or neither of text and words"),
        ({"text": "a"}, "no text, or no summary"),
        ({"text": " ", "summary": "b"}, "Line 1 of .*has no words"),
        ({"text": "a", "summary": " "}, "has no summary; leave it out"),
        ({"words": ["a"], "boxes": [[0, 0, 1, 1]], "summary": "b"}, "boxes but no page_sizes"),
    ):
        write_lines(tmp_path / "train.jsonl", record)
        with pytest.raises(InputError, match=sentence):
            load_dataset("text_summaries", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))


@pytest.mark.data
@pytest.mark.skipif("BROADSHEET_DATA" not in os.environ, reason="BROADSHEET_DATA, the folder of real data, is not set")
def test_real_corpora(tmp_path):
    data, cache = Path(os.environ["BROADSHEET_DATA"]), str(tmp_path)
    papers = load_dataset("pubmed_summarization", data_dir=data / "pubmed-cohan", cache_dir=cache)
    assert {split: len(rows) for split, rows in papers.items()} == {"train": 77, "validation": 10}
    assert len(skipped_files(papers)) == 3
    meetings = load_dataset("qmsum", data_dir=data / "qmsum", cache_dir=cache)
    assert {split: len(rows) for split, rows in meetings.items()} == {"train": 162, "validation": 35}
    every = load_dataset("qmsum", data_dir=data / "qmsum", split="train", cache_dir=cache, queries="all")
    assert len(every) == 1257
