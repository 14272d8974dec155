"""Documents from ALTO XML, the format of libraries and of ABBYY, Tesseract, Transkribus and Kraken exports."""

import math
import os
import re
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from broadsheet.documents.document import Document
from broadsheet.documents.document_builder import Box, DocumentBuilder, OnEmptyPage, Piece
from broadsheet.documents.files import read_bytes
from broadsheet.documents.page_images import find_page_image, image_size, shows_page
from broadsheet.tokenization.input_checks import InputError

UNITS = ("pixel", "mm10", "inch1200")
_HYPHENS = ("-", "\u00ad", "\u2010", "\u2011", "\u00ac", "\u2e17")
_BREAKS_OFF = (
    expat.errors.XML_ERROR_NO_ELEMENTS,
    expat.errors.XML_ERROR_UNCLOSED_TOKEN,
    expat.errors.XML_ERROR_PARTIAL_CHAR,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
)
_ROOTS = {
    "PcGts": "a PAGE-XML file",
    "document": "perhaps an ABBYY FineReader XML file",
    "html": "an HTML file; if it is hOCR, pass it to read_hocr",
}


def read_alto(path: str | os.PathLike[str], on_empty_page: OnEmptyPage = "warn") -> Document:
    """
    Read the words of an ALTO file (versions 2 to 4, with or without namespace), in the file's order.

    Boxes and page sizes are in the file's MeasurementUnit (pixel, 1/10 mm or 1/1200 inch), from HPOS, VPOS, WIDTH and
    HEIGHT; polygons are not read. Words are the Strings' CONTENT, segments the TextLines. A word hyphenated at a
    line's end is two words, the first with its hyphen (HYP), as in read_pdf; SUBS_CONTENT, the whole word, is not
    used, because it has no box of its own. A String without a position gets a box estimated from its TextLine's by
    counting characters, and a warning says how many.

    A page without WIDTH and HEIGHT is as large as its PrintSpace reaches, or its image if that is found and the unit
    is pixel, else as its words reach, which is reported. `source` is the image that the file names, where that exists
    (where the file says, or beside it) and the file has one page, else the path of the ALTO file.

    Args:
        path: the file.
        on_empty_page: what to do about a page without words: log a warning that names it, raise `InputError`, or
            nothing.

    Raises:
        InputError: the file is missing, empty, no ALTO, malformed, truncated, declares entities, has broken or
            missing positions, an unknown unit, or no words on any page.
    """
    path = Path(path)
    data = read_bytes(path, "one ALTO file")
    builder = DocumentBuilder(path, on_empty_page)
    parser = _AltoParser(builder)
    parser.parse(data)
    source = None
    if parser.image is not None and builder.num_pages == 1:
        size = builder.page_size
        if size is not None and shows_page(parser.image, size):
            source = str(parser.image)
    return builder.build(source)


