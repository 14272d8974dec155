import logging
from pathlib import Path

import pytest

from broadsheet.dataset_scripts import load_dataset, skipped_files
from broadsheet.tokenization.input_checks import InputError

pytest.importorskip("broadsheet.documents")
canvas = pytest.importorskip("reportlab.pdfgen.canvas")


def write_pdf(path: Path, pages: list[str], size: tuple[int, int] = (300, 200)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    page = canvas.Canvas(str(path), pagesize=size)
    for text in pages:
        page.drawString(20, 150, text)
        page.showPage()
    page.save()
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pdf(tmp_path / "pdfs" / "b" / "secret-name.pdf", ["first page", "second page"])
    write_pdf(tmp_path / "pdfs" / "a" / "deep" / "x.PDF", ["other text"])
    (tmp_path / "pdfs" / "a" / "notes.txt").write_text("no PDF")
    return tmp_path / "pdfs"


@pytest.fixture
def load(tmp_path: Path):
    return lambda **kwargs: load_dataset("pdf_folder", cache_dir=str(tmp_path / "cache"), **kwargs)


def test_rows(folder, load):
    dataset = load(data_dir=folder, split="train")
    assert dataset["id"][:] == ["a/deep/x.PDF", "b/secret-name.pdf"]
    row = dataset[1]
    assert row["words"] == ["first", "page", "second", "page"]
    assert row["page_ids"] == [0, 0, 1, 1]
    assert row["page_sizes"] == [[300, 200], [300, 200]]
    assert row["source"] == str(folder / "b" / "secret-name.pdf")
    assert "label" not in row
    assert "secret" not in " ".join(row["words"])
    left, top, right, bottom = row["boxes"][0]
    assert 19 <= left < right < 60
    assert 30 < top < bottom < 60


def test_folders_as_labels(folder, load):
    dataset = load(data_dir=folder, split="train", labels_from_folders=True)
    assert dataset.features["label"].names == ["a", "b"]
    assert dataset["label"][:] == [0, 1]
    write_pdf(folder / "stray.pdf", ["text"])
    with pytest.raises(InputError, match=r"stray\.pdf lies in no sub-folder"):
        load(data_dir=folder, labels_from_folders=True)


@pytest.mark.parametrize("num_proc", [None, 2])
def test_broken_files(folder, load, caplog, num_proc):
    broken = folder / "a" / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 not really")
    with pytest.raises(InputError, match=r"broken\.pdf"):
        load(data_dir=folder, num_proc=num_proc)
    with caplog.at_level(logging.WARNING):
        dataset = load(data_dir=folder, on_error="skip", num_proc=num_proc)
    assert dataset["train"]["id"][:] == ["a/deep/x.PDF", "b/secret-name.pdf"]
    if num_proc is None:
        assert f"Skipped {broken}" in caplog.text
    for again in (dataset, load(data_dir=folder, on_error="skip")["train"]):
        report = skipped_files(again)
        assert [entry["file"] for entry in report] == [str(broken)]
        assert "broken.pdf" in report[0]["reason"]


def test_nothing_usable(tmp_path, load):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.pdf").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"No document of .* could be used; 1 were skipped, the first because"):
        load(data_dir=tmp_path / "bad", on_error="skip")
    with pytest.raises(InputError, match="on_error='ignore' is unknown; choose one of raise, skip"):
        load(data_dir=tmp_path / "bad", on_error="ignore")


def test_streaming(folder, load):
    streamed = list(load(data_dir=folder, split="train", streaming=True))
    assert streamed == load(data_dir=folder, split="train").to_list()


def test_password_of_digits(tmp_path, load):
    (tmp_path / "pdfs").mkdir()
    page = canvas.Canvas(str(tmp_path / "pdfs" / "a.pdf"), encrypt="1234")
    page.drawString(20, 150, "secret")
    page.save()
    # Whoever writes it in a recipe gives a number.
    assert load(data_dir=tmp_path / "pdfs", split="train", password=1234)[0]["words"] == ["secret"]
