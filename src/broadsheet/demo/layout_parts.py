"""The parts that business documents are made of: letterhead, address blocks, header fields, tables, totals."""

from dataclasses import dataclass

from broadsheet.demo.business_data import Style
from broadsheet.demo.sheet import FontFamily, Sheet, text_width

GREY = "#666666"
RULE = "#b5b5b5"
TINT = ("#f1f4f8", "#f4f1ea", "#eef5f0", "#f3f3f3", "#f6f0f0")
ACCENTS = ("#1f3a5f", "#7a1f2b", "#1d5c4d", "#333333", "#5a3d7a", "#8a5a12", "#0b6e8a")


@dataclass
class Look:
    """One company's stationery."""

    font: FontFamily
    size: float
    accent: str
    tint: str
    margin: float
    style: Style

    @property
    def leading(self) -> float:
        """The distance of text lines."""
        return 1.38 * self.size


@dataclass
class Cell:
    """A field: its label (None: unlabelled), the text of its value, and the entity type, if it is one."""

    caption: str | None
    value: str
    label: str | None = None


def draw_block(
    sheet: Sheet,
    look: Look,
    x: float,
    y: float,
    caption: str | None,
    name: str,
    lines: list[str],
    label: str | None,
    boxed: bool = False,
    width: float = 200.0,
) -> float:
    """An address block under its caption, its name in bold; returns the y of the line after it."""
    sheet.start_block()
    top = y - look.size
    if boxed:
        x, y, top = x + 8, y + 4, top - 2
    if caption:
        sheet.text(caption, x, y, look.font.bold, look.size * 0.85, color=look.accent)
        y += look.leading
    sheet.text(name, x, y, look.font.bold, look.size, label=label, is_value=True)
    for line in lines:
        y += look.leading
        sheet.text(line, x, y, look.font.regular, look.size, is_value=True)
    y += look.leading
    if boxed:
        sheet.box(x - 8, top, x - 8 + width, y - look.size * 0.4, stroke=RULE)
        y += 6
    return y


def draw_pairs(
    sheet: Sheet, look: Look, x: float, y: float, width: float, cells: list[Cell], gap: float, ruled: bool, right: bool
) -> float:
    """Fields below each other, the label left of the value; returns the y of the line after them."""
    sheet.start_block()
    leading = look.leading * (1.25 if ruled else 1.08)
    gap = max(gap, widest([cell.caption for cell in cells], look.font.regular, look.size) + 10)
    for cell in cells:
        size = fitting_size(cell.value, look.font.regular, look.size, width - gap)
        if cell.caption:
            sheet.text(cell.caption, x, y, look.font.regular, look.size, color=GREY)
        if right or not any(other.caption for other in cells):
            sheet.text(cell.value, x + width, y, look.font.regular, size, "right", label=cell.label, is_value=True)
        else:
            sheet.text(cell.value, x + gap, y, look.font.regular, size, label=cell.label, is_value=True)
        if ruled:
            sheet.line(x, y + 0.4 * look.size, x + width, y + 0.4 * look.size, RULE, 0.4)
        y += leading
    return y


def draw_stacked(sheet: Sheet, look: Look, x: float, y: float, cells: list[Cell]) -> float:
    """Fields below each other, each label above its value; returns the y of the line after them."""
    sheet.start_block()
    for cell in cells:
        if cell.caption:
            sheet.text(cell.caption, x, y, look.font.bold, look.size * 0.8, color=look.accent)
            y += look.leading * 0.95
        sheet.text(cell.value, x, y, look.font.regular, look.size, label=cell.label, is_value=True)
        y += look.leading * 1.2
    return y


def draw_boxes(
    sheet: Sheet, look: Look, x: float, y: float, width: float, cells: list[Cell], framed: bool, below: bool = False
) -> float:
    """Fields side by side in boxes across the page, each label above (or below) its value."""
    sheet.start_block()
    height = 2.9 * look.leading
    column = width / len(cells)
    top = y - look.size
    if framed:
        sheet.box(x, top, x + width, top + height, stroke=look.accent, thickness=0.8)
    else:
        sheet.box(x, top, x + width, top + height, fill=look.tint)
    for index, cell in enumerate(cells):
        left = x + index * column
        if framed and index:
            sheet.line(left, top, left, top + height, look.accent, 0.8)
        caption_y, value_y = top + 0.95 * look.leading, top + 2.15 * look.leading
        if below:
            caption_y, value_y = top + 2.3 * look.leading, top + 1.15 * look.leading
        if cell.caption:
            small = fitting_size(cell.caption, look.font.bold, look.size * 0.75, column - 12)
            sheet.text(cell.caption, left + 6, caption_y, look.font.bold, small, color=GREY)
        size = fitting_size(cell.value, look.font.regular, look.size, column - 12)
        sheet.text(cell.value, left + 6, value_y, look.font.regular, size, label=cell.label, is_value=True)
    return top + height + 1.6 * look.leading


def widest(texts: list[str | None], font: str, size: float) -> float:
    """The width of the widest text; 0 when there is none."""
    return max((text_width(text, font, size) for text in texts if text), default=0.0)


def fitting_size(text: str, font: str, size: float, width: float) -> float:
    """The size, at most `size`, at which the text is no wider than `width`."""
    natural = text_width(text, font, size)
    return size if natural <= width else size * width / natural


@dataclass
class Column:
    """A table's column: its heading, its share of the width, and whether it is set flush right."""

    caption: str | None
    share: float
    right: bool = False


