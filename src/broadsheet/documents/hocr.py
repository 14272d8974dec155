"""Documents from hOCR files, the HTML that Tesseract, OCRopus, Kraken and converters of other OCR formats write."""

import logging
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from broadsheet.documents.document import Document
from broadsheet.documents.document_builder import Box, DocumentBuilder, OnEmptyPage, Piece
from broadsheet.documents.files import decode, read_bytes
from broadsheet.documents.page_images import find_page_image, image_size, shows_page
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

_LINE_CLASSES = {
    "ocr_line",
    "ocrx_line",
    "ocr_textfloat",
    "ocr_header",
    "ocr_footer",
    "ocr_caption",
    "ocr_pageno",
}
_WORD_CLASSES = {"ocrx_word", "ocr_word"}
_CHARACTER_CLASSES = {"ocrx_cinfo", "ocr_cinfo"}
_BLOCK_CLASSES = {"ocr_carea", "ocr_column", "ocr_par", "ocrx_block"}
_UNREAD_ELEMENTS = {"head", "script", "style"}
_VOID_ELEMENTS = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BOX = re.compile(rf"\bbbox[\s,]+({_NUMBER})[\s,]+({_NUMBER})[\s,]+({_NUMBER})[\s,]+({_NUMBER})")
_QUOTED = re.compile(r'"[^"]*"')
_IMAGE = re.compile(r"""(?:^|;)\s*(?:image|file|x_source)\s+(?:"([^"]*)"|'([^']*)'|([^;]*))""")


def read_hocr(path: str | os.PathLike[str], on_empty_page: OnEmptyPage = "warn") -> Document:
    """
    Read the words of an hOCR file, in the file's order.

    Boxes are in pixels of the page's image, as the file has them. Words are the elements of class ocrx_word or
    ocr_word, with all text inside them; segments are the elements of class ocr_line, ocrx_line, ocr_textfloat,
    ocr_header, ocr_footer, ocr_caption and ocr_pageno, else the paragraph or block around the words. Text of a line
    outside of its words, lines without words, and words without a box get boxes estimated from the line's box by
    counting characters, and a warning says how many. Words without text are passed over. The file need not be
    well-formed XHTML.

    The size of a page is the lower right corner of its bbox; where it has none, the size of the page's image if that
    is found, else the words' extent, which is reported. `source` is the page's image where it exists (where the file
    says, or beside it) and is one for all pages, else the path of the hOCR file.

    Args:
        path: the file.
        on_empty_page: what to do about a page without words: log a warning that names it, raise `InputError`, or
            nothing.

    Raises:
        InputError: the file is missing, empty, no hOCR, truncated, has broken boxes or no words on any page.
    """
    path = Path(path)
    text = decode(read_bytes(path, "one hOCR file"), path)
    builder = DocumentBuilder(path, on_empty_page)
    parser = _HocrParser(builder)
    parser.feed(text)
    parser.finish(last_line=text.rstrip().count("\n") + 1)
    source = None
    if len(set(parser.images)) == 1:
        image, size = find_page_image(path, parser.images[0]), parser.page_sizes[0]
        if image is not None and size is not None and shows_page(image, size):
            source = str(image)
    return builder.build(source, segments=parser.has_segments)


class _Element(NamedTuple):
    tag: str
    role: str  # page, block, line, word, character, unread, or nothing: ""
    name: str  # the hOCR class behind the role
    box: Box | None
    line_number: int