class _AltoParser:
    """Walks through the file once, keeping nothing but the open TextLine's words."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self.builder = builder
        self.image: Path | None = None
        self.unit = ""
        self.depth = 0
        self.text: list[str] | None = None  # of the open element whose text is wanted
        self.pieces: list[Piece] = []
        self.line_box: Box | None = None
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_entity

    def parse(self, data: bytes) -> None:
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            message = expat.errors.messages[error.code]
            if message in _BREAKS_OFF:
                raise InputError(
                    f"{self.builder.path} breaks off in line {error.lineno} ({message}); get a fresh copy of it."
                ) from None
            raise InputError(
                f"{self.builder.path} is broken XML: {message} in line {error.lineno}; correct it or get a fresh copy."
            ) from None
        except InputError:
            raise
        except (LookupError, ValueError) as error:
            raise InputError(
                f"{self.builder.path} is in an encoding that cannot be read ({error}); save it as UTF-8."
            ) from None

    # What the parser reports.

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if self.depth == 0 and name.lower() != "alto":
            known = _ROOTS.get(name, "something else")
            raise InputError(
                f"{self.builder.path} is not an ALTO file (its root is <{name}>: {known}); convert it to ALTO or hOCR."
            )
        self.depth += 1
        if name == "String":
            self._add_string(attributes)
        elif name == "HYP":
            self._add_hyphen(attributes)
        elif name == "TextLine":
            self._finish_line()
            self.line_box = self._box(attributes, "TextLine")
        elif name == "Page":
            self._start_page(attributes)
        elif name == "PrintSpace":
            box = self._box(attributes, name)
            if box is not None and self.builder.num_pages and self.builder.page_size is None:
                self._set_page_size((box[2], box[3]))
        elif name in ("MeasurementUnit", "fileName"):
            self.text = []

    def _end(self, tag: str) -> None:
        self.depth -= 1
        name = tag.rpartition(":")[2]
        if name in ("TextLine", "TextBlock", "Page"):
            self._finish_line()
        elif name == "MeasurementUnit":
            self._set_unit("".join(self.text or ()).strip())
            self.text = None
        elif name == "fileName":
            self.image = self.image or find_page_image(self.builder.path, "".join(self.text or ()))
            self.text = None

    def _characters(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def _refuse_entity(self, name: str, *_: object) -> NoReturn:
        raise InputError(
            f"Line {self.parser.CurrentLineNumber} of {self.builder.path} declares the entity {name!r}, which could "
            "blow up or read other files; remove the declaration."
        )

    # What that means.

    def _set_unit(self, unit: str) -> None:
        if unit not in UNITS:
            raise InputError(
                f"The MeasurementUnit of {self.builder.path} is {unit!r} (line {self.parser.CurrentLineNumber}); "
                f"it must be one of {', '.join(UNITS)}."
            )
        self.unit = unit

    def _start_page(self, attributes: dict[str, str]) -> None:
        self.builder.start_page()
        width, height = (self._number(attributes, name, "Page") for name in ("WIDTH", "HEIGHT"))
        if width is not None and height is not None:
            self._set_page_size((width, height))
        elif self.image is not None and self.unit in ("", "pixel") and (size := image_size(self.image)):
            self.builder.set_page_size(size)

    def _set_page_size(self, size: tuple[float, float]) -> None:
        if not all(0 < length < math.inf for length in size):
            raise InputError(
                f"Page {self.builder.num_pages} of {self.builder.path} (line {self.parser.CurrentLineNumber}) is "
                f"{size[0]:g} wide and {size[1]:g} high; both must be above zero: correct them."
            )
        self.builder.set_page_size(size)

    def _add_string(self, attributes: dict[str, str]) -> None:
        line_number = self.parser.CurrentLineNumber
        if "CONTENT" not in attributes:
            raise InputError(
                f"The String in line {line_number} of {self.builder.path} has no CONTENT; "
                "add it or leave the String out."
            )
        if not self.builder.num_pages:
            raise InputError(
                f"The String in line {line_number} of {self.builder.path} stands on no Page; put it into one."
            )
        self.pieces.append(Piece(attributes["CONTENT"], self._box(attributes, "String"), line_number))

    def _add_hyphen(self, attributes: dict[str, str]) -> None:
        """Give the last word its hyphen, and the hyphen's room."""
        if not self.pieces:
            return
        text, box, line_number = self.pieces[-1]
        if text.endswith(_HYPHENS):  # some engines write it into the word as well
            if text[-1] == "\u00ad":
                self.pieces[-1] = Piece(text[:-1] + "-", box, line_number)
            return
        hyphen = attributes.get("CONTENT", "-").strip().replace("\u00ad", "-") or "-"
        hyphen_box = self._box(attributes, "HYP")
        if box is not None and hyphen_box is not None:
            left, top, right, bottom = zip(box, hyphen_box, strict=True)
            box = min(left), min(top), max(right), max(bottom)
        self.pieces[-1] = Piece(text + hyphen, box, line_number)

    def _finish_line(self) -> None:
        if self.pieces:
            self.builder.add_segment(self.pieces, self.line_box)
        self.pieces = []
        self.line_box = None

    def _box(self, attributes: dict[str, str], element: str) -> Box | None:
        """The element's box, or None where it has no position; a size left out is zero."""
        x, y = (self._number(attributes, name, element) for name in ("HPOS", "VPOS"))
        if x is None or y is None:
            return None
        width, height = (self._number(attributes, name, element) or 0.0 for name in ("WIDTH", "HEIGHT"))
        return x, y, x + width, y + height

    def _number(self, attributes: dict[str, str], name: str, element: str) -> float | None:
        value = attributes.get(name, "").strip()
        if not value:
            return None
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", value):
            raise InputError(
                f"{name} of the {element} in line {self.parser.CurrentLineNumber} of {self.builder.path} is "
                f"{value!r}, not a number; correct it."
            )
        return float(value)
