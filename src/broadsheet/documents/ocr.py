"""Documents from images of pages, read by Tesseract: image files, and PDF pages without a text layer."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from broadsheet.documents.document import Document
from broadsheet.documents.document_builder import DocumentBuilder, OnEmptyPage, Piece, name_pages
from broadsheet.documents.page_images import image_name, read_frames
from broadsheet.documents.pdf import load_page, open_pdf, pdfium_lock, read_pdf
from broadsheet.documents.pdf_text import PageText, read_page_text
from broadsheet.documents.tesseract_tsv import parse_tsv
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

MAX_SIDE = 32_000  # Tesseract refuses images of 32,768 pixels
MAX_PIXELS = 100_000_000  # a page of A4 at 300 dots per inch has 9 million; posters are rendered more coarsely
# A page with a picture over this share of it and this many words of text at most is likely a stamped scan.
SCAN_SHARE = 0.8
STAMP_WORDS = 30


def read_image(
    path: str | os.PathLike[str] | Image.Image, languages: str = "eng", on_empty_page: OnEmptyPage = "warn"
) -> Document:
    """
    Read the words of an image file with Tesseract; every frame of a TIFF file is a page.

    Boxes are in pixels of the image, turned upright as its EXIF data say; segments are Tesseract's lines, in its
    reading order. Needs the Python package pytesseract (`pip install "broadsheet[ocr]"`) and the program tesseract.

    Args:
        path: the file: PNG, JPEG, TIFF, BMP or WebP; or a Pillow image, whose document has no `source`. One opened
            from a TIFF file gives all frames; a copy of it gives one.
        languages: Tesseract's names for the languages of the text, joined by +, as in "eng+deu".
        on_empty_page: what to do about a page on which Tesseract finds no words: log a warning that names it, raise
            `InputError`, or nothing.

    Raises:
        InputError: the file is missing, no image or damaged, Tesseract or a language is not installed, or no words
            were found on any page.
    """
    given = path if isinstance(path, Image.Image) else Path(path)
    builder = DocumentBuilder(image_name(given), on_empty_page)
    tesseract = _Tesseract(languages)
    for image, dpi in read_frames(given):
        parse_tsv(tesseract.read(image, dpi, f"page {builder.num_pages + 1} of {builder.path}"), builder)
    document = builder.build()
    if isinstance(given, Image.Image):
        document.source = None
    return document


def read_scanned_pdf(
    path: str | os.PathLike[str],
    pages: Literal["empty", "all"] | Iterable[int] = "empty",
    languages: str = "eng",
    dpi: float = 300,
    password: str | None = None,
    on_empty_page: OnEmptyPage = "warn",
) -> Document:
    """
    Read the words of a PDF file whose pages, or some of them, are pictures; these are read with Tesseract.

    The other pages are read from their text layer, as by `read_pdf`. All boxes are in points (1/72 inch) of the page
    as it is displayed; pages stay in the file's order.

    Args:
        path: the file.
        pages: which pages to read with Tesseract: those without any text in their text layer ("empty"; a scan with a
            stamped page number has some, which a warning tells), "all", or the numbers of pages, from 0.
        languages: Tesseract's names for the languages of the text, joined by +, as in "eng+deu".
        dpi: how finely to render the pages, in dots per inch; pages larger than A2 more coarsely.
        password: opens an encrypted file.
        on_empty_page: what to do about a page without words: log a warning that names it, raise `InputError`, or
            nothing.

    Raises:
        InputError: as for `read_pdf` and `read_image`; or there is no such page.
    """
    path = Path(path)
    if not 36 <= dpi <= 1200:
        raise InputError(f"dpi is {dpi}; choose between 36 and 1200 dots per inch, best 300.")
    builder = DocumentBuilder(path, on_empty_page)
    with open_pdf(path, password) as pdf:
        sizes, empty, pictures = [], [], []
        for index in range(len(pdf)):
            text, has_picture = _look_at_page(pdf, index, path)
            sizes.append(text.size)
            if not text.words:
                empty.append(index)
            elif has_picture and len(text.words) <= STAMP_WORDS:
                pictures.append(index)
    wanted = set(_choose_pages(pages, empty, len(sizes), path))
    if stamped := [index for index in pictures if index not in wanted]:
        logger.warning(
            "%s has a picture all over %s, but only a few words of text there, perhaps stamped on a scan; to read the "
            "picture, choose pages=[%s] or 'all'.",
            path,
            name_pages([index + 1 for index in stamped]),
            ", ".join(map(str, stamped[:10])),
        )
    if not wanted:
        return read_pdf(path, on_empty_page=on_empty_page, password=password)
    has_text_pages = bool(set(range(len(sizes))) - wanted - set(empty))
    text_layer = read_pdf(path, on_empty_page="ignore", password=password) if has_text_pages else None
    tesseract = _Tesseract(languages)
    for index, size in enumerate(sizes):
        if index in wanted:
            image, used_dpi = _render(path, index, dpi, password)
            parse_tsv(tesseract.read(image, used_dpi, f"page {index + 1} of {path}"), builder, page_size=size)
        else:
            builder.start_page(size)
            if text_layer is not None:
                _add_page(builder, text_layer, index)
    return builder.build()


class _Tesseract:
    """
    Tesseract, with the languages it shall read.

    Raises:
        InputError: the package pytesseract, the program or a language is not installed.
    """

    def __init__(self, languages: str) -> None:
        try:
            import pytesseract
        except ImportError:
            raise InputError(
                'Reading images needs the Python package pytesseract; install it with `pip install "broadsheet[ocr]"`.'
            ) from None
        self.pytesseract: Any = pytesseract
        self.languages = languages
        try:
            installed = pytesseract.get_languages()
        except pytesseract.TesseractNotFoundError:
            raise InputError(
                "Reading images needs the program tesseract; install it (Debian and Ubuntu: "
                "`apt install tesseract-ocr`, macOS: `brew install tesseract`) or put it on the PATH."
            ) from None
        asked = [language for language in languages.split("+") if language]
        missing = [language for language in asked if language not in installed]
        if missing or not asked:
            named = ", ".join(missing) or repr(languages)
            raise InputError(
                f"Tesseract does not have the language {named} (it has {', '.join(sorted(installed)) or 'none'}); "
                f"install it (Debian and Ubuntu: `apt install tesseract-ocr-{(missing or ['eng'])[0]}`) or choose "
                "another."
            )

    def read(self, image: Image.Image, dpi: float | None, name: str) -> str:
        """The table that Tesseract makes of an image; `name` is what messages call it."""
        config = f"--dpi {round(dpi)}" if dpi else ""
        if max(image.size) > MAX_SIDE:
            raise InputError(
                f"The image of {name} is {image.width} x {image.height} pixels, more than Tesseract reads "
                f"({MAX_SIDE}); scale it down or cut it up."
            )
        try:
            return self.pytesseract.image_to_data(image, lang=self.languages, config=config)
        except self.pytesseract.TesseractError as error:
            reason = " ".join(str(error.message).split())
            raise InputError(
                f"Tesseract cannot read {name} ({reason}); check the image and Tesseract's installation."
            ) from None


def _look_at_page(pdf: pdfium.PdfDocument, index: int, path: Path) -> tuple[PageText, bool]:
    """The text layer of a page, and whether a picture covers nearly all of it."""
    try:
        page = load_page(pdf, index)
        try:
            left, bottom, right, top = page.get_bbox()
            text = read_page_text(page)
            for picture in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=3):
                x0, y0, x1, y1 = picture.get_bounds()
                width, height = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
                if min(width, height) > 0 and width * height > SCAN_SHARE * (right - left) * (top - bottom):
                    return text, True
            return text, False
        finally:
            page.close()
    except pdfium.PdfiumError:
        raise InputError(f"Page {index + 1} of {path} is damaged; get a fresh copy of the file.") from None


def _choose_pages(pages: str | Iterable[int], empty: list[int], num_pages: int, path: Path) -> list[int]:
    if isinstance(pages, str):
        if pages not in ("empty", "all"):
            raise InputError(f"pages is {pages!r}; it can be 'empty', 'all', or the numbers of pages, from 0.")
        return empty if pages == "empty" else list(range(num_pages))
    chosen = list(pages)
    for page in chosen:
        if not 0 <= page < num_pages:
            raise InputError(f"{path} has no page {page}; its pages are numbered from 0 to {num_pages - 1}.")
    return chosen


def _render(path: Path, index: int, dpi: float, password: str | None) -> tuple[Image.Image, float]:
    """A page as a grey picture, and its dots per inch. PDFium is held for the rendering only, not for the OCR."""
    with pdfium_lock:
        pdf = pdfium.PdfDocument(path, password=password)
        try:
            page = load_page(pdf, index)
            width, height = page.get_size()
            scale = min(dpi / 72, MAX_SIDE / max(width, height), (MAX_PIXELS / (width * height)) ** 0.5)
            return page.render(scale=scale, grayscale=True).to_pil().convert("L"), scale * 72
        except pdfium.PdfiumError:
            raise InputError(f"Page {index + 1} of {path} cannot be rendered; get a fresh copy of the file.") from None
        finally:
            pdf.close()


def _add_page(builder: DocumentBuilder, document: Document, page: int) -> None:
    """Copy a page of a document, segment by segment."""
    segments: dict[int, list[Piece]] = {}
    for index in document.word_ids_of_page(page):
        x0, y0, x1, y1 = document.boxes[index]
        segment = document.segment_ids[index] if document.segment_ids is not None else index
        segments.setdefault(segment, []).append(Piece(document.words[index], (x0, y0, x1, y1), 0))
    for pieces in segments.values():
        builder.add_segment(pieces)
