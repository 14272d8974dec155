"""
Business documents on standard stationery: invoices, purchase orders, statements and letters.

Every document has a template of its own: fonts, sizes, colours, captions and their places, rules, the order of the
fields within a block and the order of drawing are drawn anew. The held-out templates have other words for everything
and other orders of the fields. What both splits share is what standards for business letters fix (DIN 5008, the
windows of envelopes, pre-printed forms): the sender's head at the top left, the recipient where the envelope has its
window, the document's own data beside it on the right, line items below, and at the foot of the last page the sums on
the right and what is to be paid by when on the left.
"""

from collections.abc import Callable
from datetime import date, timedelta
from random import Random

from broadsheet.demo.business_data import Style, address, bank_details, company, contact, item, person
from broadsheet.demo.layout_parts import (
    ACCENTS,
    GREY,
    RULE,
    TINT,
    Cell,
    Column,
    Look,
    Table,
    draw_block,
    draw_boxes,
    draw_pairs,
    draw_paragraph,
    draw_stacked,
    draw_totals,
    fitting_size,
)
from broadsheet.demo.sheet import FONT_FAMILIES, Order, Sheet
from broadsheet.demo.wordings import draw_wording

KINDS = ("invoice", "purchase order", "statement", "letter")
_ORDERS: tuple[Order, ...] = ("rows", "columns", "blocks", "labels first", "any field")
_FIELD_ORDERS = {
    "train": (("number", "date", "contact"), ("contact", "number", "date")),
    "test": (("date", "number", "contact"), ("contact", "date", "number")),
}
WIDTH, HEIGHT = 595.0, 842.0
# Baselines of the zones, in points from the top of an A4 page.
HEAD, WINDOW, BODY, BODY_END, FOOT = 56.0, 165.0, 300.0, 610.0, 672.0


def draw_document(rng: Random, split: str) -> tuple[Sheet, str]:
    """A document of a random kind, its pieces in the order of drawing, and its kind."""
    kind = rng.choice(KINDS)
    look = Look(
        font=rng.choice(FONT_FAMILIES),
        size=rng.choice((9.0, 9.5, 10.0, 10.5)),
        accent=rng.choice(ACCENTS),
        tint=rng.choice(TINT),
        margin=rng.uniform(46, 56),
        style=Style.draw(rng),
    )
    if look.font.regular in ("Courier", "Vera"):  # wide letters
        look.size -= 1.0
    wording = draw_wording(rng, split, kind)
    sheet = Sheet(WIDTH, HEIGHT)
    rows = _draw_rows(rng, kind)
    day = date(2019, 1, 1) + timedelta(days=rng.randrange(2400))
    dates = [day + timedelta(days=offset) for offset in (0, rng.choice((7, 10, 14, 21, 30, 45, 60)))]
    net = sum(quantity * price for _, quantity, price in rows)
    tax = round(net * rng.choice((0.05, 0.07, 0.1, 0.19, 0.2)))
    values = {
        "number": look.style.number(rng, day.year),
        "date": look.style.date(dates[0]),
        "due_date": look.style.date(dates[1]),
        "subtotal": look.style.amount(net),
        "tax": look.style.amount(tax),
        "total": look.style.amount(net + tax),
        "contact": person(rng),
    }

    def cell(name: str) -> Cell:
        return Cell(wording[name], values[name], None if name == "contact" else name)

    _draw_head(sheet, rng, look, wording["title"] or "")
    _draw_window(sheet, rng, look, wording)
    names = [name for name in rng.choice(_FIELD_ORDERS[split]) if name != "contact" or rng.random() < 0.5]
    _draw_fields(sheet, rng, look, [cell(name) for name in names])
    if kind == "letter":
        _draw_letter(sheet, rng, look, day)
    else:
        _make_table(rng, kind, look, wording, rows).draw(
            sheet, look, look.margin, BODY, WIDTH - 2 * look.margin, BODY_END, wording["carried"]
        )
    _draw_foot(sheet, rng, look, wording, cell)
    _draw_page_feet(sheet, rng, look)
    sheet.reorder(rng.choice(_ORDERS), rng)
    return sheet, kind


