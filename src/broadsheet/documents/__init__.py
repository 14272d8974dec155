"""Documents: words, boxes and pages, and the readers that find them in files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from broadsheet.documents.alto import read_alto
from broadsheet.documents.document import Document
from broadsheet.documents.files import read_bytes
from broadsheet.documents.hocr import read_hocr
from broadsheet.documents.ocr import read_image, read_scanned_pdf
from broadsheet.documents.page_images import IMAGE_SUFFIXES
from broadsheet.documents.pdf import read_pdf
from broadsheet.documents.tesseract_tsv import read_tesseract_tsv
from broadsheet.tokenization.input_checks import InputError

__all__ = [
    "Document",
    "InputError",
    "read_alto",
    "read_document",
    "read_hocr",
    "read_image",
    "read_pdf",
    "read_scanned_pdf",
    "read_tesseract_tsv",
]


def _read_xml(path: str | os.PathLike[str]) -> Document:
    """XML is ALTO, unless it is XHTML, which is hOCR."""
    head = read_bytes(Path(path), "one ALTO or hOCR file")[:4096].lower()
    return read_hocr(path) if b"<html" in head or b"ocr_page" in head else read_alto(path)


_READERS: dict[str, Callable[..., Document]] = {
    ".pdf": read_pdf,
    ".hocr": read_hocr,
    ".htm": read_hocr,
    ".html": read_hocr,
    ".xhtml": read_hocr,
    ".alto": read_alto,
    ".xml": _read_xml,
    ".tsv": read_tesseract_tsv,
    **dict.fromkeys(IMAGE_SUFFIXES, read_image),
}


def read_document(
    path: str | os.PathLike[str],
    ocr: Literal["never", "empty_pages", "always"] = "never",
    languages: str = "eng",
    dpi: float = 300,
    password: str | None = None,
) -> Document:
    """
    Read a document with the reader that its suffix asks for.

    PDF is read by `read_pdf`, or `read_scanned_pdf` where `ocr` asks for it; .hocr and .html by `read_hocr`; .xml by
    `read_alto`, or `read_hocr` where it is XHTML; .tsv by `read_tesseract_tsv`; images by `read_image`, that is with
    Tesseract always, as there is no other way.

    Args:
        path: the file.
        ocr: which pages of a PDF file to read with Tesseract: none, those without a text layer, or all.
        languages: Tesseract's names for the languages of the text, joined by +, as in "eng+deu".
        dpi: how finely to render the pages of a PDF file for Tesseract, in dots per inch.
        password: opens an encrypted PDF file.

    Raises:
        InputError: the suffix is unknown, or the reader refuses the file.
    """
    if ocr not in ("never", "empty_pages", "always"):
        raise InputError(f"ocr is {ocr!r}; it can be 'never', 'empty_pages' or 'always'.")
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        known = ", ".join(sorted(_READERS))
        raise InputError(f"{path} has the suffix {suffix!r}, which no reader takes; convert it to one of: {known}.")
    if suffix == ".pdf" and ocr != "never":
        return read_scanned_pdf(path, "all" if ocr == "always" else "empty", languages, dpi, password)
    if suffix == ".pdf":
        return read_pdf(path, password=password)
    if suffix in IMAGE_SUFFIXES:
        return read_image(path, languages)
    return _READERS[suffix](path)
