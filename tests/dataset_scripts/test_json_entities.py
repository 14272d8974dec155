import json
import logging

import pytest

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.input_checks import InputError


def record(**changes):
    return {
        "words": ["Invoice", "17", "of", "March", "2"],
        "boxes": [[10 * i, 5, 10 * i + 8, 15] for i in range(5)],
        "page_sizes": [[100, 50]],
        "entities": [{"type": "number", "word_ids": [1]}, {"type": "date", "word_ids": [3, 4]}],
        **changes,
    }


def load(folder, cache, **options):
    return load_dataset("json_entities", data_dir=folder, cache_dir=str(cache), **options)


@pytest.fixture
def write(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()

    def write_split(name, *records):
        lines = [line if isinstance(line, str) else json.dumps(line) for line in records]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return folder

    return write_split


def test_splits_labels_and_defaults(write, tmp_path):
    write("train", record(), "", record(id="mine", page_ids=[0] * 5, source="a.pdf"))
    dataset = load(write("test", record()), tmp_path / "cache")
    assert {name: len(part) for name, part in dataset.items()} == {"test": 1, "train": 2}
    first, second = dataset["train"]
    names = dataset["train"].features["labels"].feature
    assert names.names == ["O", "B-date", "I-date", "B-number", "I-number"]
    assert [names.int2str(label) for label in first["labels"]] == ["O", "B-number", "O", "B-date", "I-date"]
    assert (first["id"], second["id"]) == ("train-1", "mine")
    assert first["entities"][1] == {"type": "date", "word_ids": [3, 4], "text": "March 2"}
    assert first["page_ids"] == [0] * 5
    assert second["source"] == "a.pdf"


def test_streams(write, tmp_path):
    rows = list(load(write("train", record()), tmp_path / "cache", split="train", streaming=True))
    assert [row["words"][1] for row in rows] == ["17"]


def test_types_in_the_order_asked_for(write, tmp_path):
    folder = write("train", record())
    dataset = load(folder, tmp_path / "cache", split="train", entity_types=["number", "date"])
    assert dataset.features["labels"].feature.names[1] == "B-number"
    with pytest.raises(InputError, match="Line 1 .* of the type 'date', which is not in entity_types"):
        load(folder, tmp_path / "cache", entity_types=["number"])


def test_entity_with_a_gap_is_two_in_the_labels_and_one_in_entities(write, tmp_path, caplog):
    folder = write("train", record(entities=[{"type": "number", "word_ids": [1, 3, 4]}]))
    with caplog.at_level(logging.WARNING):
        row = load(folder, tmp_path / "cache", split="train")[0]
    assert row["labels"] == [0, 1, 0, 1, 2]
    assert row["entities"][0]["word_ids"] == [1, 3, 4]
    assert "1 entities have gaps" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"words": [', "Line 2 .* is not valid JSON"),
        ("[1, 2]", "Line 2 .* is no JSON object"),
        (json.dumps({"words": ["a"]}), "Line 2 .* lacks boxes, page_sizes, entities"),
        (record(entities=[{"type": "date", "word_ids": [5]}]), r"word_ids \[5\]; they count the 5 words"),
        (record(entities=[{"type": "date", "word_ids": []}]), "there is at least one"),
        (
            record(entities=[{"type": "date", "word_ids": [1]}, {"type": "number", "word_ids": [1]}]),
            r"word 1 \('17'\) into two entities",
        ),
        (
            record(page_sizes=[[100, 50], [100, 50]]),
            "Line 2 of .*train.jsonl has 2 page_sizes but no page_ids; give the page of each word, from 0",
        ),
        (record(entities=None), "Line 2 .*jsonl has the entities None; write a list"),
        (record(entities="date"), "has the entities 'date'; write a list"),
        (record(entities=["x"]), "Line 2 .*jsonl has 'x' among its entities; write each as"),
        (record(entities=[None]), "has None among its entities; write each as"),
        (record(entities=[{"word_ids": [1]}]), "Line 2 .*jsonl has an entity of the type None; give it a type"),
        (record(entities=[{"type": 3, "word_ids": [1]}]), "has an entity of the type 3; give it a type"),
        (record(entities=[{"type": "", "word_ids": [1]}]), "has an entity of the type ''; give it a type"),
        (record(entities=[{"type": "date"}]), "Line 2 .*jsonl .* 'date' with the word_ids None; write a list"),
        (record(entities=[{"type": "date", "word_ids": None}]), "with the word_ids None; write a list of whole"),
        (record(entities=[{"type": "date", "word_ids": ["0"]}]), r"with the word_ids \['0'\]; write a list of whole"),
        (record(entities=[{"type": "date", "word_ids": [0.0]}]), r"with the word_ids \[0.0\]; write a list of whole"),
        (record(entities=[{"type": "date", "word_ids": [True]}]), r"with the word_ids \[True\]; write a list"),
        (record(entities=[{"type": "date", "word_ids": 1}]), "with the word_ids 1; write a list of whole"),
        (record(entities=[{"type": "date", "word_ids": [1, 1]}]), r"Line 2 .* \[1, 1\], word 1 twice; name it once"),
        (record(words=None), "Line 2 .*jsonl has no words"),
        (record(words=["a", 2, "b", "c", "d"]), "Word 1 of line 2 .*jsonl is 2, not a string"),
        (record(boxes=[[0, 0, 1, 1]] * 4), "5 words but 4 boxes"),
        (record(words=[], boxes=[], entities=[]), "has no words"),
        (record(page_ids=0), "Line 2 .*jsonl has the page_ids 0; write a list"),
        (record(segment_ids=3), "Line 2 .*jsonl has the segment_ids 3; write a list"),
    ],
)
def test_faulty_line_is_named(write, tmp_path, line, message):
    folder = write("train", record(), line)
    with pytest.raises(InputError, match=message):
        load(folder, tmp_path / "cache")


