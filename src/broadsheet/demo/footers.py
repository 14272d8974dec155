"""What stands at the foot of every page, and the small print."""

from random import Random

from broadsheet.demo.layout_parts import GREY, RULE, Look, draw_paragraph
from broadsheet.demo.sheet import Sheet

TERMS = (
    "Goods remain our property until they have been paid for in full. Claims about defects can be made within ten "
    "days after delivery and in writing. Payments are credited to the oldest open item first. Interest is charged on "
    "late payments at the statutory rate. The place of jurisdiction is the sender's place of business. Oral side "
    "agreements do not exist; changes of these terms have to be made in writing."
)


def draw_footers(sheet: Sheet, rng: Random, look: Look) -> None:
    """Registration details on every page, page numbers, and sometimes a page of terms at the end."""
    left, right = look.margin, sheet.width - look.margin
    if rng.random() < 0.08:
        sheet.new_page()
        y = look.margin + 40
        sheet.text("Terms and conditions", left, y, look.font.bold, look.size * 1.2, color=look.accent)
        for number, sentence in enumerate(TERMS.split(". "), 1):
            text = f"{number}. {sentence.rstrip('.')}."
            y = draw_paragraph(sheet, look, left, y + 1.5 * look.leading, right - left, text, look.size)
    last = sheet.page
    tax_id = f"{rng.choice(('GB', 'DE', 'NL'))}{rng.randrange(10**8, 10**9)}"
    registration = f"Reg. no. {rng.randrange(10**5, 10**7)} · VAT ID {tax_id}"
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
