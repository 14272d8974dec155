"""
The words that name fields on the demo's documents, for the training and the held-out templates.

No label of a held-out template names the same field in a training template; several name another one there. What
carries over from one split to the other is where the fields stand. `None` is a field without any label.
"""

from random import Random

FIELDS = ("sender", "recipient", "number", "reference", "date", "due_date", "subtotal", "tax", "total")

_TRAIN: dict[str, dict[str, tuple[str | None, ...]]] = {
    "invoice": {
        "title": ("Invoice", "INVOICE", "Tax Invoice", "Sales Invoice"),
        "number": ("Invoice no.", "Invoice number", "Invoice #", "Invoice No"),
        "reference": ("Order no.", "Your order", "PO number", "Reference"),
        "date": ("Invoice date", "Date", "Date of invoice"),
        "due_date": ("Due date", "Payment due", "Due"),
        "recipient": ("Bill to", "Customer", "Invoice to", None),
        "delivery": ("Ship to", "Delivery address"),
        "total": ("Total", "Amount due", "Grand total", "Invoice total"),
    },
    "purchase order": {
        "title": ("Purchase Order", "PURCHASE ORDER", "Order"),
        "number": ("Order no.", "PO number", "Order number"),
        "reference": ("Quotation no.", "Your quotation", "Contract no."),
        "date": ("Order date", "Date"),
        "due_date": ("Delivery date", "Deliver by", "Required by"),
        "recipient": ("Supplier", "Vendor", None),
        "delivery": ("Ship to", "Deliver to"),
        "total": ("Order total", "Total", "Total amount"),
    },
    "statement": {
        "title": ("Statement of Account", "STATEMENT", "Account Statement"),
        "number": ("Statement no.", "Statement number"),
        "reference": ("Customer no.", "Account no."),
        "date": ("Statement date", "Date"),
        "due_date": ("Due date", "Payment due"),
        "recipient": ("Customer", "Account holder", None),
        "delivery": ("Branch", "Site"),
        "total": ("Amount due", "Total due", "Total outstanding"),
    },
    "receipt": {
        "title": ("Receipt", "SALES RECEIPT", None),
        "number": ("Receipt no.", "Receipt #"),
        "date": ("Date", None),
        "total": ("TOTAL", "Total", "Amount"),
    },
    "letter": {
        "title": ("Payment reminder", "Reminder", "Confirmation of your order"),
        "number": ("Our reference", "Our ref."),
        "reference": ("Your reference", "Your ref."),
        "date": ("Date", None),
        "due_date": ("Due date", "Due on"),
        "recipient": (None,),
        "total": ("Total", "Amount due"),
    },
}
_TEST: dict[str, dict[str, tuple[str | None, ...]]] = {
    "invoice": {
        "title": ("Bill", "BILL OF CHARGES", "Account Rendered"),
        "number": ("Reference", "Document", "Bill ID", "Our file", None),
        "reference": ("Client code", "Your sign", "Purchase"),
        "date": ("Dated", "Day of issue", "Made out on", None),
        "due_date": ("Payable by", "Settle before", "Last day of payment"),
        "recipient": ("Client", "Sold to", "Messrs", None),
        "delivery": ("Consignee", "Goods received by"),
        "total": ("Balance payable", "To pay", "All in all", None),
    },
    "purchase order": {
        "title": ("Procurement", "REQUEST FOR SUPPLY", "Commission"),
        "number": ("Reference", "Call-off", "Commission ID", None),
        "reference": ("Offer", "Framework", "Your sign"),
        "date": ("Placed on", "Dated", None),
        "due_date": ("Wanted until", "Latest arrival"),
        "recipient": ("Contractor", "Addressed to", None),
        "delivery": ("Consignee", "Goods received by"),
        "total": ("Commission value", "All in all", None),
    },
    "statement": {
        "title": ("Open Items", "SUMMARY OF CHARGES"),
        "number": ("Sheet", "Reference", None),
        "reference": ("Client code", "Ledger"),
        "date": ("As of", "Compiled on", None),
        "due_date": ("Settle before", "Last day of payment"),
        "recipient": ("Client", "In the name of", None),
        "delivery": ("Office", "Works"),
        "total": ("Balance payable", "To settle", None),
    },
    "receipt": {
        "title": ("Thank you for your visit", None),
        "number": ("Ticket", "Slip", None),
        "date": ("Printed", None),
        "total": ("TO PAY", "All in all", None),
    },
    "letter": {
        "title": ("Open balance", "Your commission", "Friendly notice"),
        "number": ("Sign", "File", None),
        "reference": ("Yours", "Client code"),
        "date": ("Dated", None),
        "due_date": ("Settle before", "Payable by"),
        "recipient": (None,),
        "total": ("To settle", "Balance payable"),
    },
}
_TRAIN_COMMON: dict[str, tuple[str | None, ...]] = {
    "subtotal": ("Subtotal", "Net amount", "Sum", "Net total"),
    "tax": ("VAT 20%", "VAT 19%", "Sales tax 8.25%", "Tax", "VAT", "Tax 7%"),
    "extra": ("Shipping", "Freight", "Discount"),
    "paid": ("Cash", "Card", "Paid"),
    "change": ("Change", "Balance"),
    "contact": ("Contact", "Sales rep", "Clerk"),
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
    "subtotal": ("Before tax", "Goods and services", "Net", None),
    "tax": ("GST 10%", "MwSt. 19%", "Duty 7.7%", "Levy"),
    "extra": ("Packing", "Rebate", "Handling"),
    "paid": ("Tendered", "Voucher"),
    "change": ("Returned", "Back to you"),
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


def draw_wording(rng: Random, split: str, kind: str) -> dict[str, str | None]:
    """
    One company's word for each field of a document of this kind, and a title.

    Args:
        split: "train" or "test".
        kind: "invoice", "purchase order", "statement", "receipt" or "letter".
    """
    own, common = (_TRAIN, _TRAIN_COMMON) if split == "train" else (_TEST, _TEST_COMMON)
    return {field: rng.choice(choices) for field, choices in {**common, **own[kind]}.items()}


def wordings(split: str, field: str) -> set[str]:
    """All words for a field in a split, over all kinds of documents."""
    own, common = (_TRAIN, _TRAIN_COMMON) if split == "train" else (_TEST, _TEST_COMMON)
    choices = [*common.get(field, ()), *(choice for kind in own.values() for choice in kind.get(field, ()))]
    return {choice for choice in choices if choice is not None}
