"""
Business documents laid out at random: invoices, purchase orders, statements, receipts and letters.

Every document has a template of its own, as every company has: arrangement, wording, fonts and the order of drawing
are drawn anew. The held-out split differs in wording (see `wordings`), in the order of the fields and partly in the
arrangement. What holds in both splits is what holds for business documents at large: the sender stands at the head;
the recipient's block comes before the place of delivery; the document's own number comes before others' references;
the date before the date by which something is due; the sums stand below the column of amounts, first the net amount,
then the tax, last the total.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from broadsheet.demo.business_data import (
    SHOP_ITEMS,
    Style,
    address,
    bank_details,
    company,
    contact,
    item,
    person,
)
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
    draw_letterhead,
    draw_pairs,
    draw_paragraph,
    draw_stacked,
    draw_totals,
    fitting_size,
)
from broadsheet.demo.sheet import FONT_FAMILIES, Align, Order, Sheet
from broadsheet.demo.wordings import draw_wording

KINDS = ("invoice", "purchase order", "statement", "receipt", "letter")
_KIND_WEIGHTS = (35, 20, 15, 12, 18)
_ORDERS: tuple[Order, ...] = ("rows", "columns", "blocks", "labels first", "any field")
_ORDER_WEIGHTS = (20, 15, 20, 15, 30)
_FIELD_ORDERS = {
    "train": (("number", "date", "due_date", "reference"), ("number", "date", "reference", "due_date")),
    "test": (("number", "reference", "date", "due_date"),),
}
_ARRANGEMENTS = {
    "train": ("pairs right", "pairs right", "boxes", "stacked right", "pairs left"),
    "test": ("pairs right", "pairs left", "boxes upside down", "two columns", "stacked left"),
}
_LETTERHEADS: dict[str, tuple[Align, ...]] = {"train": ("left", "left", "center"), "test": ("right", "left", "center")}
_PAGE_SIZES = ((595.0, 842.0), (612.0, 792.0))
_TERMS = (
    "Goods remain our property until they have been paid for in full. Claims about defects can be made within ten "
    "days after delivery and in writing. Payments are credited to the oldest open item first. Interest is charged on "
    "late payments at the statutory rate. The place of jurisdiction is the sender's place of business. Oral side "
    "agreements do not exist; changes of these terms have to be made in writing."
)


@dataclass
class Deal:
    """What a document is about: who, when, which numbers and amounts."""

    sender: str
    recipient: str
    deliver_to: str
    values: dict[str, str]
    rows: list[tuple[str, int, int]]  # description, quantity, unit price in cents
    net: int
    extra: int
    total: int
    paid: int


def draw_document(rng: Random, split: str) -> tuple[Sheet, str]:
    """A document of a random kind, its pieces in the order of drawing, and its kind."""
    kind = rng.choices(KINDS, _KIND_WEIGHTS)[0]
    wording = draw_wording(rng, split, kind)
    look = Look(
        font=rng.choice(FONT_FAMILIES),
        size=rng.choice((9.0, 9.5, 10.0, 10.5, 11.0)),
        accent=rng.choice(ACCENTS),
        tint=rng.choice(TINT),
        margin=rng.uniform(38, 64),
        style=Style.draw(rng),
    )
    if look.font.regular in ("Courier", "Vera"):  # wide letters
        look.size -= 1.0
    deal = _make_deal(rng, split, kind, look.style, wording)
    if kind == "receipt":
        sheet = _draw_receipt(rng, look, wording, deal)
    elif kind == "letter":
        sheet = _draw_letter(rng, split, look, wording, deal)
    else:
        sheet = _draw_form(rng, split, kind, look, wording, deal)
    sheet.reorder(rng.choices(_ORDERS, _ORDER_WEIGHTS)[0], rng)
    return sheet, kind


def _make_deal(rng: Random, split: str, kind: str, style: Style, wording: dict[str, str | None]) -> Deal:
    day = date(2019, 1, 1) + timedelta(days=rng.randrange(2400))
    due = day + timedelta(days=rng.choice((7, 10, 14, 21, 28, 30, 45, 60)))
    few = rng.randrange(1, 9)
    num_rows = few if kind in ("receipt", "letter") or rng.random() < 0.86 else rng.randrange(26, 58)
    rows = []
    for _ in range(num_rows):
        if kind == "receipt":
            rows.append((rng.choice(SHOP_ITEMS), rng.choice((1, 1, 1, 2, 3)), rng.randrange(80, 1900)))
        else:
            rows.append((item(rng), rng.choice((1, 1, 2, 3, 4, 5, 8, 10, 12, 20)), rng.randrange(300, 90000)))
    net = sum(quantity * price for _, quantity, price in rows)
    extra = rng.randrange(500, 9000) if kind != "statement" and kind != "receipt" and rng.random() < 0.35 else 0
    tax = round((net + extra) * _tax_rate(rng, wording["tax"] or ""))
    total = net + extra + tax
    values = {
        "number": style.number(rng, day.year),
        "reference": style.number(rng, day.year),
        "date": style.date(day),
        "due_date": style.date(due),
        "subtotal": style.amount(net),
        "tax": style.amount(tax),
        "total": style.amount(total),
        "earlier": style.date(day - timedelta(days=rng.randrange(8, 60))),
    }
    sender, recipient = company(rng, split), company(rng, split)
    if kind != "purchase order" and rng.random() < 0.2:
        recipient = person(rng)
    deliver_to = rng.choice((company(rng, split), person(rng)))
    paid = -(-total // 500) * 500 if rng.random() < 0.6 else total
    return Deal(sender, recipient, deliver_to, values, rows, net, extra, total, paid)


def _tax_rate(rng: Random, caption: str) -> float:
    """The rate that the caption tells, or one at random."""
    told = re.search(r"([\d.]+)%", caption)
    return float(told[1]) / 100 if told else rng.choice((0.05, 0.07, 0.1, 0.19, 0.2))


def _field(wording: dict[str, str | None], deal: Deal, name: str) -> Cell:
    caption = wording.get(name)
    return Cell(caption, deal.values[name], name)


def _draw_form(rng: Random, split: str, kind: str, look: Look, wording: dict[str, str | None], deal: Deal) -> Sheet:
    """An invoice, purchase order or statement."""
    sheet = Sheet(*rng.choice(_PAGE_SIZES))
    left, right = look.margin, sheet.width - look.margin
    width = right - left
    bottom = sheet.height - look.margin - 70
    place = rng.choice(_LETTERHEADS[split])
    lines = [", ".join(address(rng))] if rng.random() < 0.3 else address(rng)
    if rng.random() < 0.6:
        lines += contact(rng, deal.sender)
    top = look.margin + 22
    y = draw_letterhead(sheet, look, rng, place, deal.sender, lines, rng.random() < 0.45, top)
    y = _draw_title(sheet, rng, look, place, wording["title"] or "", top, y)

    due_below = rng.random() < 0.25
    cells = [_field(wording, deal, name) for name in rng.choice(_FIELD_ORDERS[split])]
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
        bottom - 40,
        wording["carried"],
    )
    if y + 9 * look.leading > bottom:
        sheet.new_page()
        y = look.margin + 40
    y += 0.8 * look.leading
    sums = [_field(wording, deal, "subtotal"), _field(wording, deal, "tax"), _field(wording, deal, "total")]
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
        draw_paragraph(
            sheet, look, left, y + look.leading, 0.9 * width, _TERMS[: _TERMS.index(".", 90) + 1], look.size
        )
    _draw_footers(sheet, rng, look, deal)
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
        y = draw_pairs(sheet, look, x, y, 0.9 * width, [_field(wording, deal, "due_date")], 0.5 * width, False, False)
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


def _draw_footers(sheet: Sheet, rng: Random, look: Look, deal: Deal) -> None:
    """Registration details on every page, page numbers, and sometimes a page of terms at the end."""
    left, right = look.margin, sheet.width - look.margin
    if rng.random() < 0.08:
        sheet.new_page()
        y = look.margin + 40
        sheet.text("Terms and conditions", left, y, look.font.bold, look.size * 1.2, color=look.accent)
        for number, sentence in enumerate(_TERMS.split(". "), 1):
            text = f"{number}. {sentence.rstrip('.')}."
            y = draw_paragraph(sheet, look, left, y + 1.5 * look.leading, right - left, text, look.size)
    last = sheet.page
    registration = f"Reg. no. {rng.randrange(10**5, 10**7)} · VAT ID {rng.choice(('GB', 'DE', 'NL'))}{rng.randrange(10**8, 10**9)}"
    registered = rng.random() < 0.6
    for page in range(last + 1):
        sheet.page = page
        sheet.start_block()
        y = sheet.height - 0.6 * look.margin
        if registered:
            sheet.line(left, y - 1.3 * look.size, right, y - 1.3 * look.size, RULE, 0.5)
            sheet.text(registration, left, y, look.font.regular, look.size * 0.75, color=GREY)
        if last:
            text = f"Page {page + 1} of {last + 1}"
            sheet.text(text, right, y, look.font.regular, look.size * 0.8, "right", GREY)


def _draw_receipt(rng: Random, look: Look, wording: dict[str, str | None], deal: Deal) -> Sheet:
    """A till receipt: one narrow column."""
    look.margin = 14.0
    look.size = min(look.size, 8.5)
    sheet = Sheet(rng.choice((216.0, 226.0, 240.0)), 0.0)
    width = sheet.width - 2 * look.margin
    y = draw_letterhead(sheet, look, rng, "center", deal.sender, address(rng), False, look.margin + 18)
    if wording["title"]:
        sheet.start_block()
        sheet.text(wording["title"], sheet.width / 2, y + 4, look.font.bold, look.size * 1.2, "center")
        y += 1.8 * look.leading
    cells = [_field(wording, deal, "number"), _field(wording, deal, "date")]
    if rng.random() < 0.6:
        cells.append(Cell(wording["contact"], person(rng)))
    y = draw_pairs(sheet, look, look.margin, y + 4, width, cells, 0.4 * width, False, rng.random() < 0.6)
    sheet.line(look.margin, y, sheet.width - look.margin, y)
    y += 1.3 * look.leading
    sheet.start_block()
    for text, quantity, price in deal.rows:
        name = f"{quantity} x {text}" if rng.random() < 0.5 or quantity > 1 else text
        sheet.text(name, look.margin, y, look.font.regular, look.size, is_value=True)
        amount = look.style.amount(quantity * price, False)
        sheet.text(amount, sheet.width - look.margin, y, look.font.regular, look.size, "right", is_value=True)
        y += 1.15 * look.leading
    sheet.line(look.margin, y - 0.5 * look.size, sheet.width - look.margin, y - 0.5 * look.size)
    y += 0.8 * look.leading
    sums = [_field(wording, deal, name) for name in ("subtotal", "tax", "total")]
    sums.append(Cell(wording["paid"], look.style.amount(deal.paid, False)))
    if rng.random() < 0.6:
        sums.append(Cell(wording["change"], look.style.amount(deal.paid - deal.total, False)))
    y = draw_totals(sheet, look, look.margin, y, width + 4, sums, rng.choice(("bold", "rule")), width + 4)
    sheet.start_block()
    sheet.text(
        "Please keep this slip for your records",
        sheet.width / 2,
        y + look.leading,
        look.font.regular,
        look.size * 0.8,
        "center",
        GREY,
    )
    sheet.height = y + 4 * look.leading
    return sheet


def _draw_letter(rng: Random, split: str, look: Look, wording: dict[str, str | None], deal: Deal) -> Sheet:
    """A letter about money: a reminder, or the confirmation of an order."""
    sheet = Sheet(*rng.choice(_PAGE_SIZES))
    look.margin = max(look.margin, 56.0)
    left, right = look.margin, sheet.width - look.margin
    width = right - left
    y = draw_letterhead(
        sheet,
        look,
        rng,
        rng.choice(_LETTERHEADS[split]),
        deal.sender,
        address(rng) + contact(rng, deal.sender),
        rng.random() < 0.4,
        look.margin + 16,
    )
    y += 2 * look.leading
    y_block = draw_block(sheet, look, left, y, None, deal.recipient, address(rng), "recipient")
    names = ("number", "date", "reference") if split == "train" else ("number", "reference", "date")
    cells = [_field(wording, deal, name) for name in names if name != "reference" or rng.random() < 0.7]
    if rng.random() < 0.5:
        y = draw_boxes(sheet, look, left, y_block + 2 * look.leading, width, cells, False, split == "test")
    else:
        y_fields = draw_pairs(
            sheet, look, left + 0.6 * width, y, 0.4 * width, cells, 0.2 * width, False, rng.random() < 0.4
        )
        y = max(y_block, y_fields) + 2 * look.leading
    sheet.start_block()
    sheet.text(wording["title"] or "", left, y, look.font.bold, look.size * 1.25, color=look.accent)
    y += 2 * look.leading
    earlier = deal.values["earlier"]
    opening = rng.choice(
        (
            f"thank you for your message of {earlier}. For your records we have put together what has been agreed between "
            "us, and ask you to check it.",
            f"we refer to our letter of {earlier} and to our talk with {person(rng)} and would like to draw your attention "
            "to the following amounts.",
            f"on {earlier} our {rng.choice(('Mr', 'Ms'))} {person(rng)} discussed the delivery of {item(rng).lower()} with you. The "
            "amounts below are what we agreed on.",
        )
    )
    y = draw_paragraph(sheet, look, left, y, width, "Dear Sir or Madam,", look.size) + 0.6 * look.leading
    y = draw_paragraph(sheet, look, left, y, width, opening, look.size) + 0.8 * look.leading
    sums = [_field(wording, deal, name) for name in ("subtotal", "tax", "total", "due_date")]
    if rng.random() < 0.3:
        y = draw_boxes(sheet, look, left, y + look.leading, width, sums, rng.random() < 0.5)
    else:
        y = draw_pairs(
            sheet,
            look,
            left + 0.12 * width,
            y + 4,
            0.6 * width,
            sums,
            0.34 * width,
            rng.random() < 0.4,
            rng.random() < 0.6,
        )
    closing = (
        "Should you have any questions, please do not hesitate to write to us or to call. If the matter has been "
        "settled in the meantime, please regard this letter as void."
    )
    y = draw_paragraph(sheet, look, left, y + look.leading, width, closing, look.size) + 1.5 * look.leading
    sheet.start_block()
    sheet.text(
        rng.choice(("Yours faithfully", "Kind regards", "Yours sincerely")), left, y, look.font.regular, look.size
    )
    sheet.text(person(rng), left, y + 3.4 * look.leading, look.font.regular, look.size, is_value=True)
    _draw_footers(sheet, rng, look, deal)
    return sheet
