"""Pages of scanned documents with their OCR next to them, in hOCR, ALTO or Tesseract's TSV; or read on the spot."""

import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

OCR_SUFFIXES = (".hocr", ".html", ".alto", ".xml", ".tsv")
IMAGE_SUFFIXES = (".tif", ".tiff", ".png", ".jpg", ".jpeg")


def find_ocr(image: str, folders: Sequence[str] = ()) -> str | None:
    """
    The OCR of an image: a file of its name with an OCR suffix, instead of its own or after it, beside it or at the
    same place in one of the `folders`.

    Args:
        image: the path of the image, which need not exist; relative to the folders where there are any.
        folders: where to look.
    """
    for folder in folders or ("",):
        path = os.path.join(folder, image)
        for stem in (os.path.splitext(path)[0], path):
            for suffix in OCR_SUFFIXES:
                if os.path.isfile(stem + suffix):
                    return stem + suffix
    return None


def page_name(path: str) -> str:
    """A path without the suffixes of images and OCR: the same for a page's image and each OCR of it."""
    while path.lower().endswith(OCR_SUFFIXES + IMAGE_SUFFIXES):
        path = os.path.splitext(path)[0]
    return path


def first_formats(paths: Iterable[str]) -> list[str]:
    """One OCR file for each page, in their order: where there are several, the one whose format `find_ocr` prefers."""
    chosen: dict[str, str] = {}
    for path in paths:
        chosen[page_name(path)] = min(chosen.get(page_name(path), path), path, key=_format)
    return list(chosen.values())


def _format(path: str) -> int:
    return next(number for number, suffix in enumerate(OCR_SUFFIXES) if path.lower().endswith(suffix))


def natural_order(paths: Iterable[str]) -> list[str]:
    """Paths in the order of the numbers in them: page 2 before page 10."""
    return sorted(paths, key=lambda path: [int(p) if p.isdecimal() else p for p in re.split(r"(\d+)", path)])


def read_pages(files: Sequence[str], languages: str, source: str) -> dict[str, Any]:
    """
    Files of one or several pages each as one document.

    Args:
        files: OCR files, or images, which Tesseract reads.
        languages: the text's languages, for Tesseract.
        source: the file to draw on.

    Returns:
        `words`, `boxes`, `page_ids`, `page_sizes`, `segment_ids`, `source` of the schema. Pages without words are
        pages all the same, and a warning names their files.

    Raises:
        InputError: a file cannot be read, or there is no word in all of them.
    """
    from broadsheet.documents import read_document
    from broadsheet.documents.document_builder import NoWordsError

    row: dict[str, Any] = {"words": [], "boxes": [], "page_ids": [], "page_sizes": [], "segment_ids": []}
    empty: list[NoWordsError] = []
    for file in files:
        try:
            page = read_document(file, languages=languages)
        except NoWordsError as error:
            empty.append(error)
            row["page_sizes"] += [list(size) for size in error.page_sizes]
            continue
        pages, segments = len(row["page_sizes"]), max(row["segment_ids"], default=-1) + 1
        row["words"] += page.words
        row["boxes"] += [list(box) for box in page.boxes]
        row["page_ids"] += [pages + number for number in page.page_ids]
        row["page_sizes"] += [list(size) for size in page.page_sizes]
        row["segment_ids"] += [segments + number for number in page.segment_ids or [0] * len(page.words)]
    if not row["words"]:
        raise empty[0] if empty else InputError(f"There are no pages of {source}; check its folder.")
    for fault in empty:
        logger.warning("%s (Its pages are kept, empty.)", fault)
    return {**row, "source": source}
