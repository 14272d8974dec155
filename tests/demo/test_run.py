from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from broadsheet.demo import run
from broadsheet.documents import Document
from broadsheet.results.markdown import render_results
from broadsheet.results.record import read_record


def document(source=None, pages=2):
    words = [f"w{index}" for index in range(6)]
    boxes = [[10.0 * index, 5.0, 10.0 * index + 8, 15.0] for index in range(6)]
    return Document(words, boxes, [0, 0, 0, 0, 1, 1], [(100.0, 50.0)] * pages, source=source)


def test_shuffling_deals_the_boxes_of_each_page_anew():
    labels = ["O"] * 6
    (shuffled, kept), (same_again, _) = (run.shuffle_boxes([(document(), labels)], 3)[0] for _ in range(2))
    assert shuffled.boxes == same_again.boxes != document().boxes
    assert kept == labels
    assert shuffled.words == document().words
    for page in range(2):
        words = document().word_ids_of_page(page)
        boxes = [Counter(tuple(each.boxes[word]) for word in words) for each in (shuffled, document())]
        assert boxes[0] == boxes[1]


def test_the_longest_document_is_the_one_to_show():
    assert run.longest([document("a.pdf"), document("b.pdf", pages=3), document("c.pdf", pages=3)]) == "b.pdf"


@pytest.mark.slow
def test_the_whole_demo_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "NUM_TRAIN", 12)
    monkeypatch.setattr(run, "NUM_TEST", 4)
    monkeypatch.setenv("COLUMNS", "200")
    with (tmp_path / "log").open("w") as log:
        run.run_demo(tmp_path / "demo", epochs=1, console=Console(file=log, width=200))
    printed = (tmp_path / "log").read_text()
    for _, sees, _, _ in run.CONTESTANTS:
        assert sees in printed
    assert (tmp_path / "demo" / "fields.png").stat().st_size > 10_000
    before = {path: path.stat().st_mtime_ns for path in Path(tmp_path / "demo").rglob("model.safetensors")}
    assert len(before) == 3
    with (tmp_path / "log").open("w") as log:
        run.run_demo(tmp_path / "demo", epochs=1, console=Console(file=log, width=200), record=tmp_path)
    assert "words and their boxes" in render_results([read_record(tmp_path / "demo.json")])
    assert (tmp_path / "log").read_text().count("is complete") == 3
    assert before == {path: path.stat().st_mtime_ns for path in Path(tmp_path / "demo").rglob("model.safetensors")}
