"""RVL-CDIP and collections of pages: OCR in files beside the images."""

from pathlib import Path
from typing import Any

import pytest

from broadsheet.dataset_scripts import load_dataset, skipped_files
from broadsheet.dataset_scripts.ocr_pages import find_ocr, natural_order
from broadsheet.tokenization.input_checks import InputError

HEADER = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"


def tsv(path: Path, *words: str) -> Path:
    """A page of 200 x 100 pixels in Tesseract's format, its words in one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [HEADER, "1\t1\t0\t0\t0\t0\t0\t0\t200\t100\t-1\t"]
    for index, word in enumerate(words):
        lines.append(f"5\t1\t1\t1\t1\t{index + 1}\t{10 + 40 * index}\t20\t30\t10\t90\t{word}")
    path.write_text("\n".join(lines) + "\n")
    return path


def hocr(path: Path, word: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><div class="ocr_page" title="bbox 0 0 300 400">'
        f'<span class="ocr_line" title="bbox 1 1 90 20"><span class="ocrx_word" title="bbox 5 6 70 18">{word}</span>'
        "</span></div></body></html>"
    )
    return path


@pytest.fixture
def load(tmp_path: Path) -> Any:
    return lambda name, **kwargs: load_dataset(name, cache_dir=str(tmp_path / "cache"), **kwargs)


@pytest.fixture
def rvl(tmp_path: Path) -> Path:
    folder = tmp_path / "rvl"
    (folder / "labels").mkdir(parents=True)
    (folder / "labels" / "train.txt").write_text("imagesa/a/one.tif 0\nimagesb/b/two.tif 15\n")
    (folder / "labels" / "val.txt").write_text("imagesa/a/three.tif 11\n")
    tsv(folder / "images" / "imagesa" / "a" / "one.tsv", "Dear", "Sir")
    hocr(folder / "images" / "imagesb" / "b" / "two.tif.hocr", "MEMO")
    tsv(folder / "images" / "imagesa" / "a" / "three.tsv", "Invoice")
    return folder


def test_rvl_cdip(rvl: Path, load: Any) -> None:
    dataset = load("rvl_cdip", data_dir=rvl)
    assert set(dataset) == {"train", "validation"}
    train = dataset["train"]
    assert train["words"][:] == [["Dear", "Sir"], ["MEMO"]]
    assert [train.features["label"].int2str(label) for label in train["label"]] == ["letter", "memo"]
    assert train[0]["boxes"][0] == [10, 20, 40, 30]
    assert train[0]["page_sizes"] == [[200, 100]]
    assert train["id"][:] == ["train-000001", "train-000002"]
    assert train[0]["source"].endswith("images/imagesa/a/one.tif")
    assert len(train.features["label"].names) == 16


def test_rvl_cdip_with_its_ocr_elsewhere(rvl: Path, load: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "ocr"
    (rvl / "images").rename(elsewhere)
    with pytest.raises(InputError, match=r"one\.tif, of which there is neither OCR nor image"):
        load("rvl_cdip", data_dir=rvl)
    assert len(load("rvl_cdip", data_dir=rvl, ocr_dir=str(elsewhere), split="train")) == 2


def test_rvl_cdip_leaves_out_what_is_missing(rvl: Path, load: Any) -> None:
    (rvl / "images" / "imagesa" / "a" / "one.tsv").unlink()
    (rvl / "images" / "imagesb" / "b" / "two.tif.hocr").unlink()
    (rvl / "images" / "imagesb" / "b" / "two.tif").write_bytes(b"II*\0")
    tsv(rvl / "images" / "imagesa" / "a" / "one.tsv", "Dear")
    train = load("rvl_cdip", data_dir=rvl, on_missing_ocr="skip", split="train")
    assert train["words"][:] == [["Dear"]]
    assert [Path(entry["file"]).name for entry in skipped_files(train)] == ["two.tif"]
    with pytest.raises(InputError, match=r"no OCR of .*two\.tif; set ocr_dir"):
        load("rvl_cdip", data_dir=rvl, on_missing_ocr="raise", split="train")


@pytest.mark.parametrize("line", ["imagesa/a/one.tif 16", "imagesa/a/one.tif", "imagesa/a/one.tif letter"])
def test_rvl_cdip_label_files(rvl: Path, load: Any, line: str) -> None:
    (rvl / "labels" / "train.txt").write_text(f"imagesa/a/one.tif 0\n{line}\n")
    with pytest.raises(InputError, match=r"Line 2 of .*train\.txt is .*, not 'path class'"):
        load("rvl_cdip", data_dir=rvl)


def test_rvl_cdip_names_a_page_once(rvl: Path, load: Any) -> None:
    (rvl / "labels" / "val.txt").write_text("imagesa/a/three.tif 11\nimagesa/a/one.tif 3\n")
    with pytest.raises(InputError, match=r"Line 2 of .*val\.txt names imagesa/a/one\.tif, .* name each page once"):
        load("rvl_cdip", data_dir=rvl)


def test_page_collection(tmp_path: Path, load: Any) -> None:
    folder = tmp_path / "pages"
    tsv(folder / "a" / "page-10.tsv", "last")
    tsv(folder / "a" / "page-2.tsv", "middle", "words")
    hocr(folder / "a" / "page-1.hocr", "first")
    tsv(folder / "b" / "c" / "0001.tsv", "other")
    tsv(folder / "alone.tsv", "alone")
    dataset = load("page_collection", data_dir=folder, split="train")
    rows = {row["id"]: row for row in dataset}
    assert set(rows) == {"a", "b/c", "alone.tsv"}
    row = rows["a"]
    assert row["words"] == ["first", "middle", "words", "last"]
    assert row["page_ids"] == [0, 1, 1, 2]
    assert row["page_sizes"] == [[300, 400], [200, 100], [200, 100]]
    assert len(set(row["segment_ids"])) == 3


def test_pages_read_in_several_formats_count_once(tmp_path: Path, load: Any) -> None:
    """`tesseract page.tif page hocr tsv` writes both."""
    folder = tmp_path / "pages"
    for number in (1, 2):
        tsv(folder / "a" / f"{number}.tsv", "table")
        hocr(folder / "a" / f"{number}.tif.hocr", f"page{number}")
        (folder / "a" / f"{number}.tif").write_bytes(b"II*\0")
    tsv(folder / "a" / "3.tsv", "third")
    for ocr in ("files", "missing"):
        row = load("page_collection", data_dir=folder, ocr=ocr, split="train")[0]
        assert row["words"] == ["page1", "page2", "third"]
        assert row["page_ids"] == [0, 1, 2]


def test_pages_without_words_count(tmp_path: Path, load: Any, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "pages"
    tsv(folder / "a" / "1.tsv", "first")
    blank = hocr(folder / "a" / "2.hocr", "")
    tsv(folder / "a" / "3.tsv", "third")
    tsv(folder / "b" / "1.tsv")
    dataset = load("page_collection", data_dir=folder, split="train")
    assert dataset["id"][:] == ["a"]
    assert dataset[0]["page_ids"] == [0, 2]
    assert dataset[0]["page_sizes"] == [[200, 100], [300, 400], [200, 100]]
    assert f"{blank} has no words on any of its 1 page" in caplog.text
    assert "has no words on any of its 1 page" in skipped_files(dataset)[0]["reason"]


def test_text_without_places_is_a_fault(tmp_path: Path, load: Any) -> None:
    folder = tmp_path / "pages"
    tsv(folder / "a" / "1.tsv", "first")
    page = hocr(folder / "a" / "2.hocr", "lost")
    page.write_text(page.read_text().replace("ocr_line", "ocr_par").replace("ocrx_word", "other"))
    tsv(folder / "b" / "1.tsv", "whole")
    dataset = load("page_collection", data_dir=folder, split="train")
    assert dataset["id"][:] == ["b"]
    (skipped,) = skipped_files(dataset)
    assert "marks no words or lines" in skipped["reason"]


def test_images_without_ocr(tmp_path: Path, load: Any) -> None:
    folder = tmp_path / "pages"
    tsv(folder / "a" / "1.tsv", "read")
    (folder / "b").mkdir()
    (folder / "b" / "1.tif").write_bytes(b"II*\0")
    dataset = load("page_collection", data_dir=folder, split="train")
    assert dataset["id"][:] == ["a"]
    assert "ocr='missing'" in skipped_files(dataset)[0]["reason"]
    with pytest.raises(InputError, match="images but no OCR"):
        load("page_collection", data_dir=folder, on_error="raise", split="train")


def test_options(rvl: Path, load: Any) -> None:
    with pytest.raises(InputError, match="on_missing_ocr='guess' is unknown"):
        load("rvl_cdip", data_dir=rvl, on_missing_ocr="guess")
    with pytest.raises(InputError, match="ocr='all' is unknown"):
        load("page_collection", data_dir=rvl, ocr="all")


def test_natural_order_and_names(tmp_path: Path) -> None:
    assert natural_order(["p10", "p2", "p1"]) == ["p1", "p2", "p10"]
    assert natural_order(["p2²", "p1²", "p10"]) == ["p1²", "p2²", "p10"]
    path = tsv(tmp_path / "x.tsv", "a")
    assert find_ocr("x.tif", [str(tmp_path)]) == str(path)
    assert find_ocr("y.tif", [str(tmp_path)]) is None