def _jitter(rng: Random) -> float:
    return rng.uniform(-5, 5)


def _draw_rows(rng: Random, kind: str) -> list[tuple[str, int, int]]:
    """Line items: description, quantity, unit price in cents."""
    number = rng.randrange(1, 10) if kind == "letter" or rng.random() < 0.88 else rng.randrange(26, 48)
    return [
        (item(rng), rng.choice((1, 1, 2, 3, 4, 5, 8, 10, 12, 20)), rng.randrange(300, 90000)) for _ in range(number)
    ]


def _draw_head(sheet: Sheet, rng: Random, look: Look, title: str) -> None:
    """The sender, with address and contact below the name, and the kind of document opposite."""
    sheet.start_block()
    name, y = company(rng), HEAD + _jitter(rng)
    size = rng.choice((14.0, 16.0, 18.0))
    size = fitting_size(name, look.font.bold, size, 0.44 * WIDTH)
    sheet.text(name, look.margin, y, look.font.bold, size, color=rng.choice((look.accent, "#111111")), label="sender")
    for line in address(rng) + (contact(rng, name) if rng.random() < 0.6 else []):
        y += 1.3 * look.size
        sheet.text(line, look.margin, y, look.font.regular, look.size * 0.85, color=GREY, is_value=True)
    sheet.start_block()
    right = WIDTH - look.margin
    size = fitting_size(title, look.font.bold, rng.choice((16.0, 20.0, 24.0)), 0.34 * WIDTH)
    sheet.text(title, right, HEAD + _jitter(rng), look.font.bold, size, "right", rng.choice((look.accent, "#111111")))
    if rng.random() < 0.5:
        sheet.line(look.margin, WINDOW - 30, right, WINDOW - 30, look.accent, 1.0)


def _draw_window(sheet: Sheet, rng: Random, look: Look, wording: dict[str, str | None]) -> None:
    """The recipient in the envelope's window; sometimes a place of delivery below it."""
    x, y = look.margin, WINDOW + _jitter(rng)
    name = person(rng) if rng.random() < 0.25 else company(rng)
    draw_block(sheet, look, x, y, wording.get("recipient"), name, address(rng), "recipient")
    if rng.random() < 0.4:
        y = WINDOW + 72 + _jitter(rng)
        name = person(rng) if rng.random() < 0.25 else company(rng)
        draw_block(sheet, look, x, y, wording.get("delivery"), name, address(rng)[-1:], None)


def _draw_fields(sheet: Sheet, rng: Random, look: Look, cells: list[Cell]) -> None:
    """The document's own data, beside the window."""
    x, y = 0.56 * WIDTH, WINDOW + _jitter(rng)
    width = WIDTH - look.margin - x
    arrangement = rng.choice(("pairs", "pairs", "stacked", "boxes"))
    if arrangement == "pairs":
        draw_pairs(sheet, look, x, y, width, cells, 0.5 * width, rng.random() < 0.4, rng.random() < 0.5)
    elif arrangement == "stacked":
        draw_stacked(sheet, look, x, y, cells)
    else:
        draw_boxes(sheet, look, x, y, width, cells, rng.random() < 0.5, rng.random() < 0.3)


