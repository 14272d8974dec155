"""The demo's corpus: exact labels, the same bytes for the same seed, splits that differ in wording but not in kind."""

import json
import re
from pathlib import Path
from random import Random

import pytest

from broadsheet.demo import ENTITY_TYPES, make_corpus, read_annotated, read_corpus
from broadsheet.demo.sheet import Sheet
from broadsheet.demo.templates import KINDS, draw_document
from broadsheet.demo.wordings import wordings
from broadsheet.documents import InputError
from broadsheet.tokenization.tagging import decode_entities


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora") / "corpus"
    make_corpus(folder, num_train=30, num_test=20, seed=3, progress=False)
    return folder


@pytest.mark.parametrize(("split", "count"), [("train", 30), ("test", 20)])
def test_labels_spell_the_annotated_entities(corpus, split, count):
    labelled, annotated = read_corpus(corpus, split), read_annotated(corpus, split)
    assert len(labelled) == len(annotated) == count
    for (document, labels), (_, annotation) in zip(labelled, annotated, strict=True):
        assert len(labels) == len(document)
        found = {(label, " ".join(document.words[start:end])) for label, start, end in decode_entities(labels, "iob2")}
        assert found == {(entity["type"], entity["text"]) for entity in annotation["entities"]}
        for entity in annotation["entities"]:
            assert {document.page_ids[index] for index in entity["word_ids"]} == {entity["page"]}


def test_every_document_has_the_fields_of_its_kind(corpus):
    kinds = set()
    for _, annotation in read_annotated(corpus, "train") + read_annotated(corpus, "test"):
        types = [entity["type"] for entity in annotation["entities"]]
        assert len(types) == len(set(types))
        assert set(types) == set(ENTITY_TYPES)
        kinds.add(annotation["kind"])
    assert kinds == set(KINDS)


def test_values_of_competing_types_look_alike(corpus):
    """Dates as due dates, totals as net amounts and as amounts in the table: the text does not tell them apart."""

    def shape(text):
        return re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", re.sub(r"\d+", "0", text)))

    for document, annotation in read_annotated(corpus, "train"):
        values = {entity["type"]: entity["text"] for entity in annotation["entities"]}
        if "May" not in values["date"] + values["due_date"]:
            assert shape(values["date"]) == shape(values["due_date"])
        assert shape(values["total"])[0] == shape(values["subtotal"])[0]
        amounts = [word for word in document.words if re.fullmatch(r"[^\d]*\d[\d.,]*[.,]\d\d[^\d]*", word)]
        assert len(amounts) >= 3


def test_layout_conventions_hold_in_both_splits(corpus):
    """What a model can rely on: where standard stationery has its fields."""
    for split in ("train", "test"):
        for document, annotation in read_annotated(corpus, split):
            width, height = document.page_sizes[0]
            x, y, page = {}, {}, {}
            for entity in annotation["entities"]:
                word = entity["word_ids"][0]
                x[entity["type"]], y[entity["type"]] = (
                    document.boxes[word][0] / width,
                    document.boxes[word][1] / height,
                )
                page[entity["type"]] = document.page_ids[word]
            last = document.num_pages - 1
            assert page["sender"] == page["recipient"] == page["number"] == page["date"] == 0
            assert page["due_date"] == page["subtotal"] == page["tax"] == page["total"] == last
            assert y["sender"] < 0.1 < y["recipient"] < 0.3
            assert max(x["sender"], x["recipient"], x["due_date"]) < 0.5 < min(x["number"], x["date"], x["total"])
            assert 0.75 < y["subtotal"] < y["tax"] < y["total"]
            assert y["due_date"] > 0.75


def test_held_out_templates_use_other_words():
    for field in ENTITY_TYPES:
        assert not wordings("train", field) & wordings("test", field)


def test_same_seed_same_bytes(corpus, tmp_path):
    make_corpus(tmp_path / "again", num_train=30, num_test=20, seed=3, progress=False)
    files = sorted(path.relative_to(corpus) for path in corpus.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*.*"))
    assert len(files) == 30 + 20 + 3
    for file in files:
        assert (corpus / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    make_corpus(tmp_path / "other", num_train=1, num_test=0, seed=4, progress=False)
    assert (tmp_path / "other/train/0000.pdf").read_bytes() != (corpus / "train/0000.pdf").read_bytes()


def test_complete_corpus_is_kept_and_another_replaced(tmp_path):
    folder = tmp_path / "corpus"
    make_corpus(folder, num_train=2, num_test=1, progress=False)
    (folder / "train/0000.pdf").write_bytes(b"touched")
    make_corpus(folder, num_train=2, num_test=1, progress=False)
    assert (folder / "train/0000.pdf").read_bytes() == b"touched"
    make_corpus(folder, num_train=1, num_test=1, progress=False)
    assert [path.name for path in sorted((folder / "train").iterdir())] == ["0000.pdf"]
    assert (folder / "train/0000.pdf").read_bytes() != b"touched"


def test_interrupted_making_leaves_nothing(tmp_path, monkeypatch):
    written = []

    def fail_at_the_third(self, path, title):
        written.append(path)
        if len(written) == 3:
            raise KeyboardInterrupt
        original(self, path, title)

    original = Sheet.write
    monkeypatch.setattr(Sheet, "write", fail_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        make_corpus(tmp_path / "corpus", num_train=5, num_test=5, progress=False)
    assert list(tmp_path.iterdir()) == []


def test_bad_input(corpus, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        make_corpus(tmp_path, num_train=1, num_test=1, progress=False)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(InputError, match="pass counts from 0 up"):
        make_corpus(tmp_path / "a", num_train=-1, progress=False)
    with pytest.raises(InputError, match="no split 'dev'"):
        read_corpus(corpus, "dev")
    with pytest.raises(InputError, match="There is no corpus in"):
        read_corpus(tmp_path, "train")


def test_annotation_of_another_file_is_noticed(tmp_path):
    make_corpus(tmp_path / "corpus", num_train=2, num_test=0, progress=False)
    lines = [json.loads(line) for line in (tmp_path / "corpus/train.jsonl").read_text().splitlines()]
    lines[0]["file"], lines[1]["file"] = lines[1]["file"], lines[0]["file"]
    (tmp_path / "corpus/train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match="does not have .* where its annotation says"):
        read_corpus(tmp_path / "corpus", "train")


def test_no_words_lie_on_each_other(corpus):
    for document, _ in read_corpus(corpus, "train") + read_corpus(corpus, "test"):
        for index, (x0, y0, x1, y1) in enumerate(document.boxes):
            for other in range(index + 1, len(document)):
                a0, b0, a1, b1 = document.boxes[other]
                if document.page_ids[index] == document.page_ids[other]:
                    width, height = min(x1, a1) - max(x0, a0), min(y1, b1) - max(y0, b0)
                    assert width < 1 or height < 4, (document.source, document.words[index], document.words[other])


def test_order_of_drawing_varies_between_documents():
    """Reading order is no substitute for the layout: not all documents list their values from top to bottom."""
    falling = 0
    for index in range(40):
        sheet, _ = draw_document(Random(index), "train")
        rows = [piece.y for piece in sheet.pieces if piece.page == 0 and piece.is_value]
        falling += any(later < earlier - 20 for earlier, later in zip(rows, rows[1:], strict=False))
    assert 10 < falling < 40


def test_files_are_named_without_their_kind(corpus):
    assert {path.stem.isdigit() for path in Path(corpus).rglob("*.pdf")} == {True}
