"""What a business document is about: who, when, which numbers and amounts."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from broadsheet.demo.business_data import SHOP_ITEMS, Style, company, item, person
from broadsheet.demo.layout_parts import Cell


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


def make_deal(rng: Random, kind: str, style: Style, wording: dict[str, str | None]) -> Deal:
    day = date(2019, 1, 1) + timedelta(days=rng.randrange(2400))
    due = day + timedelta(days=rng.choice((7, 10, 14, 21, 28, 30, 45, 60)))
    few = rng.randrange(1, 9)
    num_rows = few if kind in ("receipt", "letter") or rng.random() < 0.93 else rng.randrange(24, 50)
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
    sender, recipient = company(rng), company(rng)
    if kind != "purchase order" and rng.random() < 0.2:
        recipient = person(rng)
    deliver_to = rng.choice((company(rng), person(rng)))
    paid = -(-total // 500) * 500 if rng.random() < 0.6 else total
    return Deal(sender, recipient, deliver_to, values, rows, net, extra, total, paid)


def _tax_rate(rng: Random, caption: str) -> float:
    """The rate that the caption tells, or one at random."""
    told = re.search(r"([\d.]+)%", caption)
    return float(told[1]) / 100 if told else rng.choice((0.05, 0.07, 0.1, 0.19, 0.2))


def make_field(wording: dict[str, str | None], deal: Deal, name: str) -> Cell:
    caption = wording.get(name)
    return Cell(caption, deal.values[name], name)
