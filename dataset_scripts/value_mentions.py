"""Dates, durations and amounts as documents write them, read into the one form that benchmarks give them in."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
]
_UNITS = ("day", "week", "month", "year")


class Mention(NamedTuple):
    """What stands at `text[start:end]`: the forms it can mean, several where a numeric date is ambiguous."""

    start: int
    end: int
    values: tuple[str, ...]


def fold(text: str) -> str:
    """Lower case without accents, ligatures taken apart, one kind of dash and quote: to compare, not to show."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return plain.translate(_PLAIN)


_PLAIN = str.maketrans({**dict.fromkeys("‐‑‒–—―−", "-"), **dict.fromkeys("‘’‛`´", "'"), **dict.fromkeys("“”„", '"')})


def _alternatives(names: list[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


_NUMBERS = {word: number for number, word in enumerate(_ONES)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
for _tens in _TENS:
    for _one in _ONES[1:10]:
        _NUMBERS |= {f"{_tens}{gap}{_one}": _NUMBERS[_tens] + _NUMBERS[_one] for gap in ("-", " ", "")}
_ORDINAL_NUMBERS = {word: number for number, word in enumerate(_ORDINALS)} | {"thirtieth": 30}
for _digit in range(1, 10):
    _ORDINAL_NUMBERS |= {f"twenty{gap}{_ORDINALS[_digit]}": 20 + _digit for gap in "- "}
_ORDINAL_NUMBERS |= {f"thirty{gap}first": 31 for gap in "- "}

# Months by their first three letters ("sept." too); a letter may not follow.
_MONTH = "(?P<month>" + "|".join(f"{name[:3]}(?:{name[3:]}|t)?" for name in _MONTHS) + r")(?![a-z])\.?"
_SUFFIX = r"(?:\s*(?:st|nd|rd|th))?"
_DAY = rf"(?P<day>\d{{1,2}}{_SUFFIX}|{_alternatives(list(_ORDINAL_NUMBERS))})"
_YEAR = r"(?P<year>(?:19|20)\s?\d\s?\d|'\d\d|\d\d)(?!\d)"
_FULL_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
_GAP = r"[\s,.\-/_]*"
_DATES = [
    re.compile(pattern)
    for pattern in (
        rf"(?<![a-z]){_MONTH}{_GAP}(?<!\d){_DAY}(?![\d])\)?{_GAP}(?:in\s+the\s+year\s+|of\s+)?{_FULL_YEAR}",
        rf"(?<![\da-z]){_DAY}(?![\da-z])[\s,\-_]*(?:\(\w+\)\s*)?(?:day)?[\s,_]*(?:of)?{_GAP}{_MONTH}{_GAP}"
        rf"(?:in\s+the\s+year\s+|of\s+)?{_FULL_YEAR}",
        rf"(?<![\da-z]){_DAY}[\s\-/.,]*{_MONTH}[\s\-/.,]*{_YEAR}",
        r"(?<!\d)(?P<year>(?:19|20)\d\d)\s?[-/.]\s?(?P<month>\d{1,2})\s?[-/.]\s?(?P<day>\d{1,2})(?!\d)",
    )
]
_NUMERIC_DATE = re.compile(
    r"(?<!\d)(?<!\d[-/.])(\d{1,2})\s?[-/.]\s?(\d{1,2})\s?[-/.]\s?((?:19|20)\d\d|\d\d)(?!\d|[-/.]\d)"
)
_NUMBER = rf"(?:\d+(?:\.\d+)?|{_alternatives(list(_NUMBERS))})"
_FILLER = r"(?:full|consecutive|calendar|additional|whole|complete|entire|successive)"
_DURATION = re.compile(
    rf"(?<![\w.])(?P<number>{_NUMBER}|\({_NUMBER}\))(?:\s+and\s+(?:a|one)[\s-]+half|\s+1/2)?"
    rf"\s*(?:[\[(]\s*(?P<digits>{_NUMBER})\s*[\])])?[\s\-_]*"
    rf"(?:{_FILLER}[\s-]+)?(?P<unit>{'|'.join(_UNITS)})(?:s|\(s\))?(?:'s?)?(?![a-z])"
)
_ANNIVERSARY = re.compile(
    rf"(?<!\w)(?P<ordinal>{_alternatives(list(_ORDINAL_NUMBERS))}|\d{{1,2}}(?:st|nd|rd|th))"
    r"(?:\s*\(\w+\))?[\s-]+(?:year\s+)?anniversary"
)
_CENTS = r"(?:\.\d{1,2})?"
# One kind of separator a number: in "345,678 412,345" there are two numbers.
_AMOUNT = re.compile(rf"(?<![\d.,])\(?\d{{1,3}}(?:,\d{{3}})+{_CENTS}(?!\d)|(?<![\d.,])\d+{_CENTS}(?![\d]|[.,]\d)")
_SPACED_AMOUNT = re.compile(rf"(?<![\d.,])\(?\d{{1,3}}(\s)\d{{3}}(?:\1\d{{3}})*{_CENTS}(?!\d|[.,]\d)")


def dates(text: str) -> Iterator[Mention]:
    """Dates in folded text, as "2010-03-15"; 03/04/2010 means both the 4th of March and the 3rd of April."""
    for pattern in _DATES:
        for found in pattern.finditer(text):
            month = found["month"]
            number = int(month) if month.isdigit() else 1 + [name[:3] for name in _MONTHS].index(month[:3])
            day = found["day"]
            iso = _iso(_year(found["year"]), number, _ORDINAL_NUMBERS.get(day) or int(re.sub(r"\D", "", day)))
            if iso:
                yield Mention(found.start(), found.end(), (iso,))
    for found in _NUMERIC_DATE.finditer(text):
        first, second, year = int(found[1]), int(found[2]), _year(found[3])
        meanings = {_iso(year, first, second), _iso(year, second, first)} - {None}
        if meanings:
            yield Mention(found.start(), found.end(), tuple(sorted(str(meaning) for meaning in meanings)))


def durations(text: str) -> Iterator[Mention]:
    """Durations in folded text, as "3_years" and "1_year": "three (3) years", "3-year", "second anniversary"."""
    for found in _DURATION.finditer(text):
        numbers = [_number(part) for part in (found["number"], found["digits"]) if part]
        if "half" in found[0] or "1/2" in found[0]:
            numbers = [number + Decimal("0.5") for number in numbers[:1]]
        values = dict.fromkeys(duration(number, found["unit"]) for number in numbers)
        yield Mention(found.start(), found.end(), tuple(values))
    for found in _ANNIVERSARY.finditer(text):
        ordinal = found["ordinal"]
        years = _ORDINAL_NUMBERS.get(ordinal) or int(re.sub(r"\D", "", ordinal))
        yield Mention(found.start(), found.end(), (duration(Decimal(years), "year"),))


def amounts(text: str) -> Iterator[Mention]:
    """
    Numbers in folded text, with two decimals: "1,234,567" as "1234567.00".

    "100 250.00" is one number with a space between its thousands, or two: the one comes first, then both.
    """
    found = [*_SPACED_AMOUNT.finditer(text), *_AMOUNT.finditer(text)]
    for number in sorted(found, key=lambda number: (number.start(), -number.end())):
        value = amount(number[0])
        if value:
            yield Mention(number.start(), number.end(), (value,))


def amount(text: str) -> str | None:
    """As "1234.50" from "1,234.5"; None where it is no number."""
    try:
        return str(Decimal(re.sub(r"[,\s()]", "", text)).quantize(Decimal("0.01")))
    except InvalidOperation:
        return None


def duration(number: Decimal, unit: str) -> str:
    """A number and a unit in the singular as Kleister writes them: "1_year", "18_months", "55.5_months"."""
    return f"{number.normalize():f}_{unit}{'' if number == 1 else 's'}"


def same_durations(value: str) -> set[str]:
    """The same length of time in other units: for "1_year" also "12_months"."""
    number, _, unit = value.partition("_")
    unit = unit.removesuffix("s")
    try:
        length = Decimal(number)
    except InvalidOperation:
        return set()
    if unit == "year":
        return {duration(length * 12, "month")}
    if unit == "month" and length % 12 == 0:
        return {duration(length / 12, "year")}
    return set()


def _number(text: str) -> Decimal:
    text = text.strip("()")
    return Decimal(_NUMBERS[text]) if text in _NUMBERS else Decimal(text)


def _year(text: str) -> int:
    digits = re.sub(r"\D", "", text)
    # Two digits: Kleister's and SROIE's documents are from 1990 to 2020.
    return int(digits) if len(digits) == 4 else int(digits) + (2000 if int(digits) < 50 else 1900)


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