def test_nulls_are_as_left_out(write, tmp_path):
    folder = write("train", record(page_ids=None, id=None, segment_ids=None))
    (row,) = load(folder, tmp_path / "cache", split="train")
    assert (row["page_ids"], row["id"]) == ([0] * 5, "train-1")


def test_any_file_name_is_a_split(write, tmp_path):
    write("train-2024", record())
    write("dev.2 (new)", record())
    folder = write("é", record())
    assert set(load(folder, tmp_path / "cache")) == {"train_2024", "dev_2_new", "é"}
    write("train_2024", record())
    with pytest.raises(InputError, match=r"train-2024.jsonl and .*train_2024.jsonl both name the split 'train_2024'"):
        load(folder, tmp_path / "cache")
    (folder / "train-2024.jsonl").rename(folder / "all.jsonl")
    with pytest.raises(InputError, match=r"all.jsonl cannot name a split; rename it"):
        load(folder, tmp_path / "cache")


def boxes_to(*edges):
    return [[0, 0, *edge] for edge in edges]


def test_boxes_beyond_the_page(write, tmp_path, caplog):
    """By rounding they are cut; by more they are refused, with an option that helps."""
    by_rounding = boxes_to((100.09, 50.04), (100, 50), (9, 9), (9, 9), (9, 9))
    (row,) = load(write("train", record(boxes=by_rounding)), tmp_path / "cache", split="train")
    assert row["boxes"] == boxes_to((100, 50), (100, 50), (9, 9), (9, 9), (9, 9))
    far = [[-1, 0, 9, 9], *boxes_to((100.1, 9), (9, 9), (9, 9), (9, 50.09))]
    for place, box in ((0, r"\[-1, 0, 9, 9\]"), (1, r"\[0, 0, 100.1, 9\]"), (4, r"\[0, 0, 9, 50.09\]")):
        one = [far[index] if index == place else [0, 0, 9, 9] for index in range(5)]
        folder = write("train", record(boxes=one))
        with pytest.raises(InputError, match=f"The box {box} of word {place} .*--dataset_options clip_boxes=true"):
            load(folder, tmp_path / "cache")
    with caplog.at_level(logging.WARNING):
        (row,) = load(write("train", record(boxes=far)), tmp_path / "cache", split="train", clip_boxes=True)
    assert row["boxes"] == boxes_to((9, 9), (100, 9), (9, 9), (9, 9), (9, 50))
    assert "3 boxes reached beyond their page and were clipped." in caplog.text
    broken = record(boxes=[[0, 0, float("inf"), 9], *boxes_to((9, 9), (9, 9), (9, 9), (9, 9))])
    with pytest.raises(InputError, match=r"inf.* is not finite; correct it"):
        load(write("train", broken), tmp_path / "cache", clip_boxes=True)
