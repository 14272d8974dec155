"""Documents that are no forms: till receipts and letters."""

from random import Random

from broadsheet.demo.business_data import address, contact, item, person
from broadsheet.demo.deals import Deal, make_field
from broadsheet.demo.footers import draw_footers
from broadsheet.demo.forms import LETTERHEADS, PAGE_SIZES
from broadsheet.demo.layout_parts import (
    GREY,
    Cell,
    Look,
    draw_block,
    draw_boxes,
    draw_letterhead,
    draw_pairs,
    draw_paragraph,
    draw_totals,
)
from broadsheet.demo.sheet import Sheet


def draw_receipt(rng: Random, look: Look, wording: dict[str, str | None], deal: Deal) -> Sheet:
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
    cells = [make_field(wording, deal, "number"), make_field(wording, deal, "date")]
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
    sums = [make_field(wording, deal, name) for name in ("subtotal", "tax", "total")]
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


def draw_letter(rng: Random, split: str, look: Look, wording: dict[str, str | None], deal: Deal) -> Sheet:
    """A letter about money: a reminder, or the confirmation of an order."""
    sheet = Sheet(*rng.choice(PAGE_SIZES))
    look.margin = max(look.margin, 56.0)
    left, right = look.margin, sheet.width - look.margin
    width = right - left
    y = draw_letterhead(
        sheet,
        look,
        rng,
        rng.choice(LETTERHEADS[split]),
        deal.sender,
        address(rng) + contact(rng, deal.sender),
        rng.random() < 0.4,
        look.margin + 16,
    )
    y += 2 * look.leading
    y_block = draw_block(sheet, look, left, y, None, deal.recipient, address(rng), "recipient")
    names = ("number", "date", "reference") if split == "train" else ("number", "reference", "date")
    cells = [make_field(wording, deal, name) for name in names if name != "reference" or rng.random() < 0.7]
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
            f"thank you for your message of {earlier}. For your records we have put together what has been agreed "
            "between us, and ask you to check it.",
            f"we refer to our letter of {earlier} and to our talk with {person(rng)} and would like to draw your "
            "attention to the following amounts.",
            f"on {earlier} our {rng.choice(('Mr', 'Ms'))} {person(rng)} discussed the delivery of "
            f"{item(rng).lower()} with you. The amounts below are what we agreed on.",
        )
    )
    y = draw_paragraph(sheet, look, left, y, width, "Dear Sir or Madam,", look.size) + 0.6 * look.leading
    y = draw_paragraph(sheet, look, left, y, width, opening, look.size) + 0.8 * look.leading
    sums = [make_field(wording, deal, name) for name in ("subtotal", "tax", "total", "due_date")]
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
    draw_footers(sheet, rng, look)
    return sheet
