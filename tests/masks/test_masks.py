from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from tests.pdfs import Text, make_pdf

from broadsheet.documents import Document
from broadsheet.masks import draw_masks, draw_neighbors, pattern_masks
from broadsheet.masks.command import main, masks_command
from broadsheet.tokenization.input_checks import InputError

canvas = pytest.importorskip("reportlab.pdfgen.canvas")


def columns(words: int = 60) -> Document:
    """Two columns read one after the other: what stands side by side is far apart in the text."""
    half = words // 2
    place = np.arange(words) % half
    x = np.where(np.arange(words) < half, 10.0, 30.0)
    boxes = np.stack([x, place * 12.0, x + 15, place * 12.0 + 9], 1)
    return Document(
        words=[f"word{index}" for index in range(words)],
        boxes=boxes.tolist(),
        page_ids=[0] * words,
        page_sizes=[(120.0, 400.0)],
    )


def test_masks_are_the_patterns() -> None:
    masks = {mask.pattern: mask for mask in pattern_masks(columns(), neighbors=6, window=6, block_size=4, blocks=1)}
    assert set(masks) == {"sliding_window", "sliding_window_random", "distance", "distance_sliding_window", "union"}
    sliding, near = masks["sliding_window"].scores, masks["distance"].scores
    assert sliding[30].sum() == 7
    assert (near.sum(1) == 6).all()
    assert near[10, 40], "the word beside it in the other column"
    assert not sliding[10, 40]
    assert np.array_equal(masks["union"].scores, sliding | near)
    crossed = masks["distance_sliding_window"]
    assert np.array_equal(crossed.values, sliding)
    assert (crossed.scores.sum(1) == crossed.values.sum(1)).all()
    random = masks["sliding_window_random"].scores
    assert random[:, :4].all()
    assert random[:4].all()
    assert not random[20:24].all()
    assert np.array_equal(random, pattern_masks(columns(), 6, 6, block_size=4, blocks=1)[1].scores)


def test_pictures() -> None:
    document = columns()
    masks = pattern_masks(document, 6, 6, block_size=4, blocks=1)
    picture = draw_masks(masks)
    assert picture.width > picture.height
    assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 4
    pages = draw_neighbors(document, masks, 10)
    assert len(pages) == 5
    scale = pages[0].width / 120
    offset = pages[0].height - round(400 * scale)
    for page, mask in zip(pages, masks, strict=True):
        tinted = [
            tuple(page.getpixel((int(box[0] * scale + 1), int(box[1] * scale + offset + 1)))) != (255, 255, 255)
            for box in document.boxes
        ]
        attended = mask.scores[10] | mask.values[10]
        assert [index for index, seen in enumerate(tinted) if seen] == np.flatnonzero(attended).tolist()


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    page = canvas.Canvas(str(tmp_path / "two.pdf"), pagesize=(300, 200))
    for text in ("payable within thirty days", "total amount due"):
        page.drawString(20, 150, text)
        page.showPage()
    page.save()
    return tmp_path / "two.pdf"


def test_command(pdf: Path, tmp_path: Path) -> None:
    console = Console(record=True, width=160)
    masks = masks_command(pdf, tmp_path / "out", select="amount", neighbors=3, window=2, console=console)
    text = console.export_text()
    assert "word 5 is “amount” on page 2" in text
    assert "DISTANCE+SW" in text
    assert masks[2].scores.sum(1).tolist() == [3] * 7
    for name in ("masks.png", "neighbors.png"):
        assert Image.open(tmp_path / "out" / name).width > 300
    assert main([str(pdf), "--output", str(tmp_path / "again"), "--word", "0", "--length", "4"]) == 0


def test_text_like_markup_and_a_password(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    locked = make_pdf(tmp_path / "locked.pdf", [[Text("[/x] Doe", 72, 700)]], password="sesame")
    flags = ["--output", str(tmp_path / "out"), "--word", "0"]
    assert main([str(locked), *flags]) == 2
    assert "--password" in capsys.readouterr().err
    assert main([str(locked), *flags, "--password", "sesame"]) == 0
    assert "“[/x]”" in capsys.readouterr().out
    assert Image.open(tmp_path / "out" / "neighbors.png").width > 300


def test_what_attends_to_nothing_has_no_distance(pdf: Path, tmp_path: Path) -> None:
    """The slot of the only word's neighbour lies before the document."""
    console = Console(record=True, width=160)
    masks_command(pdf, tmp_path / "out", word=0, length=1, console=console)
    row = next(line for line in console.export_text().splitlines() if "DISTANCE+SW" in line)
    assert row.split()[-2] == "-"


def test_an_output_that_is_a_file(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main([str(pdf), "--output", str(pdf)]) == 2
    assert "is a file, but there are two pictures" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--word", "99"], "Word 99 is not among"),
        (["--word", "1", "--select", "due"], "not by both"),
        (["--window", "3"], "window is 3; pass an even number"),
        (["--neighbors", "0"], "neighbors is 0"),
    ],
)
def test_what_it_refuses(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture, flags: list[str], says: str
) -> None:
    assert main([str(pdf), "--output", str(tmp_path / "out"), *flags]) == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


def test_numbers() -> None:
    with pytest.raises(InputError, match="length is 0"):
        pattern_masks(columns(), length=0)
