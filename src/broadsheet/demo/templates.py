"""
Business documents laid out at random: invoices, purchase orders, statements, receipts and letters.

Every document has a template of its own, as every company has: arrangement, wording, fonts and the order of drawing
are drawn anew. The held-out split differs in wording (see `wordings`), in the order of the fields and partly in the
arrangement. What holds in both splits is what holds for business documents at large: the sender stands at the head;
the recipient's block comes before the place of delivery; the document's own number comes before others' references;
the date before the date by which something is due; the sums stand below the column of amounts, first the net amount,
then the tax, last the total.
"""

from random import Random

from broadsheet.demo.business_data import Style
from broadsheet.demo.deals import make_deal
from broadsheet.demo.forms import draw_form
from broadsheet.demo.layout_parts import ACCENTS, TINT, Look
from broadsheet.demo.sheet import FONT_FAMILIES, Order, Sheet
from broadsheet.demo.slips_and_letters import draw_letter, draw_receipt
from broadsheet.demo.wordings import draw_wording

KINDS = ("invoice", "purchase order", "statement", "receipt", "letter")
_KIND_WEIGHTS = (35, 20, 15, 12, 18)
_ORDERS: tuple[Order, ...] = ("rows", "columns", "blocks", "labels first", "any field")
_ORDER_WEIGHTS = (20, 15, 20, 15, 30)


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
    deal = make_deal(rng, kind, look.style, wording)
    if kind == "receipt":
        sheet = draw_receipt(rng, look, wording, deal)
    elif kind == "letter":
        sheet = draw_letter(rng, split, look, wording, deal)
    else:
        sheet = draw_form(rng, split, kind, look, wording, deal)
    sheet.reorder(rng.choices(_ORDERS, _ORDER_WEIGHTS)[0], rng)
    return sheet, kind