class _HocrParser(HTMLParser):
    """
    Walks through the file with a stack of open elements.

    HTML may leave elements open: a page, line or word also ends where the next of its kind begins, and an end tag
    ends everything opened since its start tag.
    """

    def __init__(self, builder: DocumentBuilder) -> None:
        super().__init__(convert_charrefs=True)
        self.builder = builder
        self.images: list[str] = []  # per page, as named; "" for none
        self.page_sizes: list[tuple[float, float] | None] = []
        self.has_segments = True
        self.stack: list[_Element] = []
        self.pieces: list[Piece] = []  # of the open line
        self.loose: list[str] = []  # text of the open line since its last word, and the line of the file it begins in
        self.loose_line_number = 0
        self.texts: list[str] = []  # of the open word
        self.has_characters = False  # the open word is marked up by characters, white space between them is layout
        self.ended = False  # </body> or </html> was seen

    # What the parser reports.

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID_ELEMENTS:
            if tag == "br":
                self.handle_data(" ")
            return
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        role, name = _role(tag, classes)
        box = None
        if role and role != "unread":
            box = self._box(attributes.get("title") or "")
        element = _Element(tag, role, name, box, self.getpos()[0])
        if role == "page":
            self._start_page(attributes.get("title") or "", box)
        elif role == "line":
            self._start_line(name)
        elif role == "word":
            if self._open("word") and box is None and not "".join(self.texts).strip():
                element = element._replace(role="")  # old Tesseract marks every word twice, the inner without a box
            else:
                self._start_word()
        elif role == "block" and not self._open("line"):
            self._flush()
        elif role == "character":
            self.has_characters = self._open("word") is not None
        self.stack.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("body", "html"):
            self.ended = True
        if any(element.tag == tag for element in self.stack):
            while self._pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._open("word"):
            self.texts.append(data)
        elif self._open("line"):
            if not self.loose:
                self.loose_line_number = self.getpos()[0]
            self.loose.append(data)
        elif data.strip() and self._open("page") and not self._open("unread"):
            self.builder.count_unread(data)

    def finish(self, last_line: int) -> None:
        """End the parse; `InputError` where the file is no hOCR or breaks off."""
        path = self.builder.path
        breaks_off = self.rawdata.lstrip().startswith("<")
        self.close()
        if self.builder.num_pages == 0 and not breaks_off:
            raise InputError(
                f"{path} is not an hOCR file (it has no element of class ocr_page); check that it is the right file."
            )
        if breaks_off or (self._open("page") and not self.ended):
            raise InputError(
                f"{path} breaks off in line {last_line}, within page {max(self.builder.num_pages, 1)}; "
                "get a fresh copy of it."
            )
        if not self.ended and any(element.tag in ("html", "body") for element in self.stack):
            logger.warning("%s has no </html> at its end; pages may be missing: compare it with a fresh copy.", path)
        while self.stack:
            self._pop()

    # What that means.

    def _start_page(self, title: str, box: Box | None) -> None:
        self._end("page")
        named = _IMAGE.search(title)
        name = next(filter(None, named.groups()), "") if named else ""
        size = None
        if box is not None:
            size = box[2], box[3]
            if size[0] <= 0 or size[1] <= 0:
                raise InputError(
                    f"The page in line {self.getpos()[0]} of {self.builder.path} is {size[0]:g} wide and {size[1]:g} "
                    "high; both must be above zero: correct its bbox."
                )
        elif (image := find_page_image(self.builder.path, name)) is not None:
            size = image_size(image)
        self.images.append(name)
        self.page_sizes.append(size)
        self.builder.start_page(size)

    def _start_line(self, name: str) -> None:
        self._check_within_page("line")
        self._end("word")
        outer = self._open("line")
        # An ocr_line may stand within an ocr_header or so; within another ocr_line it was left open.
        if outer is not None and (outer.name == name or name != "ocr_line"):
            self._end("line")
        self._flush()

    def _start_word(self) -> None:
        self._check_within_page("word")
        self._end("word")
        self._gather_loose_text()
        self.has_characters = False

    def _end(self, role: str) -> None:
        """End the innermost open element of this role, and what is open within it."""
        if self._open(role):
            while self._pop().role != role:
                pass

    def _pop(self) -> _Element:
        element = self.stack.pop()
        if element.role == "word":
            text = "".join(self.texts)
            if self.has_characters:
                text = "".join(text.split())
            self.pieces.append(Piece(text, element.box, element.line_number))
            self.texts = []
            if not self._open("line"):
                self._add_word_outside_of_lines()
        elif element.role == "line":
            self._flush(element)
        elif element.role == "page" or (element.role == "block" and not self._open("line")):
            self._flush()
        return element

    def _add_word_outside_of_lines(self) -> None:
        """Words in one paragraph or block, without a line, are one segment; on the bare page they have none."""
        if not self._open("block") and self.pieces[-1].text.strip():
            self.has_segments = False
            self._flush()

    def _flush(self, line: _Element | None = None) -> None:
        """Hand the words gathered so far to the document, as one segment."""
        self._gather_loose_text()
        line = line or self._open("line")
        if self.pieces:
            self.builder.add_segment(self.pieces, line.box if line else None)
            self.pieces = []

    def _gather_loose_text(self) -> None:
        """Make one piece of the line's text outside of words, through which inline markup may run."""
        if self.loose:
            text = "".join(self.loose)
            if text.strip():
                self.pieces.append(Piece(text, None, self.loose_line_number))
            self.loose = []

    def _open(self, role: str) -> _Element | None:
        for element in reversed(self.stack):
            if element.role == role:
                return element
        return None

    def _check_within_page(self, what: str) -> None:
        if not self._open("page"):
            raise InputError(
                f"The {what} in line {self.getpos()[0]} of {self.builder.path} stands on no page (in no element of "
                "class ocr_page); wrap it in one that has the page's bbox."
            )

    def _box(self, title: str) -> Box | None:
        match = _BOX.search(_QUOTED.sub("", title))
        if match is None:  # a quotation mark within the image's name may have cut the attribute short
            match = _BOX.search(self.get_starttag_text() or "")
        if match is None:
            if re.search(r"\bbbox\b", title):
                raise InputError(
                    f"The bbox in line {self.getpos()[0]} of {self.builder.path} is not four numbers ({title!r}); "
                    "correct it."
                )
            return None
        x0, y0, x1, y1 = map(float, match.groups())
        return x0, y0, x1, y1


def _role(tag: str, classes: list[str]) -> tuple[str, str]:
    for name in classes:
        if name in _WORD_CLASSES:
            return "word", name
        if name in _LINE_CLASSES:
            return "line", name
        if name in _CHARACTER_CLASSES:
            return "character", name
        if name in _BLOCK_CLASSES:
            return "block", name
        if name == "ocr_page":
            return "page", name
    return ("unread", tag) if tag in _UNREAD_ELEMENTS else ("", "")
