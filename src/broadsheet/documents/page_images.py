"""Images of pages: those that an OCR file names, and the frames of an image file, upright and in 8 bits."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from broadsheet.documents.files import check_is_file
from broadsheet.tokenization.input_checks import InputError

IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_ORIENTATION = 0x0112


def find_page_image(path: Path, name: str) -> Path | None:
    """
    The image file that the OCR file at `path` names, if it exists: where the name says, or beside the OCR file.

    Names come from other machines: only existing files with an image's suffix are found.
    """
    name = name.strip()
    # A look at //host/share would already call that host.
    if not name.lower().endswith(IMAGE_SUFFIXES) or name.startswith(("\\\\", "//")):
        return None
    base = name.replace("\\", "/").rpartition("/")[2]
    for candidate in (path.parent / name, path.parent / base):
        try:
            if candidate.is_file():
                return candidate
        except (OSError, ValueError):  # a name too long, or with a zero byte
            continue
    return None


def image_size(path: Path) -> tuple[float, float] | None:
    """Width and height in pixels as stored, unturned (as OCR engines see it); None where it is no readable image."""
    try:
        with Image.open(path) as image:
            return float(image.width), float(image.height)
    except Exception:  # as below: whatever Pillow raises over a damaged file
        return None


def shows_page(path: Path, size: tuple[float, float]) -> bool:
    """Whether an image can stand for a page of this size: it has the same proportions, and is not turned by EXIF."""
    try:
        with Image.open(path) as image:
            # Asked for EXIF data, Pillow decodes a whole PNG image that has none in its head.
            has_exif = image.format != "PNG" or "exif" in image.info
            upright = not has_exif or image.getexif().get(_ORIENTATION, 1) == 1
            return upright and abs(image.width * size[1] / (image.height * size[0]) - 1) < 0.01
    except Exception:
        return False


def image_name(given: Path | Image.Image) -> Path:
    """What messages call an image: its path, as far as it has one."""
    return given if isinstance(given, Path) else Path(getattr(given, "filename", "") or "The image")


def read_frames(given: Path | Image.Image) -> Iterator[tuple[Image.Image, float | None]]:
    """
    The pages of an image file, one after the other, with their resolutions in dots per inch where the file tells it.

    Every frame of a TIFF file is a page; of other files only the first is read. Frames are turned upright as their
    EXIF data say, laid on white where they are transparent, and are of mode L or RGB.

    Args:
        given: the path, or a Pillow image: one opened from a TIFF file gives all frames, any other the one it shows.

    Raises:
        InputError: the file is missing, a folder, empty, no image that Pillow reads, or damaged.
    """
    path = image_name(given)
    if isinstance(given, Path):
        check_is_file(path, "one image file")
        if os.path.getsize(path) == 0:
            raise InputError(f"{path} is empty; get a fresh copy of it.")
    elif not all(given.size):
        raise InputError(f"{path} is {given.width} x {given.height} pixels; leave it out.")
    try:
        if isinstance(given, Path):
            with Image.open(path) as file:
                yield from _frames(file)
        else:
            shown = given.tell()
            try:
                yield from _frames(given)
            finally:
                given.seek(shown)
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image that can be read; convert it to PNG, JPEG or TIFF.") from None
    except Image.DecompressionBombError:
        raise InputError(f"{path} has more pixels than a page needs; scale it down to 300 dots per inch.") from None
    except PermissionError:
        raise InputError(f"{path} cannot be read (permission denied); check its permissions.") from None
    except Exception as error:  # Pillow raises nearly everything over damaged files, KeyError and TypeError among it
        raise InputError(f"{path} is damaged and cannot be read as an image ({error}); get a fresh copy.") from None


def _frames(file: Any) -> Iterator[tuple[Image.Image, float | None]]:
    frames = range(getattr(file, "n_frames", 1)) if file.format == "TIFF" else [file.tell()]
    filename = getattr(file, "filename", "")
    for index in frames:
        file.seek(index)
        # By name, Pillow maps uncompressed TIFF into memory and scrambles turned ones.
        file.filename = ""
        try:
            file.load()
        finally:
            file.filename = filename
        upright = ImageOps.exif_transpose(file)
        yield _to_8_bits(upright), _resolution(file)


def _to_8_bits(image: Image.Image) -> Image.Image:
    if image.mode in ("L", "RGB"):
        return image
    if image.mode.startswith(("I", "F")):  # 16 bits and more: Pillow's own conversion cuts them off
        values = np.asarray(image, dtype=np.float64)
        white = max(values.max(initial=0), 1.0)
        if image.mode != "F":  # scanners put 10 or 12 bits into 16: white is all the bits in use
            white = 2.0 ** int(white).bit_length() - 1
        return Image.fromarray(np.clip(values / white * 255, 0, 255).astype(np.uint8), mode="L")
    if "transparency" in image.info or "A" in image.getbands():
        image = image.convert("RGBA")
        white_page = Image.new("RGB", image.size, (255, 255, 255))
        white_page.paste(image, mask=image.getchannel("A"))
        return white_page
    return image.convert("L" if image.mode == "1" else "RGB")


def _resolution(image: Image.Image) -> float | None:
    """Dots per inch, None where the file tells none or nonsense."""
    try:
        resolution = float(image.info["dpi"][1])
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return resolution if 50 <= resolution <= 2400 else None
