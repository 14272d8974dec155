"""Documents from PDF files that carry their text, read by PDFium."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Literal

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from broadsheet.documents.document import Document
from broadsheet.documents.pdf_text import PageText, read_page_text
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

# PDFium may be entered by one thread at a time.
pdfium_lock = RLock()
_KINDS_WITH_TEXT = (pdfium_c.FPDF_ANNOT_WIDGET, pdfium_c.FPDF_ANNOT_FREETEXT, pdfium_c.FPDF_ANNOT_STAMP)


def read_pdf(
    path: str | os.PathLike[str],
    on_empty_page: Literal["warn", "raise", "ignore"] = "warn",
    password: str | None = None,
) -> Document:
    """
    Read the words of a PDF file, with their boxes, from its text layer.

    Boxes are in points (1/72 inch) of the page as a viewer displays it, turned and cropped as the file says, origin
    top left. A word's box is as wide as its letters' advances and as high as the font's ascent and descent. Words
    end at spaces, line ends, wide gaps and turns of the text; a word hyphenated at a line's end is two words, the
    first with its hyphen. Segments are runs of words in one line without a wide gap. Reading order is the file's,
    with what was filled into form fields at the end of its page.

    Args:
        path: the file.
        on_empty_page: what to do about a page without text (scanned, or blank): log a warning that names it, raise
            `InputError`, or nothing.
        password: opens an encrypted file.

    Raises:
        InputError: the file is missing, empty, no PDF, damaged, encrypted, or has no text on any page.
    """
    if on_empty_page not in ("warn", "raise", "ignore"):
        raise InputError(f"on_empty_page is {on_empty_page!r}; it can be 'warn', 'raise' or 'ignore'.")
    path = Path(path)
    with open_pdf(path, password) as pdf:
        pages = [_read_page(pdf, index, path) for index in range(len(pdf))]
    empty = [index + 1 for index, page in enumerate(pages) if not page.words]
    if len(empty) == len(pages):
        raise InputError(f"{path} has no text on any of its {_count(len(pages), 'page')}; run it through OCR first.")
    if empty and on_empty_page != "ignore":
        message = (
            f"{path} has no text on {_pages(empty)} of {len(pages)}; if there is text to be seen, run it through OCR."
        )
        if on_empty_page == "raise":
            raise InputError(message)
        logger.warning(message)
    _report(path, pages)
    return _join(pages, str(path))


@contextmanager
def open_pdf(path: Path, password: str | None = None) -> Iterator[pdfium.PdfDocument]:
    """
    Open a PDF file for reading or drawing, holding PDFium for this thread.

    Raises:
        InputError: the file is missing, empty, no PDF, truncated, damaged, or encrypted and the password is wrong.
    """
    _check_file(path)
    with pdfium_lock:
        try:
            pdf = pdfium.PdfDocument(path, password=password)
        except pdfium.PdfiumError as error:
            raise _explain(path, error, password) from None
        try:
            if len(pdf) == 0:
                raise InputError(f"{path} is a PDF file without pages; pass one that has some.")
            if not pdfium_c.FPDF_DocumentHasValidCrossReferenceTable(pdf):
                logger.warning(
                    "%s is damaged (its table of contents is broken); what could be recovered of it was read, "
                    "but parts may be missing: compare it with a fresh copy.",
                    path,
                )
            yield pdf
        finally:
            pdf.close()


def _check_file(path: Path) -> None:
    """Raise `InputError` unless the file exists and looks like a complete PDF."""
    if not path.exists():
        raise InputError(f"There is no file {path}; check the path.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the path of one PDF file.")
    try:
        with path.open("rb") as file:
            head = file.read(1024)
            file.seek(max(0, path.stat().st_size - 4096))
            tail = file.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its permissions.") from None
    if not head:
        raise InputError(f"{path} is empty; get a fresh copy of it.")
    if b"%PDF-" not in head:
        raise InputError(f"{path} is not a PDF file (it does not begin with %PDF-); convert it to PDF first.")
    if b"%%EOF" not in tail:
        raise InputError(f"{path} is truncated (its end-of-file mark is missing); get a fresh copy of it.")


def _explain(path: Path, error: pdfium.PdfiumError, password: str | None) -> InputError:
    if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
        if password is None:
            return InputError(f"{path} is protected by a password; pass it as password='...', or --password.")
        return InputError(f"The password does not open {path}; pass the right one.")
    if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
        return InputError(f"{path} is encrypted in a way that PDFium cannot open; save it without encryption.")
    return InputError(f"{path} is damaged and cannot be opened as a PDF file; get a fresh copy of it.")


def load_page(pdf: pdfium.PdfDocument, index: int) -> pdfium.PdfPage:
    """
    Load a page for reading or drawing, with the fields that were filled in and the remarks typed on it.

    PDFium keeps these apart from the page's content, and reads the content alone; so they are merged, in memory.
    """
    page = pdf[index]
    for number in range(pdfium_c.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, number)
        kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
        pdfium_c.FPDFPage_CloseAnnot(annotation)
        if kind in _KINDS_WITH_TEXT:
            if pdfium_c.FPDFPage_Flatten(page, pdfium_c.FLAT_NORMALDISPLAY) == pdfium_c.FLATTEN_FAIL:
                logger.warning("The form fields on page %d could not be read; print the file to PDF first.", index + 1)
            page.close()
            return pdf[index]
    return page


def _read_page(pdf: pdfium.PdfDocument, index: int, path: Path) -> PageText:
    try:
        page = load_page(pdf, index)
    except pdfium.PdfiumError:
        raise InputError(f"Page {index + 1} of {path} is damaged; get a fresh copy of the file.") from None
    try:
        return read_page_text(page)
    except pdfium.PdfiumError:
        raise InputError(f"The text of page {index + 1} of {path} is damaged; get a fresh copy of the file.") from None
    finally:
        page.close()


def _report(path: Path, pages: list[PageText]) -> None:
    num_clipped = sum(page.num_clipped for page in pages)
    if num_clipped:
        clipped = [index + 1 for index, page in enumerate(pages) if page.num_clipped]
        logger.warning(
            "%s has %s reaching over the page's edge on %s; their boxes were clipped to it.",
            path,
            _count(num_clipped, "word"),
            _pages(clipped),
        )
    num_unmapped = sum(page.num_unmapped for page in pages)
    if num_unmapped:
        unmapped = [index + 1 for index, page in enumerate(pages) if page.num_unmapped]
        logger.warning(
            "%s does not tell the letter of %s on %s, read as U+FFFD; where they matter, use OCR.",
            path,
            _count(num_unmapped, "character"),
            _pages(unmapped),
        )


def _join(pages: list[PageText], source: str) -> Document:
    words: list[str] = []
    boxes: list[list[float]] = []
    page_ids: list[int] = []
    segment_ids: list[int] = []
    num_segments = 0
    for index, page in enumerate(pages):
        words += page.words
        boxes += page.boxes.tolist()
        page_ids += [index] * len(page.words)
        if page.words:
            segment_ids += (page.segment_ids + num_segments).tolist()
            num_segments = segment_ids[-1] + 1
    return Document(words, boxes, page_ids, [page.size for page in pages], segment_ids, source)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pages(numbers: list[int]) -> str:
    """`page 3`, or `pages 3, 4, 7`, of many pages only the first ten."""
    shown = ", ".join(map(str, numbers[:10]))
    if len(numbers) > 10:
        shown += f" and {len(numbers) - 10} more"
    return f"page {shown}" if len(numbers) == 1 else f"pages {shown}"