def _make_table(
    rng: Random, kind: str, look: Look, wording: dict[str, str | None], rows: list[tuple[str, int, int]]
) -> Table:
    money, bare = look.style.amount, rng.random() < 0.5  # amounts without the currency
    description, amount = Column(wording["description"], 0.0), Column(wording["amount"], 0.19, True)
    cells = []
    if kind == "statement":
        columns = [Column(wording["day"], 0.2), Column(wording["code"], 0.18), description, amount]
        for text, quantity, price in rows:
            day = date(2019, 1, 1) + timedelta(days=rng.randrange(2400))
            number = look.style.number(rng, day.year)
            cells.append([look.style.date(day), number, text, money(quantity * price, not bare)])
    else:
        columns = [description, Column(wording["quantity"], 0.1, True), Column(wording["price"], 0.18, True), amount]
        coded = rng.random() < 0.4
        if coded:
            columns.insert(0, Column(wording["code"], 0.16))
        for text, quantity, price in rows:
            row = [text, str(quantity), money(price, not bare), money(quantity * price, not bare)]
            cells.append([look.style.number(rng, 2020), *row] if coded else row)
    description.share = 1.0 - sum(column.share for column in columns)
    amounts = [quantity * price for _, quantity, price in rows]
    return Table(columns, cells, amounts, rng.choice(("lines", "zebra", "grid", "plain")))


def _draw_letter(sheet: Sheet, rng: Random, look: Look, day: date) -> None:
    """The text of a letter, which names other dates, numbers and amounts than its fields."""
    y = BODY
    earlier = [look.style.date(day - timedelta(days=rng.randrange(8, 90))) for _ in range(2)]
    for text in (
        rng.choice(("Dear Sir or Madam,", f"Dear {person(rng)},")),
        f"On {earlier[0]} we sent you our list of open items, among them number {look.style.number(rng, day.year)} "
        f"over {look.style.amount(rng.randrange(10**3, 10**6))}. According to our books it has not been settled.",
        f"We spoke to {person(rng)} of {company(rng)} about it on {earlier[1]}. The sums that are open today stand "
        "below. Should you have paid in the meantime, please regard this letter as void.",
        "Yours faithfully",
        person(rng),
    ):
        y = draw_paragraph(sheet, look, look.margin, y, WIDTH - 2 * look.margin, text, look.size) + 0.8 * look.leading


def _draw_foot(
    sheet: Sheet, rng: Random, look: Look, wording: dict[str, str | None], cell: Callable[[str], Cell]
) -> None:
    """The sums at the right of the last page's foot; what is due when, and where to pay it, at the left."""
    right, y = WIDTH - look.margin, FOOT + _jitter(rng)
    sums = [cell("subtotal"), cell("tax"), cell("total")]
    emphasis = rng.choice(("bold", "bold", "band", "rule"))
    draw_totals(sheet, look, right - 0.5 * WIDTH, y, 0.5 * WIDTH, sums, emphasis, 0.4 * WIDTH)
    x, y = look.margin, FOOT + _jitter(rng)
    arrangement = rng.choice(("pairs", "stacked"))
    if arrangement == "pairs":
        y = draw_pairs(sheet, look, x, y, 0.38 * WIDTH, [cell("due_date")], 0.2 * WIDTH, False, False)
    else:
        y = draw_stacked(sheet, look, x, y, [cell("due_date")])
    if rng.random() < 0.6:
        sheet.start_block()
        sheet.text(wording["pay_to"] or "", x, y + 4, look.font.bold, look.size * 0.9, color=look.accent)
        for line in bank_details(rng):
            y += look.leading
            size = fitting_size(line, look.font.regular, look.size * 0.9, 0.36 * WIDTH)
            sheet.text(line, x, y + 4, look.font.regular, size)


def _draw_page_feet(sheet: Sheet, rng: Random, look: Look) -> None:
    """Registration details and page numbers."""
    last, registered = sheet.page, rng.random() < 0.6
    number = rng.randrange(10**5, 10**7)
    for page in range(last + 1):
        sheet.page = page
        sheet.start_block()
        y, right = HEIGHT - 0.6 * look.margin, WIDTH - look.margin
        if registered:
            sheet.line(look.margin, y - 1.3 * look.size, right, y - 1.3 * look.size, RULE, 0.5)
            sheet.text(f"Reg. no. {number}", look.margin, y, look.font.regular, look.size * 0.75, color=GREY)
        if last:
            text = f"Page {page + 1} of {last + 1}"
            sheet.text(text, right, y, look.font.regular, look.size * 0.8, "right", GREY)
