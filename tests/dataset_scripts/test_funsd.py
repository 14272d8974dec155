import json
import logging
import os
import time
from pathlib import Path

import pytest
from tests.dataset_scripts.funsd_files import block, form, write_form, write_funsd, write_png

from broadsheet.dataset_scripts import load_dataset
from broadsheet.dataset_scripts.funsd import LABELS, png_size
from broadsheet.tokenization.bioes import bioes_names
from broadsheet.tokenization.input_checks import InputError


@pytest.fixture
def funsd(tmp_path: Path) -> Path:
    return write_funsd(tmp_path / "funsd")


@pytest.fixture
def load(tmp_path: Path):
    return lambda *args, **kwargs: load_dataset(*args, cache_dir=str(tmp_path / "cache"), **kwargs)


def test_row_of_a_form(tmp_path, load):
    blocks = [
        block(7, "question", ["", "Your", "name:"], 10, 10, [[7, 9]]),
        block(9, "answer", ["Ann"], 200, 10, [[7, 9]]),
        block(8, "other", ["", " "], 10, 40, []),
        block(3, "other", ["fine", "print"], 10, 70, []),
    ]
    write_form(tmp_path / "f" / "training_data", "a", blocks)
    dataset = load("funsd", data_dir=tmp_path / "f", split="train")
    row = dataset[0]
    assert row["words"] == ["Your", "name:", "Ann", "fine", "print"]
    assert row["boxes"][0] == [55, 10, 95, 22]
    assert dataset.features["labels"].feature.names == LABELS
    assert [LABELS[i] for i in row["labels"]] == ["B-QUESTION", "I-QUESTION", "B-ANSWER", "O", "O"]
    assert row["segment_ids"] == [0, 0, 1, 3, 3]
    assert [e["word_ids"] for e in row["entities"]] == [[0, 1], [2], [], [3, 4]]
    assert row["entities"][1] == {"type": "answer", "word_ids": [2], "text": "Ann"}
    assert row["links"] == [[0, 1]]
    assert row["page_ids"] == [0] * 5
    assert row["page_sizes"] == [[500, 300]]
    assert row["id"] == "a"
    assert row["source"] == str(tmp_path / "f" / "training_data" / "images" / "a.png")


def test_other_is_a_fourth_type_on_request(tmp_path, load):
    blocks = [block(0, "answer", ["Ann"], 10, 10, []), block(1, "other", ["fine", "print"], 10, 70, [])]
    write_form(tmp_path / "f" / "training_data", "a", blocks)
    dataset = load("funsd", data_dir=tmp_path / "f", split="train", funsd_labels=4)
    names = dataset.features["labels"].feature.names
    assert len(bioes_names(names)) == 17
    assert [names[i] for i in dataset[0]["labels"]] == ["B-ANSWER", "B-OTHER", "I-OTHER"]
    with pytest.raises(InputError, match="funsd_labels is 5; set it to 3"):
        load("funsd", data_dir=tmp_path / "f", split="train", funsd_labels=5)


def test_empty_words_are_kept_on_request_and_counted(tmp_path, load, caplog):
    write_form(tmp_path / "f" / "training_data", "a", [block(0, "question", ["", "Name:"], 10, 10, [])])
    with caplog.at_level(logging.WARNING):
        load("funsd", data_dir=tmp_path / "f", split="train")
    assert "1 of 2 words in 1 forms are empty strings: dropped" in caplog.text
    row = load("funsd", data_dir=tmp_path / "f", split="train", keep_empty_words=True)[0]
    assert row["words"] == ["", "Name:"]
    assert [LABELS[i] for i in row["labels"]] == ["B-QUESTION", "I-QUESTION"]


def test_processes_and_streaming_give_the_same_rows(funsd, tmp_path):
    serial = load_dataset("funsd", data_dir=funsd, cache_dir=str(tmp_path / "one"))
    parallel = load_dataset("funsd", data_dir=funsd, cache_dir=str(tmp_path / "two"), num_proc=2)
    assert list(serial) == ["train", "test"]
    for split, rows in (("train", 6), ("test", 3)):
        assert len(serial[split]) == rows
        assert serial[split].to_list() == parallel[split].to_list()
        streamed = load_dataset(
            "funsd", data_dir=funsd, split=split, streaming=True, cache_dir=str(tmp_path / "three")
        )
        assert list(streamed) == serial[split].to_list()
    assert load_dataset("funsd", data_dir=funsd, split="train[:2]", cache_dir=str(tmp_path / "one")).num_rows == 2


def test_cache_is_reused_and_follows_the_files(funsd, load, tmp_path):
    first = load("funsd", data_dir=funsd, split="test")
    again = load("funsd", data_dir=funsd, split="test")
    assert first.cache_files == again.cache_files
    write_form(funsd / "dataset" / "testing_data", "test000", form(5, fields=1))
    os.utime(funsd / "dataset" / "testing_data" / "annotations" / "test000.json", (time.time() + 9, time.time() + 9))
    changed = load("funsd", data_dir=funsd, split="test")
    assert len(changed[0]["entities"]) == 4
    assert changed.cache_files != first.cache_files


def test_page_size_from_the_table_without_image(tmp_path, load):
    write_form(tmp_path / "f" / "dataset" / "training_data", "a", form(0), size=None)
    with pytest.raises(InputError, match=r"page size of .*a\.json is unknown.*image_sizes\.tsv"):
        load("funsd", data_dir=tmp_path / "f")
    (tmp_path / "f" / "image_sizes.tsv").write_text("split\tdocument\twidth\theight\ntraining_data\ta\t600\t800\n")
    assert load("funsd", data_dir=tmp_path / "f", split="train")[0]["page_sizes"] == [[600, 800]]
    assert load("funsd", data_dir=tmp_path / "f" / "dataset", split="train")[0]["page_sizes"] == [[600, 800]]
    (tmp_path / "f" / "image_sizes.tsv").write_text("split\tdocument\twidth\theight\ntraining_data\ta\tx\t800\n")
    with pytest.raises(InputError, match=r"Line 2 of .*image_sizes\.tsv"):
        load("funsd", data_dir=tmp_path / "f")


