"""
The values that predicted entities state, in the form that Kleister and SROIE give them in, and their F1.

A model marks words; the benchmarks score values. "this 15th day of March, 2010" is 2010-03-15 in Kleister, and where
a document states a value in several places it counts once.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broadsheet.dataset_scripts.value_alignment import name_core
from broadsheet.dataset_scripts.value_mentions import Mention, amounts, dates, durations, fold
from broadsheet.metrics.values import kleister_f1, sroie_f1

# Legal forms as Kleister's values spell them.
_FORMS = {"l.p.": "LP", "l.l.c.": "LLC", "inc": "Inc.", "incorporated": "Inc.", "ltd": "Ltd.", "limited": "Ltd."}
# The ends of names that have a dot of their own.
_DOTTED = re.compile(r"\b(?:[A-Z]|(?i:inc|corp|co|ltd|sr|jr))\.$")
_SEVERAL = ("party",)
_ENDS = " \t,;:.()[]{}\"'“”‘’*"
_DATE = re.compile(
    r"\d{1,4}\s?[-/.]\s?\d{1,2}\s?[-/.]\s?\d{2,4}"
    r"|\d{1,2}(?:st|nd|rd|th)?[\s\-/.,']*[a-z]{3,9}[\s\-/.,']*\d{2,4}"
    r"|[a-z]{3,9}\.?\s*\d{1,2}(?:st|nd|rd|th)?[\s,]+\d{4}",
    re.IGNORECASE,
)
# 04032018 or 20180304.
_DAY, _MONTH, _YEAR = r"(?:0[1-9]|[12]\d|3[01])", r"(?:0[1-9]|1[0-2])", r"(?:19|20)\d\d"
_EIGHT_DIGITS = re.compile(rf"(?<!\d)(?:{_YEAR}{_MONTH}{_DAY}|{_DAY}{_MONTH}{_YEAR})(?!\d)")
_TOTAL = re.compile(r"(?:(?<!\S)-)?(?:(?:RM|\$)\s?)?\d[\d,]*(?:\.\d{1,2})?")


def kleister_values(entities: Iterable[Any], day_first: bool = False) -> dict[str, list[str]]:
    """
    The values of one document in Kleister's form.

    Dates, durations and amounts are read; what cannot be read is no value. Of a key with one value the one with the
    highest sum of scores is taken; of parties all, each once however it is spelt.

    Args:
        entities: with `label`, `text` and `score`, as `post_process_token_classification` returns them.
        day_first: 03/04/2010 is the 3rd of April, as in Britain (Charity), rather than March 4th (NDA).
    """
    sums: dict[str, dict[str, float]] = {}
    for entity in entities:
        value = _kleister_value(entity.label, entity.text, day_first)
        if value:
            scores = sums.setdefault(entity.label, {})
            scores[value] = scores.get(value, 0.0) + entity.score
    return {key: _parties(scores) if key in _SEVERAL else [_best(scores)] for key, scores in sums.items()}


def sroie_values(entities: Iterable[Any]) -> dict[str, str]:
    """
    The fields of one receipt: of each the text of the entity that scores highest, as the receipt writes it.

    SROIE compares exact strings, and its totals keep the "RM" or "$" that stands with them ("RM 3.90", "RM4.00",
    "$8.20"). So of an entity "TOTAL:RM9.00" the total is "RM9.00", of "9.00" it is "9.00"; what stands around a date
    or an amount is left out, and nothing else is changed.
    """
    sums: dict[str, dict[str, float]] = {}
    for entity in entities:
        text = _sroie_value(entity.label, entity.text)
        scores = sums.setdefault(entity.label, {})
        if text:
            scores[text] = max(scores.get(text, 0.0), entity.score)
    return {key: _best(scores) for key, scores in sums.items() if scores}


def value_corpus(builder_name: str | None, labels: Sequence[str]) -> str | None:
    """Which score of values a dataset has, by its builder's name and its labels; None for none."""
    if builder_name == "kleister":
        return "kleister_charity" if "B-charity_number" in labels else "kleister_nda"
    return "sroie" if builder_name == "sroie" else None


def value_f1(
    corpus: str,
    entities: Sequence[Iterable[Any]],
    references: Sequence[Iterable[Mapping[str, Any]]],
    bootstrap_samples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """
    The corpus' own score of values.

    Args:
        corpus: "kleister_nda", "kleister_charity" or "sroie".
        entities: the predicted ones of each document.
        references: the column `entities` of the dataset, whose `text` is the official value of the `type`, whether
            its words were found or not.
        bootstrap_samples: see `kleister_f1`.
        seed: see `kleister_f1`.

    Returns:
        As `kleister_f1` or `sroie_f1`.
    """
    true = [[(given["type"], given["text"]) for given in document] for document in references]
    options: dict[str, Any] = {"bootstrap_samples": bootstrap_samples, "seed": seed}
    if corpus == "sroie":
        return sroie_f1([sroie_values(document) for document in entities], [dict(pairs) for pairs in true], **options)
    found = [kleister_values(document, day_first=corpus == "kleister_charity") for document in entities]
    expected: list[dict[str, list[str]]] = []
    for pairs in true:
        expected.append({})
        for key, value in dict.fromkeys(pairs):
            expected[-1].setdefault(key, []).append(value)
    return kleister_f1(found, expected, **options)


def _best(scores: dict[str, float]) -> str:
    return max(scores, key=scores.__getitem__)


def _kleister_value(key: str, text: str, day_first: bool) -> str | None:
    if key.endswith("_date"):
        return _read(dates, text, lambda mention, folded: _meant(mention, folded, day_first))
    if key == "term":
        return _read(durations, text, lambda mention, _: mention.values[0])
    if key.endswith("_pounds"):
        return _read(amounts, text, lambda mention, _: mention.values[0])
    words = [_FORMS.get(word.lower().rstrip(","), word) for word in text.replace("&", " and ").split()]
    name = " ".join(word.strip(_ENDS.replace(".", "")) for word in words)
    if not (words and words[-1] in _FORMS.values()) and not _DOTTED.search(name):
        name = name.rstrip(_ENDS)
    return "_".join(name.split()) or None


def _read(reader: Callable[[str], Iterable[Mention]], text: str, meaning: Callable[[Mention, str], str]) -> str | None:
    folded = fold(text)
    mention = next(iter(reader(folded)), None)
    return None if mention is None else meaning(mention, folded)


def _meant(mention: Mention, folded: str, day_first: bool) -> str:
    """Of the two dates that 03/04/2010 can be, the country's."""
    first = re.search(r"\d+", folded[mention.start : mention.end])
    part = -1 if day_first else 1
    if len(mention.values) > 1 and first is not None:
        return next(
            (value for value in mention.values if int(value.split("-")[part]) == int(first[0])), mention.values[0]
        )
    return mention.values[0]


def _parties(scores: dict[str, float]) -> list[str]:
    """Each party once: of its spellings the one with the highest sum."""
    spellings: dict[str, dict[str, float]] = {}
    for value, score in scores.items():
        spellings.setdefault(name_core(value), {})[value] = score
    return [_best(same) for same in spellings.values()]


def _sroie_value(key: str, text: str) -> str:
    found: re.Match[str] | None
    if key == "date":
        found = _DATE.search(text) or _EIGHT_DIGITS.search(text)
    elif key == "total":
        found = _TOTAL.search(text)
    else:
        return text.strip()
    return found[0] if found else ""
