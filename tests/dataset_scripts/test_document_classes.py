"""The multi-page classification set: four folders of PDFs, split class by class."""

import os
from pathlib import Path
from typing import Any

import pytest

from broadsheet.dataset_scripts import load_dataset
from broadsheet.dataset_scripts.document_classes import CLASSES
from broadsheet.tokenization.input_checks import InputError

canvas = pytest.importorskip("reportlab.pdfgen.canvas")


def write_pdf(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    page = canvas.Canvas(str(path), pagesize=(300, 200))
    page.drawString(20, 150, text)
    page.showPage()
    page.save()


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for label, folder in CLASSES.items():
        for number in range(8):
            write_pdf(tmp_path / "data" / folder / "deep" / f"{label}-{number}.pdf", f"text number {number}")
    return tmp_path / "data"


def load(corpora: Path, **options: Any) -> Any:
    return load_dataset("document_classes", data_dir=corpora, cache_dir=str(corpora.parent / "cache"), **options)


def test_each_class_is_split_by_itself(corpora: Path) -> None:
    dataset = load(corpora)
    counts = {name: [part["label"][:].count(label) for label in range(4)] for name, part in dataset.items()}
    assert counts == {"train": [5] * 4, "validation": [1] * 4, "test": [2] * 4}
    ids = [identity for part in dataset.values() for identity in part["id"]]
    assert len(set(ids)) == 32
    train = dataset["train"]
    assert train.features["label"].names == list(CLASSES)
    for row in train:
        name = train.features["label"].int2str(row["label"])
        assert name in row["source"]
        assert name not in row["id"] + " ".join(row["words"])


def test_options(corpora: Path) -> None:
    assert len(load(corpora, max_per_class=4)["test"]) == 4
    first, other = load(corpora, split="test"), load(corpora, split="test", split_seed=1)
    assert set(first["source"]) != set(other["source"])
    assert set(load(corpora, validation=0.0)) == {"train", "test"}
    with pytest.raises(InputError, match="shares of each class"):
        load(corpora, validation=0.6, test=0.5)
    with pytest.raises(InputError, match="No document|could be used|fewer than 9"):
        load(corpora, min_words=9)


@pytest.mark.data
def test_real_documents(tmp_path: Path) -> None:
    root = os.environ.get("BROADSHEET_DATA")
    if not root or not Path(root, "vrdu-pdfs").is_dir():
        pytest.skip("BROADSHEET_DATA names no folder with vrdu-pdfs")
    dataset = load_dataset("document_classes", data_dir=root, cache_dir=str(tmp_path), max_per_class=3)
    assert {len(part) for part in dataset.values()} == {8, 4} or sum(map(len, dataset.values())) == 12
    pages = [len(row["page_sizes"]) for part in dataset.values() for row in part]
    assert min(pages) > 1
