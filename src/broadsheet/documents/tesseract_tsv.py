"""Documents from the TSV tables that Tesseract writes (`tesseract image out tsv`)."""

import os
from pathlib import Path

from broadsheet.documents.document import Document
from broadsheet.documents.document_builder import Box, DocumentBuilder, OnEmptyPage, Piece
from broadsheet.documents.files import decode, read_bytes
from broadsheet.tokenization.input_checks import InputError

COLUMNS = ("level", "page_num", "block_num", "par_num", "line_num", "left", "top", "width", "height", "text")
_NUMBERS = COLUMNS[:-1]
_PAGE, _WORD = 1, 5  # levels; between them are block, paragraph and line


def read_tesseract_tsv(path: str | os.PathLike[str], on_empty_page: OnEmptyPage = "warn") -> Document:
    """
    Read the words of a TSV table of Tesseract, in the table's order.

    Boxes are in pixels of the page's image. Words are the rows of level 5 that have text; segments are the lines
    (block, paragraph and line number); page sizes come from the rows of level 1. Columns are found by their names.
    Quotation marks are letters, as Tesseract writes them.

    Args:
        path: the file.
        on_empty_page: what to do about a page without words: log a warning that names it, raise `InputError`, or
            nothing.

    Raises:
        InputError: the file is missing, empty, no such table, has broken rows, or no words on any page.
    """
    path = Path(path)
    builder = DocumentBuilder(path, on_empty_page)
    parse_tsv(decode(read_bytes(path, "one TSV file"), path), builder)
    return builder.build()


def parse_tsv(text: str, builder: DocumentBuilder, page_size: tuple[float, float] | None = None) -> None:
    """
    Add the pages and words of a table to a document.

    Args:
        text: the table.
        builder: the document so far.
        page_size: the size that the pages shall have, their boxes scaled to it; the table's own when None.

    Raises:
        InputError: at the first faulty row, naming its line.
    """
    path = builder.path
    rows = text.lstrip("\ufeff").split("\n")
    header = [name.strip() for name in rows[0].split("\t")]
    missing = [name for name in COLUMNS if name not in header]
    if len(missing) == len(COLUMNS):
        raise InputError(
            f"Line 1 of {path} is not the header of a Tesseract table (level, page_num, ..., text, by tabs); "
            "write it with `tesseract image out tsv`."
        )
    if missing:
        raise InputError(
            f"The table {path} has no column {', '.join(missing)}; write it with `tesseract image out tsv`."
        )
    columns = [header.index(name) for name in _NUMBERS]
    text_column = header.index("text")
    page_number: float | None = None
    scale = (1.0, 1.0)
    line_key: tuple[float, ...] = ()
    pieces: list[Piece] = []
    for line_number, line in enumerate(rows[1:], 2):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        cells = line.split("\t")
        level, page, *key, left, top, width, height = _numbers(cells, columns, line_number, path)
        if level == _PAGE:
            _finish_line(builder, pieces)
            if page_number is not None and page <= page_number:
                raise InputError(
                    f"Line {line_number} of {path} begins page {page:g} after page {page_number:g}; "
                    "sort the table by pages, and keep one document in a file."
                )
            if width <= 0 or height <= 0:
                raise InputError(
                    f"Line {line_number} of {path} gives page {page:g} the size {width:g} x {height:g}; "
                    "both must be above zero: correct them."
                )
            page_number = page
            scale = (page_size[0] / width, page_size[1] / height) if page_size else (1.0, 1.0)
            builder.start_page(page_size or (width, height))
        elif page != page_number:
            raise InputError(
                f"Line {line_number} of {path} is on page {page:g}, which no row of level 1 begins; keep these rows, "
                "they tell the page's size."
            )
        elif level == _WORD:
            if (page, *key) != line_key:
                _finish_line(builder, pieces)
                line_key = (page, *key)
            if text_column >= len(cells) and line_number == len(rows):
                raise InputError(f"{path} breaks off in line {line_number}; get a fresh copy of it.")
            word = cells[text_column] if text_column < len(cells) else ""
            box: Box = (left * scale[0], top * scale[1], (left + width) * scale[0], (top + height) * scale[1])
            pieces.append(Piece(word, box, line_number))
    _finish_line(builder, pieces)


def _finish_line(builder: DocumentBuilder, pieces: list[Piece]) -> None:
    if pieces:
        builder.add_segment(pieces)
        pieces.clear()


def _numbers(cells: list[str], columns: list[int], line_number: int, path: Path) -> list[float]:
    try:
        return [float(cells[column]) for column in columns]
    except (ValueError, IndexError):
        pass
    for name, column in zip(_NUMBERS, columns, strict=True):
        if column >= len(cells):
            raise InputError(
                f"Line {line_number} of {path} breaks off after {len(cells)} of the table's columns; "
                "get a fresh copy of the file."
            )
        try:
            float(cells[column])
        except ValueError:
            raise InputError(
                f"{name} in line {line_number} of {path} is {cells[column]!r}, not a number; correct the row."
            ) from None
    raise AssertionError("unreachable")