def test_box_beyond_the_page(tmp_path, load, caplog):
    write_form(tmp_path / "f" / "training_data", "a", [block(0, "answer", ["wide", "word"], 480, 10, [])])
    with pytest.raises(InputError, match=r"word 0 \('wide'\) of document 'a' reaches beyond its page of \(500.0, 300"):
        load("funsd", data_dir=tmp_path / "f")
    with caplog.at_level(logging.WARNING):
        row = load("funsd", data_dir=tmp_path / "f", split="train", clip_boxes=True)[0]
    assert row["boxes"] == [[480, 10, 500, 22], [500, 10, 500, 22]]
    assert "2 boxes reached beyond their page and were clipped" in caplog.text


@pytest.mark.parametrize("num_proc", [None, 2])
def test_broken_files_are_named(funsd, load, num_proc):
    broken = funsd / "dataset" / "training_data" / "annotations" / "form003.json"
    broken.write_text('{"form": [')
    with pytest.raises(InputError, match=r"form003\.json is not valid JSON"):
        load("funsd", data_dir=funsd, num_proc=num_proc)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must hold a list 'form'"),
        ({"form": [{"id": 0, "label": "total", "text": "", "words": [], "linking": []}]}, "the label 'total'"),
        ({"form": [{"id": 0, "label": "other", "text": "", "words": [{"text": "a"}], "linking": []}]}, "malformed"),
        ({"form": [{"id": 0, "label": "other", "text": "", "words": [], "linking": [[0, 4]]}]}, "malformed"),
        ({"form": []}, "'a' has no words"),
    ],
)
def test_files_that_are_no_forms(tmp_path, load, content, message):
    write_form(tmp_path / "f" / "training_data", "a", []).write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        load("funsd", data_dir=tmp_path / "f")


def test_wrong_arguments(funsd, load, tmp_path):
    with pytest.raises(InputError, match=r"no dataset 'fund'; the datasets are .*funsd.*pdf_folder"):
        load("fund", data_dir=funsd)
    with pytest.raises(InputError, match=r"needs data_dir, the folder with dataset/training_data.*guillaumejaume"):
        load("funsd")
    with pytest.raises(InputError, match="does not exist"):
        load("funsd", data_dir=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no files of dataset 'funsd'"):
        load("funsd", data_dir=tmp_path / "empty")
    with pytest.raises(InputError, match="no split 'validation'; its splits are train, test"):
        load("funsd", data_dir=funsd, split="validation")
    with pytest.raises(InputError, match="cannot be streamed"):
        load("funsd", data_dir=funsd, split="train[:2]", streaming=True)
    with pytest.raises(InputError, match="no option 'keep_words'; its options are clip_boxes, funsd_labels, keep"):
        load("funsd", data_dir=funsd, keep_words=True)


def test_questions_are_the_linked_blocks(load, tmp_path):
    blocks = form(0, fields=2)
    blocks[1]["linking"] = [[1, 2], [1, 4]]  # a second answer
    blocks[3]["linking"] = blocks[4]["linking"] = []
    write_form(tmp_path / "f" / "training_data", "a", blocks)
    (row,) = load("funsd", data_dir=tmp_path / "f", split="train", questions=True)
    (asked,) = row["questions"]
    assert asked["question"] == blocks[1]["text"]
    assert asked["answers"] == [blocks[2]["text"], blocks[4]["text"]]
    for answer, (first, last) in zip(asked["answers"], asked["spans"], strict=True):
        assert " ".join(row["words"][first : last + 1]) == answer


def test_png_size(tmp_path):
    write_png(tmp_path / "a.png", 71, 9)
    assert png_size(str(tmp_path / "a.png")) == (71, 9)
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(InputError, match=r"b\.png is not a PNG file or is cut short"):
        png_size(str(tmp_path / "b.png"))


@pytest.mark.data
def test_counts_of_the_official_files(load):
    folder = os.environ.get("BROADSHEET_DATA")
    if not folder or not os.path.isdir(os.path.join(folder, "funsd")):
        pytest.skip("BROADSHEET_DATA does not name a folder with funsd/")
    dataset = load("funsd", data_dir=os.path.join(folder, "funsd"))
    for split, forms, entities, words, links in (("train", 149, 7411, 21888, 4230), ("test", 50, 2332, 8707, 1064)):
        part = dataset[split]
        assert len(part) == forms
        assert sum(map(len, part["words"])) == words
        assert sum(map(len, part["entities"])) == entities
        assert sum(map(len, part["links"])) == links
    types = [entity["type"] for row in dataset["train"] for entity in row["entities"]]
    assert {name: types.count(name) for name in set(types)} == {
        "question": 3266, "answer": 2802, "header": 441, "other": 902,
    }  # fmt: skip
    asking = load("funsd", data_dir=os.path.join(folder, "funsd"), questions=True)
    assert [sum(map(len, asking[split]["questions"])) for split in ("train", "test")] == [2047, 586]
    with_empty = load("funsd", data_dir=os.path.join(folder, "funsd"), keep_empty_words=True)
    assert [sum(map(len, with_empty[split]["words"])) for split in ("train", "test")] == [22512, 8973]