@dataclass
class Table:
    """A table of line items that may go over several pages."""

    columns: list[Column]
    rows: list[list[str]]
    amounts: list[int]  # of each row, in cents
    ruling: str  # "lines", "zebra", "grid", "plain"

    def draw(
        self, sheet: Sheet, look: Look, x: float, y: float, width: float, bottom: float, carried: str | None
    ) -> float:
        """
        Draw rows until `bottom`, then go on at the top of a new page; returns the y of the line after the table.

        Below the rows of a full page stands their sum, labelled `carried`.
        """
        y = self._draw_heading(sheet, look, x, y, width)
        leading = look.leading * (1.35 if self.ruling in ("grid", "zebra") else 1.15)
        for number, row in enumerate(self.rows):
            if y > bottom:
                so_far = look.style.amount(sum(self.amounts[:number]))
                sheet.text(carried or "", x + 0.6 * width, y, look.font.regular, look.size, color=GREY)
                sheet.text(so_far, x + width - 4, y, look.font.regular, look.size, "right", is_value=True)
                sheet.new_page()
                y = self._draw_heading(sheet, look, x, look.margin + 30, width)
            sheet.start_block()
            if self.ruling == "zebra" and number % 2:
                sheet.box(x, y - 0.95 * look.size, x + width, y - 0.95 * look.size + leading, fill=look.tint)
            self._draw_row(sheet, look, x, y, width, row, look.font.regular, look.size, "#111111", is_value=True)
            if self.ruling in ("lines", "grid"):
                sheet.line(x, y + 0.38 * look.size, x + width, y + 0.38 * look.size, RULE, 0.4)
            if self.ruling == "grid":
                self._draw_verticals(sheet, x, y + 0.38 * look.size - leading, y + 0.38 * look.size, width)
            y += leading
        if self.ruling != "plain":
            sheet.line(x, y - 0.9 * look.size, x + width, y - 0.9 * look.size, look.accent, 0.8)
        return y

    def _draw_heading(self, sheet: Sheet, look: Look, x: float, y: float, width: float) -> float:
        sheet.start_block()
        if all(column.caption is None for column in self.columns):
            return y
        filled = self.ruling in ("zebra", "grid")
        if filled:
            sheet.box(x, y - 1.1 * look.size, x + width, y + 0.5 * look.size, fill=look.accent)
        else:
            sheet.line(x, y + 0.45 * look.size, x + width, y + 0.45 * look.size, look.accent, 0.8)
        captions = [column.caption or "" for column in self.columns]
        color = "#ffffff" if filled else look.accent
        self._draw_row(sheet, look, x, y, width, captions, look.font.bold, look.size * 0.9, color, is_value=False)
        return y + 1.75 * look.leading

    def _draw_row(
        self,
        sheet: Sheet,
        look: Look,
        x: float,
        y: float,
        width: float,
        row: list[str],
        font: str,
        size: float,
        color: str,
        is_value: bool,
    ) -> None:
        left = x
        for column, text in zip(self.columns, row, strict=True):
            room = column.share * width
            if text:
                fitted = fitting_size(text, font, size, room - 10)
                place = left + room - 4 if column.right else left + 4
                sheet.text(text, place, y, font, fitted, "right" if column.right else "left", color, is_value=is_value)
            left += room

    def _draw_verticals(self, sheet: Sheet, x: float, top: float, bottom: float, width: float) -> None:
        left = x
        for column in [*self.columns, None]:
            sheet.line(left, top, left, bottom, RULE, 0.4)
            left += column.share * width if column else 0


def draw_totals(
    sheet: Sheet, look: Look, x: float, y: float, width: float, cells: list[Cell], emphasis: str, room: float
) -> float:
    """
    The sums below a table, their values flush right at `x + width`, the last before "paid" rows emphasised.

    Args:
        emphasis: "bold", "band" (white on the accent colour), "rule" (a double rule beneath) or "none".
        room: how far left of the right edge the labels begin.
    """
    sheet.start_block()
    needed = [
        widest([getattr(cell, side) for cell in cells], look.font.bold, 1.15 * look.size)
        for side in ("caption", "value")
    ]
    left = x + width - min(max(room, sum(needed) + 16), width)
    for cell in cells:
        strong = cell.label == "total" and emphasis != "none"
        font = look.font.bold if strong else look.font.regular
        size = look.size * (1.15 if strong and emphasis != "rule" else 1.0)
        color = "#111111"
        if strong:
            y += 0.35 * look.leading
            if emphasis == "band":
                sheet.box(left - 6, y - 1.15 * size, x + width, y + 0.5 * size, fill=look.accent)
                color = "#ffffff"
            else:
                sheet.line(left, y - 1.15 * size, x + width, y - 1.15 * size, look.accent, 0.8)
        if cell.caption:
            sheet.text(cell.caption, left, y, font, size, color=color)
        sheet.text(cell.value, x + width - 4, y, font, size, "right", color, cell.label, is_value=True)
        if strong and emphasis == "rule":
            for offset in (0.4, 0.62):
                sheet.line(left, y + offset * size, x + width, y + offset * size, look.accent, 0.6)
        y += look.leading * (1.5 if strong else 1.15)
    return y


def draw_paragraph(sheet: Sheet, look: Look, x: float, y: float, width: float, text: str, size: float) -> float:
    """Running text, broken into lines; returns the y of the line after it."""
    sheet.start_block()
    line: list[str] = []
    for word in text.split():
        if line and text_width(" ".join([*line, word]), look.font.regular, size) > width:
            sheet.text(" ".join(line), x, y, look.font.regular, size)
            line, y = [], y + 1.38 * size
        line.append(word)
    if line:
        sheet.text(" ".join(line), x, y, look.font.regular, size)
        y += 1.38 * size
    return y
