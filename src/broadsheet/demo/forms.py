"""Documents laid out as forms: invoices, purchase orders and statements of account."""

from datetime import date, timedelta
from random import Random

from broadsheet.demo.business_data import address, bank_details, contact, person
from broadsheet.demo.deals import Deal, make_field
from broadsheet.demo.footers import TERMS, draw_footers
from broadsheet.demo.layout_parts import (
    Cell,
    Column,
    Look,
    Table,
    draw_block,
    draw_boxes,
    draw_letterhead,
    draw_pairs,
    draw_paragraph,
    draw_stacked,
    draw_totals,
    fitting_size,
)
from broadsheet.demo.sheet import Align, Sheet

PAGE_SIZES = ((595.0, 842.0), (612.0, 792.0))
LETTERHEADS: dict[str, tuple[Align, ...]] = {"train": ("left", "left", "center"), "test": ("right", "left", "center")}
_FIELD_ORDERS = {
    "train": (("number", "date", "due_date", "reference"), ("number", "date", "reference", "due_date")),
    "test": (("number", "reference", "date", "due_date"),),
}
_ARRANGEMENTS = {
    "train": ("pairs right", "pairs right", "boxes", "stacked right", "pairs left"),
    "test": ("pairs right", "boxes", "boxes upside down", "two columns", "stacked right", "pairs left"),
}


def draw_form(rng: Random, split: str, kind: str, look: Look, wording: dict[str, str | None], deal: Deal) -> Sheet:
    """An invoice, purchase order or statement."""
    sheet = Sheet(*rng.choice(PAGE_SIZES))
    left, right = look.margin, sheet.width - look.margin
    width = right - left
    bottom = sheet.height - look.margin - 70
    place = rng.choice(LETTERHEADS[split])
    lines = [", ".join(address(rng))] if rng.random() < 0.3 else address(rng)
    if rng.random() < 0.6:
        lines += contact(rng, deal.sender)
    top = look.margin + 22
    y = draw_letterhead(sheet, look, rng, place, deal.sender, lines, rng.random() < 0.45, top)
    y = _draw_title(sheet, rng, look, place, wording["title"] or "", top, y)

    due_below = rng.random() < 0.25
    cells = [make_field(wording, deal, name) for name in rng.choice(_FIELD_ORDERS[split])]
    if rng.random() < 0.3:
        cells = [cell for cell in cells if cell.label != "reference"]
    if due_below:
        cells = [cell for cell in cells if cell.label != "due_date"]
    if rng.random() < 0.3:
        cells.append(Cell(wording["contact"], person(rng)))
    y = _draw_head(sheet, rng, split, look, wording, deal, cells, y + 0.8 * look.leading)

    y = _make_table(rng, kind, look, wording, deal).draw(
        sheet,
        look,
        left,
        y + 1.2 * look.leading,
        width,
        bottom - 15,
        wording["carried"],
    )
    if y + 9 * look.leading > bottom:
        sheet.new_page()
        y = look.margin + 40
    y += 0.8 * look.leading
    sums = [
        make_field(wording, deal, "subtotal"),
        make_field(wording, deal, "tax"),
        make_field(wording, deal, "total"),
    ]
    if deal.extra:
        sums.insert(1 if split == "train" else 2, Cell(wording["extra"], look.style.amount(deal.extra)))
    if rng.random() < 0.22:
        y_sums = draw_boxes(sheet, look, left + 0.3 * width, y + look.leading, 0.7 * width, sums, rng.random() < 0.5)
        y_left = y_sums
    else:
        emphasis = rng.choice(("bold", "bold", "band", "rule", "none"))
        y_sums = draw_totals(sheet, look, left, y, width, sums, emphasis, rng.uniform(0.3, 0.42) * width)
        y_left = y + 0.3 * look.leading
    y = _draw_payment(sheet, rng, look, wording, deal, due_below, left, y_left, 0.5 * width)
    y = max(y, y_sums)
    if rng.random() < 0.35 and y + 6 * look.leading < bottom:
        draw_paragraph(sheet, look, left, y + look.leading, 0.9 * width, TERMS[: TERMS.index(".", 90) + 1], look.size)
    draw_footers(sheet, rng, look)
    return sheet


def _draw_title(sheet: Sheet, rng: Random, look: Look, place: str, title: str, top: float, y: float) -> float:
    """The kind of document in large letters, opposite the letterhead or below it; returns the y below both."""
    sheet.start_block()
    size = rng.choice((16.0, 18.0, 22.0, 26.0))
    left, right = look.margin, sheet.width - look.margin
    size = fitting_size(title, look.font.bold, size, 0.38 * (right - left))
    color = rng.choice((look.accent, "#111111"))
    if place != "center" and rng.random() < 0.6:
        x, align = (right, "right") if place == "left" else (left, "left")
        sheet.text(title, x, top, look.font.bold, size, "right" if align == "right" else "left", color)
    else:
        if rng.random() < 0.5:
            sheet.line(left, y - 0.3 * look.size, right, y - 0.3 * look.size, look.accent, 1.2)
            y += 4
        y += size
        x = rng.choice((left, left, sheet.width / 2))
        sheet.text(title, x, y, look.font.bold, size, "left" if x == left else "center", color)
        y += 0.6 * size
    return y + look.leading


