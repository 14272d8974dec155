"""A sheet of paper to lay text out on, which remembers where the fields' values stand."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from reportlab.lib.colors import HexColor
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

Align = Literal["left", "right", "center"]
Order = Literal["rows", "columns", "blocks", "labels first", "any field"]


@dataclass(frozen=True)
class FontFamily:
    """The names of a family's fonts, as reportlab knows them."""

    regular: str
    bold: str


FONT_FAMILIES = (
    FontFamily("Helvetica", "Helvetica-Bold"),
    FontFamily("Times-Roman", "Times-Bold"),
    FontFamily("Courier", "Courier-Bold"),
    FontFamily("Vera", "VeraBd"),
)


def text_width(text: str, font: str, size: float) -> float:
    """The width of a text in points."""
    if font.startswith("Vera") and font not in pdfmetrics.getRegisteredFontNames():
        pdfmetrics.registerFont(TTFont(font, f"{font}.ttf"))  # comes with reportlab
    return pdfmetrics.stringWidth(text, font, size)


@dataclass
class Piece:
    """A text drawn at once: its baseline starts at (x, y), y downwards from the top of page `page`."""

    text: str
    x: float
    y: float
    font: str
    size: float
    color: str
    page: int
    block: int
    label: str | None  # the type of entity it is the value of
    is_value: bool  # filled in per document, not part of the form


@dataclass
class TracedEntity:
    """An entity as it was drawn: its type, its text, and for each word a point within it, from the top left."""

    label: str
    page: int
    words: list[str]
    points: list[tuple[float, float]]


@dataclass
class Sheet:
    """
    Pages under construction, in points, origin top left, y downwards.

    Args:
        width, height: the size of every page.
    """

    width: float
    height: float
    page: int = 0
    pieces: list[Piece] = field(default_factory=list)
    _shapes: list[tuple[int, str, tuple[float, ...], str, str | None, float]] = field(default_factory=list)
    _block: int = 0

    def start_block(self) -> None:
        """What is drawn from here on belongs together, as far as the order of drawing goes."""
        self._block += 1

    def text(
        self,
        text: str,
        x: float,
        y: float,
        font: str,
        size: float,
        align: Align = "left",
        color: str = "#111111",
        label: str | None = None,
        is_value: bool = False,
    ) -> float:
        """Draw a text with its baseline at `y`, starting, ending or centred at `x`; returns its width."""
        width = text_width(text, font, size)
        x -= {"left": 0.0, "right": width, "center": width / 2}[align]
        self.pieces.append(
            Piece(text, x, y, font, size, color, self.page, self._block, label, is_value or label is not None)
        )
        return width

    def line(self, x0: float, y0: float, x1: float, y1: float, color: str = "#888888", thickness: float = 0.6) -> None:
        """Draw a straight line."""
        self._shapes.append((self.page, "line", (x0, y0, x1, y1), color, None, thickness))

    def box(
        self,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        fill: str | None = None,
        stroke: str | None = None,
        thickness: float = 0.6,
    ) -> None:
        """Draw a rectangle; shapes lie beneath all text."""
        self._shapes.append((self.page, "box", (x0, y0, x1, y1), stroke or "", fill, thickness))

    def disc(self, x: float, y: float, radius: float, fill: str) -> None:
        """Draw a filled circle."""
        self._shapes.append((self.page, "disc", (x, y, radius), "", fill, 0.0))

    def new_page(self) -> None:
        """Go on to the next page."""
        self.page += 1
        self.start_block()

    def reorder(self, order: Order, rng: Random) -> None:
        """
        Bring the pieces of each page into the order in which a kind of software would draw them.

        "rows" goes from top to bottom, "columns" by the left half first, "blocks" keeps the layout's blocks together
        in any order, "labels first" draws the empty form and then the values, "any field" the values in the order of
        some database. A PDF reader finds the words in this order.
        """
        shuffled = {block: rng.random() for block in range(self._block + 1)}
        position = {id(piece): rng.random() for piece in self.pieces}

        def key(piece: Piece) -> tuple[float, ...]:
            row = round(piece.y / 4)
            if order == "columns":
                return (piece.page, piece.x > self.width / 2, row, piece.x)
            if order == "blocks":
                return (piece.page, shuffled[piece.block])
            if order == "labels first":
                return (piece.page, piece.is_value, row, piece.x)
            if order == "any field":
                return (piece.page, piece.is_value, position[id(piece)] if piece.is_value else row, piece.x)
            return (piece.page, row, piece.x)

        self.pieces.sort(key=key)

    def write(self, path: Path, title: str) -> None:
        """Write the PDF; the same sheet gives the same bytes. The file appears at once or not at all."""
        partial = path.with_suffix(".partial")
        canvas = Canvas(str(partial), pagesize=(self.width, self.height), invariant=True)
        canvas.setTitle(title)
        for page in range(self.page + 1):
            for shape in self._shapes:
                if shape[0] == page:
                    self._draw_shape(canvas, *shape[1:])
            for piece in self.pieces:
                if piece.page == page:
                    canvas.setFont(piece.font, piece.size)
                    canvas.setFillColor(HexColor(piece.color))
                    canvas.drawString(piece.x, self.height - piece.y, piece.text)
            canvas.showPage()
        canvas.save()
        os.replace(partial, path)

    def entities(self) -> list[TracedEntity]:
        """The labelled pieces with a point inside each of their words, in the order of drawing."""
        found = []
        for piece in self.pieces:
            if piece.label is None:
                continue
            words, points, end = piece.text.split(), [], 0
            for word in words:
                start = piece.text.index(word, end)
                end = start + len(word)
                before, after = (text_width(piece.text[:place], piece.font, piece.size) for place in (start, end))
                points.append((piece.x + (before + after) / 2, piece.y - 0.3 * piece.size))
            found.append(TracedEntity(piece.label, piece.page, words, points))
        return found

    def _draw_shape(
        self, canvas: Canvas, kind: str, place: tuple[float, ...], stroke: str, fill: str | None, thickness: float
    ) -> None:
        canvas.setLineWidth(thickness)
        if stroke:
            canvas.setStrokeColor(HexColor(stroke))
        if fill:
            canvas.setFillColor(HexColor(fill))
        if kind == "line":
            x0, y0, x1, y1 = place
            canvas.line(x0, self.height - y0, x1, self.height - y1)
        elif kind == "box":
            x0, y0, x1, y1 = place
            canvas.rect(x0, self.height - y1, x1 - x0, y1 - y0, stroke=int(bool(stroke)), fill=int(bool(fill)))
        else:
            x, y, radius = place
            canvas.circle(x, self.height - y, radius, stroke=0, fill=1)
