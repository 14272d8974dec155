"""Frames of image files and of opened images."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from broadsheet.documents import InputError, read_image
from broadsheet.documents.page_images import read_frames

SIZE = (100, 50)


def shaded(size: tuple[int, int] = SIZE) -> Image.Image:
    return Image.fromarray((np.arange(size[0] * size[1]) % 251).astype(np.uint8).reshape(size[::-1]))


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif"])
def test_an_opened_image_is_read_as_its_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"turned{suffix}"
    exif = Image.Exif()
    exif[0x0112] = 6
    shaded().save(path, exif=exif, dpi=(300, 300))
    ((frame, dpi),) = read_frames(path)
    assert frame.size == SIZE[::-1]
    assert dpi == pytest.approx(300, abs=0.1)
    with Image.open(path) as opened:
        ((other, other_dpi),) = read_frames(opened)
        assert opened.filename == str(path)
    assert np.array_equal(np.asarray(frame), np.asarray(other))
    assert other_dpi == dpi


def test_frames_of_an_opened_tiff_are_pages(tmp_path: Path) -> None:
    path = tmp_path / "fax.tif"
    shaded().save(path, save_all=True, append_images=[shaded((30, 20)), shaded((40, 60))])
    with Image.open(path) as opened:
        opened.seek(1)
        assert [frame.size for frame, _ in read_frames(opened)] == [SIZE, (30, 20), (40, 60)]
        assert opened.tell() == 1
        assert [frame.size for frame, _ in read_frames(opened.copy())] == [(30, 20)]


def test_an_animation_gives_the_frame_that_it_shows(tmp_path: Path) -> None:
    frames = [Image.new("L", SIZE, grey) for grey in (0, 100, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with Image.open(tmp_path / "a.gif") as opened:
        opened.seek(1)
        ((frame, _),) = read_frames(opened)
    assert np.asarray(frame.convert("L")).mean() == pytest.approx(100, abs=2)


def test_images_in_memory_of_every_mode() -> None:
    for mode in ("CMYK", "LAB", "YCbCr", "HSV", "1", "P", "RGBA"):
        ((frame, dpi),) = read_frames(Image.new(mode, SIZE))
        assert frame.mode in ("L", "RGB")
        assert dpi is None


def test_faults_of_images_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The image is 0 x 5 pixels"):
        list(read_frames(Image.new("L", (0, 5))))
    shaded().save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:-60])
    with Image.open(tmp_path / "cut.png") as opened, pytest.raises(InputError, match=r"cut\.png is damaged"):
        list(read_frames(opened))


@pytest.mark.parametrize("white", [1, 255, 1023, 4095, 65535])
def test_white_is_white_in_any_number_of_bits(tmp_path: Path, white: int) -> None:
    Image.fromarray(np.array([[0, white]], dtype=np.uint16)).save(tmp_path / "a.tif")
    ((frame, _),) = read_frames(tmp_path / "a.tif")
    assert np.asarray(frame).tolist() == [[0, 255]]


def test_grey_of_16_bits_stays_grey() -> None:
    ((frame, _),) = read_frames(Image.fromarray(np.array([[0, 128 * 257, 200 * 257]], dtype=np.uint16)))
    assert np.asarray(frame).tolist() == [[0, 128, 200]]


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="the program tesseract is not installed")
def test_an_image_in_memory_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pytesseract")
    image = Image.new("CMYK", (600, 120), (0, 0, 0, 0))
    ImageDraw.Draw(image).text((40, 30), "Invoice", fill=(0, 0, 0, 255), font=ImageFont.load_default(48))
    document = read_image(image)
    assert document.words == ["Invoice"]
    assert document.page_sizes == [(600, 120)]
    assert document.source is None
    with pytest.raises(InputError, match="The image has no words"):
        read_image(Image.new("L", SIZE, 255))