def _draw_head(
    sheet: Sheet,
    rng: Random,
    split: str,
    look: Look,
    wording: dict[str, str | None],
    deal: Deal,
    cells: list[Cell],
    y: float,
) -> float:
    """The recipient, perhaps a place of delivery, and the document's fields; returns the y below them."""
    left, right = look.margin, sheet.width - look.margin
    width = right - left
    arrangement = rng.choice(_ARRANGEMENTS[split])
    column = 0.44 * width
    boxed = rng.random() < 0.3
    delivery = rng.random() < 0.4
    ship_lines, bill_lines = address(rng), address(rng)

    def recipient(x: float, y: float) -> float:
        return draw_block(
            sheet, look, x, y, wording["recipient"], deal.recipient, bill_lines, "recipient", boxed, column
        )

    def place_of_delivery(x: float, y: float) -> float:
        return draw_block(sheet, look, x, y, wording["delivery"], deal.deliver_to, ship_lines, None, boxed, column)

    if arrangement in ("boxes", "boxes upside down", "two columns"):
        y_blocks = recipient(left, y)
        if delivery:
            y_blocks = max(y_blocks, place_of_delivery(left + 0.54 * width, y))
        y = y_blocks + 0.9 * look.leading
        if arrangement == "two columns":
            half = (len(cells) + 1) // 2
            gap = 0.2 * width
            ends = [
                draw_pairs(sheet, look, x, y, column, part, gap, ruled=False, right=False)
                for x, part in ((left, cells[:half]), (left + 0.54 * width, cells[half:]))
            ]
            return max(ends) + 0.5 * look.leading
        return draw_boxes(sheet, look, left, y, width, cells, rng.random() < 0.6, arrangement == "boxes upside down")
    fields_left = arrangement.endswith("left")
    x_block, x_fields = (left + 0.54 * width, left) if fields_left else (left, left + 0.56 * width)
    y_block = recipient(x_block, y)
    if delivery:
        y_block = place_of_delivery(x_block, y_block + 0.4 * look.leading)
    if arrangement.startswith("stacked"):
        y_fields = draw_stacked(sheet, look, x_fields, y, cells)
    else:
        flush = rng.random() < 0.4
        y_fields = draw_pairs(sheet, look, x_fields, y, column, cells, 0.24 * width, rng.random() < 0.35, flush)
    return max(y_block, y_fields) + 0.4 * look.leading


def _make_table(rng: Random, kind: str, look: Look, wording: dict[str, str | None], deal: Deal) -> Table:
    money = look.style.amount
    bare = rng.random() < 0.5  # amounts without the currency
    description = Column(wording["description"], 0.0)
    amount = Column(wording["amount"], 0.19, True)
    rows = []
    if kind == "statement":
        columns = [Column(wording["day"], 0.19), Column(wording["code"], 0.17), description, amount]
        for text, quantity, price in deal.rows:
            day = date(2019, 1, 1) + timedelta(days=rng.randrange(2400))
            rows.append(
                [look.style.date(day), look.style.number(rng, day.year), text, money(quantity * price, not bare)]
            )
    else:
        columns = [description, Column(wording["quantity"], 0.11, True), Column(wording["price"], 0.17, True), amount]
        coded = rng.random() < 0.4
        if coded:
            columns.insert(0, Column(wording["code"], 0.14))
        for text, quantity, price in deal.rows:
            row = [text, str(quantity), money(price, not bare), money(quantity * price, not bare)]
            rows.append([look.style.number(rng, 2020), *row] if coded else row)
    description.share = 1.0 - sum(column.share for column in columns)
    if rng.random() < 0.1:
        for column in columns:
            column.caption = None
    amounts = [quantity * price for _, quantity, price in deal.rows]
    return Table(columns, rows, amounts, rng.choice(("lines", "zebra", "grid", "plain")))


def _draw_payment(
    sheet: Sheet,
    rng: Random,
    look: Look,
    wording: dict[str, str | None],
    deal: Deal,
    due_below: bool,
    x: float,
    y: float,
    width: float,
) -> float:
    """Bank details and, on some templates, the due date, at the left below the table."""
    sheet.start_block()
    if due_below:
        y = draw_pairs(
            sheet, look, x, y, 0.9 * width, [make_field(wording, deal, "due_date")], 0.5 * width, False, False
        )
        y += 0.5 * look.leading
    if rng.random() < 0.55:
        sheet.text(wording["pay_to"] or "", x, y, look.font.bold, look.size * 0.9, color=look.accent)
        for line in bank_details(rng):
            y += look.leading
            sheet.text(
                line, x, y, look.font.regular, fitting_size(line, look.font.regular, look.size * 0.9, 0.92 * width)
            )
        y += look.leading
    return y
