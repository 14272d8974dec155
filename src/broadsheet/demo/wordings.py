"""
The words that name fields on the demo's documents, for the training and the held-out templates.

No label of a held-out template names the same field in a training template; some name another one there. Some labels
fit two fields ("No.", "Ref."), and many fields have none at all, as on real documents. What carries over from one
split to the other is where the fields stand.
"""

from random import Random

FIELDS = ("sender", "recipient", "number", "date", "due_date", "subtotal", "tax", "total")

_TRAIN: dict[str, dict[str, tuple[str | None, ...]]] = {
    "invoice": {
        "title": ("Invoice", "INVOICE", "Tax Invoice", "Sales Invoice"),
        "number": ("Invoice no.", "Invoice number", "Invoice #", "No.", "Ref.", "Inv. ID", "Voucher", "Our number"),
        "date": ("Invoice date", "Date", "Date of invoice", "Issued", "Written on"),
        "due_date": ("Due date", "Payment due", "Due", "Pay until", "Deadline"),
        "recipient": ("Bill to", "Customer", "Invoice to", "Buyer", "Charged to"),
        "delivery": ("Ship to", "Delivery address"),
        "total": ("Total", "Amount due", "Grand total", "Total incl. tax"),
    },
    "purchase order": {
        "title": ("Purchase Order", "PURCHASE ORDER", "Order"),
        "number": ("Order no.", "PO number", "No.", "Ref.", "Order ID", "Request"),
        "date": ("Order date", "Date", "Ordered on", "Issued"),
        "due_date": ("Delivery date", "Deliver by", "Required by"),
        "recipient": ("Supplier", "Vendor", "Order to", "Seller"),
        "delivery": ("Ship to", "Deliver to"),
        "total": ("Order total", "Total", "Total amount"),
    },
    "statement": {
        "title": ("Statement of Account", "STATEMENT", "Account Statement"),
        "number": ("Statement no.", "No.", "Ref.", "Extract", "Account"),
        "date": ("Statement date", "Date", "Closing day", "Printed on"),
        "due_date": ("Due date", "Payment due"),
        "recipient": ("Customer", "Account holder", "Member", "Owner"),
        "delivery": ("Branch", "Site"),
        "total": ("Amount due", "Total due", "Total outstanding"),
    },
    "letter": {
        "title": ("Payment reminder", "Reminder", "Confirmation of your order"),
        "number": ("Our reference", "Our ref.", "Ref.", "Case", "Letter no."),
        "date": ("Date", "Day", "Written on"),
        "due_date": ("Due date", "Due on", "Deadline", "Pay until"),
        "total": ("Total", "Amount due"),
    },
}
_TEST: dict[str, dict[str, tuple[str | None, ...]]] = {
    "invoice": {
        "title": ("Bill", "BILL OF CHARGES", "Account Rendered"),
        "number": ("Reference", "Document", "Bill ID", "Our file"),
        "date": ("Dated", "Day of issue", "Made out on"),
        "due_date": ("Payable by", "Settle before", "Last day of payment"),
        "recipient": ("Client", "Sold to", "Messrs"),
        "delivery": ("Consignee", "Goods received by"),
        "total": ("Balance payable", "To pay", "All in all"),
    },
    "purchase order": {
        "title": ("Procurement", "REQUEST FOR SUPPLY", "Commission"),
        "number": ("Reference", "Call-off", "Commission ID"),
        "date": ("Placed on", "Dated"),
        "due_date": ("Wanted until", "Latest arrival"),
        "recipient": ("Contractor", "Addressed to"),
        "delivery": ("Consignee", "Goods received by"),
        "total": ("Commission value", "All in all"),
    },
    "statement": {
        "title": ("Open Items", "SUMMARY OF CHARGES"),
        "number": ("Sheet", "Reference"),
        "date": ("As of", "Compiled on"),
        "due_date": ("Settle before", "Last day of payment"),
        "recipient": ("Client", "In the name of"),
        "delivery": ("Office", "Works"),
        "total": ("Balance payable", "To settle"),
    },
    "letter": {
        "title": ("Open balance", "Your commission", "Friendly notice"),
        "number": ("Sign", "File"),
        "date": ("Dated",),
        "due_date": ("Settle before", "Payable by"),
        "total": ("To settle", "Balance payable"),
    },
}
_TRAIN_COMMON: dict[str, tuple[str | None, ...]] = {
    "subtotal": ("Subtotal", "Net amount", "Sum", "Total excl. tax", "Total", "Items", "Value of goods"),
    "tax": ("VAT 20%", "VAT 19%", "Sales tax 8.25%", "Tax", "VAT", "Tax 7%"),
    "contact": ("Contact", "Sales rep", "Clerk", "Handled by", "Assistant", "Phone"),
    "description": ("Description", "Item", "Article"),
    "quantity": ("Qty", "Quantity"),
    "price": ("Unit price", "Price"),
    "amount": ("Amount", "Line total"),
    "code": ("Code", "Item no.", "SKU"),
    "day": ("Date",),
    "pay_to": ("Please pay to", "Bank details"),
    "carried": ("Carried forward", "Page total"),
}
_TEST_COMMON: dict[str, tuple[str | None, ...]] = {
    "subtotal": ("Before tax", "Goods and services", "Net"),
    "tax": ("GST 10%", "MwSt. 19%", "Duty 7.7%", "Levy"),
    "contact": ("Attended by", "Agent"),
    "description": ("Particulars", "Goods", "Service"),
    "quantity": ("Units", "No."),
    "price": ("Each", "Rate"),
    "amount": ("Value", "Sum"),
    "code": ("Part", "Key"),
    "day": ("Day",),
    "pay_to": ("Kindly remit to", "Our bankers"),
    "carried": ("Brought over", "So far"),
}


# How often a field stands on a document without a label.
_UNLABELLED = {
    "number": 0.3, "date": 0.4, "due_date": 0.2, "recipient": 0.4, "delivery": 0.2, "subtotal": 0.3,
    "tax": 0.1, "total": 0.2,
}  # fmt: skip


def draw_wording(rng: Random, split: str, kind: str) -> dict[str, str | None]:
    """
    One company's word for each field of a document of this kind, `None` for a field without a label, and a title.

    Args:
        split: "train" or "test".
        kind: "invoice", "purchase order", "statement" or "letter".
    """
    own, common = (_TRAIN, _TRAIN_COMMON) if split == "train" else (_TEST, _TEST_COMMON)
    words = {field: rng.choice(choices) for field, choices in {**common, **own[kind]}.items()}
    return {field: None if rng.random() < _UNLABELLED.get(field, 0) else word for field, word in words.items()}


def wordings(split: str, field: str) -> set[str]:
    """All words for a field in a split, over all kinds of documents."""
    own, common = (_TRAIN, _TRAIN_COMMON) if split == "train" else (_TEST, _TEST_COMMON)
    choices = [*common.get(field, ()), *(choice for kind in own.values() for choice in kind.get(field, ()))]
    return {choice for choice in choices if choice is not None}
