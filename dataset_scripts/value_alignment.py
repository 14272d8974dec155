"""
Find the words of a document that state a given value, for corpora that give values but not where they stand.

Kleister says that the effective date is 2010-03-15; the document says "this 15th day of March, 2010". A value is
sought in steps, and the first step that finds it gives all its places:

1. as it is, whatever the case, accents, punctuation and spaces ("Nike_Inc." is "NIKE, Inc.", "&" is "and"); dates,
   durations and amounts by what they mean;
2. names with their legal forms in any spelling ("Incorporated", "Limited Partnership"); a duration in other units;
3. on request, the most similar run of words, if it is similar enough (misread or misspelt letters);
4. names without legal form, then without initials, "Jr." and the like on either side.
"""

import bisect
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, NamedTuple

from broadsheet.dataset_scripts.value_mentions import (
    Mention,
    amount,
    amounts,
    dates,
    durations,
    fold,
    same_durations,
)
from broadsheet.tokenization.input_checks import InputError

OCCURRENCES = ("all", "first")
STEPS = ("exact", "spelling", "similar", "partial")

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DURATION_VALUE = re.compile(r"\d+(?:\.\d+)?_(?:day|week|month|year)s?")
_AMOUNT_VALUE = re.compile(r"\d[\d,]*\.\d\d")
_TOKEN = re.compile(r"[^\W\d_]+|\d+|&")
_LEGAL = {
    ("limited", "liability", "company"): "llc",
    ("limited", "liability", "partnership"): "llp",
    ("limited", "partnership"): "lp",
    ("incorporated",): "inc",
    ("corporation",): "corp",
    ("company",): "co",
    ("limited",): "ltd",
    ("association",): "assn",
    ("sendirian",): "sdn",
    ("berhad",): "bhd",
}
_LEGAL_FORMS = {*_LEGAL.values(), "plc", "sa", "ag", "nv", "bv", "gmbh", "na", "lllp", "pc", "spa", "srl"}
_NAME_ENDS = {"jr", "sr", "ii", "iii", "iv", "phd", "md", "esq", "dr", "mr", "mrs", "ms"}
_SHORTEST = 4
"""Letters and digits that an abridged name must keep, lest "S. A." be found everywhere."""


class Place(NamedTuple):
    """Words `first` to `last`, inclusive, state the value; `step` (of `STEPS`) found them."""

    first: int
    last: int
    step: str


class _Stream:
    """Tokens squeezed into one string: a hit counts where it begins and ends with a token."""

    def __init__(self, tokens: Sequence[tuple[str, int, int]]):
        self.tokens = tokens
        offset = 0
        self.starts: list[int] = []
        for text, _, _ in tokens:
            self.starts.append(offset)
            offset += len(text)
        self.text = _joined(tokens)
        self._token_at = {start: index for index, start in enumerate(self.starts)}

    def find(self, sought: str) -> list[tuple[int, int]]:
        """(first word, last word) of each place, which do not overlap."""
        places: list[tuple[int, int]] = []
        position = self.text.find(sought) if sought else -1
        while position >= 0:
            end = position + len(sought)
            first = self._token_at.get(position)
            last = len(self.tokens) if end == len(self.text) else self._token_at.get(end)
            if first is not None and last is not None:
                places.append((self.tokens[first][1], self.tokens[last - 1][2]))
                position = self.text.find(sought, end)
            else:
                position = self.text.find(sought, position + 1)
        return places


class WordIndex:
    """The words of one document, prepared for seeking many values."""

    def __init__(self, words: Sequence[str]):
        self._words = [fold(word) for word in words]
        self._offsets: list[int] = []
        offset = 0
        for word in self._words:
            self._offsets.append(offset)
            offset += len(word) + 1
        self._text = " ".join(self._words)

    def find(self, value: str, min_similarity: float = 1.0) -> list[Place]:
        """
        The places of a value, in reading order, all found by the same step; none where no step finds it.

        Args:
            value: as the benchmark gives it; underscores are spaces. Its form tells what it is: "2010-03-15" a date,
                "3_years" a duration, "1234.50" an amount, anything else a name.
            min_similarity: of step 3, the share of letters in common (twice the matching ones over the sum of both
                lengths); 1 leaves the step out.
        """
        value = value.strip()
        if _ISO_DATE.fullmatch(value):
            return self._mentioned(self._dates, {value}, "exact")
        if _DURATION_VALUE.fullmatch(value):
            return self._mentioned(self._durations, {value}, "exact") or self._mentioned(
                self._durations, same_durations(value), "spelling"
            )
        if _AMOUNT_VALUE.fullmatch(value):
            return self._mentioned(self._amounts, {str(amount(value))}, "exact") or self._literal(value)
        return self._find_name(value, min_similarity)

    def _find_name(self, value: str, min_similarity: float) -> list[Place]:
        tokens = _tokens([fold(value.replace("_", " "))])
        spelled = _canonical(tokens)
        places = self._exact.find(_joined(tokens))
        if places:
            return [Place(first, last, "exact") for first, last in places]
        places = self._spelled.find(_joined(spelled))
        if places:
            return [Place(first, last, "spelling") for first, last in places]
        similar = self._similar(_joined(spelled), min_similarity)
        if similar:
            return similar
        bare = _without_form(spelled)
        if len(_joined(bare)) >= _SHORTEST:
            places = self._spelled.find(_joined(bare))
        core = _core(bare)
        if not places and len(core) > 1 and len(_joined(core)) >= _SHORTEST:
            places = self._cores.find(_joined(core))
        return [Place(first, last, "partial") for first, last in places]

    def _similar(self, sought: str, min_similarity: float) -> list[Place]:
        """The run of words most like the value, if it is like enough."""
        # Of mere digits, one that differs makes another number or date.
        if min_similarity >= 1 or len(sought) < _SHORTEST or sought.isdigit():
            return []
        stream = self._spelled
        slack = max(1, round(len(sought) * (1 - min_similarity)))
        matcher = SequenceMatcher(None, "", sought, autojunk=False)
        best, place = min_similarity, None
        ends = [*stream.starts[1:], len(stream.text)]
        for first, start in enumerate(stream.starts):
            low = bisect.bisect_left(ends, start + len(sought) - slack)
            for last in range(low, bisect.bisect_right(ends, start + len(sought) + slack)):
                matcher.set_seq1(stream.text[start : ends[last]])
                if matcher.real_quick_ratio() < best or matcher.quick_ratio() < best:
                    continue
                ratio = matcher.ratio()
                if ratio > best or (ratio == best and place is None):
                    best, place = ratio, (first, last)
        if place is None:
            return []
        return [Place(stream.tokens[place[0]][1], stream.tokens[place[1]][2], "similar")]

    def _mentioned(self, mentions: Sequence[Mention], wanted: set[str], step: str) -> list[Place]:
        places = []
        for mention in mentions:
            if wanted.intersection(mention.values):
                first = bisect.bisect_right(self._offsets, mention.start) - 1
                last = bisect.bisect_right(self._offsets, mention.end - 1) - 1
                places.append(Place(first, last, step))
        return _apart(places)

    def _literal(self, value: str) -> list[Place]:
        """An amount as it is written, where it is no part of another number: "RM.9.00"."""
        pattern = rf"(?<!\d)(?<!\d[.,]){re.escape(value)}(?!\d|[.,]\d)"
        found = [Mention(place.start(), place.end(), (value,)) for place in re.finditer(pattern, self._text)]
        return self._mentioned(found, {value}, "exact")

    @cached_property
    def _dates(self) -> list[Mention]:
        return list(dates(self._text))

    @cached_property
    def _durations(self) -> list[Mention]:
        return list(durations(self._text))

    @cached_property
    def _amounts(self) -> list[Mention]:
        return list(amounts(self._text))

    @cached_property
    def _exact(self) -> _Stream:
        return _Stream(_tokens(self._words))

    @cached_property
    def _spelled(self) -> _Stream:
        return _Stream(_canonical(self._exact.tokens))

    @cached_property
    def _cores(self) -> _Stream:
        return _Stream(_core(self._spelled.tokens))


def align_values(
    words: Sequence[str],
    values: Iterable[tuple[str, str]],
    occurrences: str = "all",
    min_similarity: float = 1.0,
    preferred: Callable[[str, Place], bool] | None = None,
) -> tuple[list[str], list[dict[str, Any]]]:
    """
    Word labels and entities that state the values.

    A word belongs to one entity: longer places go first, of two equally long ones the value that stands first. A value
    that was not found, or whose words all went to others, is an entity without words, so that `entities` has every
    value at least once.

    Args:
        words: of one document.
        values: pairs (key, value); a pair that comes twice counts once.
        occurrences: "all" places of a value are entities, or the "first" alone. For training take all: an unlabelled
            repetition teaches that the same words are no entity.
        min_similarity: see `WordIndex.find`.
        preferred: given a key and a place, says whether the place is a likely one; where a value has likely places,
            its others do not count.

    Returns:
        IOB2 labels, one per word, with the keys as types; entities (`type`, `word_ids`, `text` the value as given),
        by value and then in reading order.
    """
    check_options(occurrences, min_similarity)
    index = WordIndex(words)
    pairs = list(dict.fromkeys(values))
    found = [index.find(value, min_similarity) for _, value in pairs]
    if preferred is not None:
        found = [
            [place for place in places if preferred(key, place)] or places
            for (key, _), places in zip(pairs, found, strict=True)
        ]
    order = sorted(
        (
            (place.first - place.last, number, place.first, place)
            for number, places in enumerate(found)
            for place in places
        )
    )
    taken: set[int] = set()
    kept: list[list[Place]] = [[] for _ in pairs]
    for _, number, _, place in order:
        span = range(place.first, place.last + 1)
        if taken.isdisjoint(span):
            taken.update(span)
            kept[number].append(place)
    labels = ["O"] * len(words)
    entities = []
    for (key, value), places in zip(pairs, kept, strict=True):
        for place in sorted(places)[: 1 if occurrences == "first" else None]:
            word_ids = list(range(place.first, place.last + 1))
            for word in word_ids:
                labels[word] = f"{'B' if word == place.first else 'I'}-{key}"
            entities.append({"type": key, "word_ids": word_ids, "text": value})
        if not places:
            entities.append({"type": key, "word_ids": [], "text": value})
    return labels, entities


def name_core(name: str) -> str:
    """What two spellings of a name have in common: letters and digits without legal form, "The" and initials."""
    tokens = _canonical(_tokens([fold(word) for word in name.replace("_", " ").split()]))
    bare = _without_form(tokens)
    return _joined(_core(bare)) or _joined(bare) or _joined(tokens)


def check_options(occurrences: str, min_similarity: float) -> None:
    """Raise `InputError` for options of `align_values` that it does not have."""
    if occurrences not in OCCURRENCES:
        raise InputError(f"occurrences={occurrences!r} is unknown; choose one of {', '.join(OCCURRENCES)}.")
    if not 0 < min_similarity <= 1:
        raise InputError(f"min_similarity is {min_similarity!r}; it is above 0 and at most 1 (no similar words).")


class AlignmentReport(NamedTuple):
    """How many values were found: `found` and `total` by key, and `misses` as (document, key, value)."""

    found: dict[str, int]
    total: dict[str, int]
    misses: list[tuple[str, str, str]]

    def share(self, key: str | None = None) -> float:
        """Found over total, of one key or of all; 1 where there is nothing to find."""
        keys = list(self.total) if key is None else [key]
        total = sum(self.total.get(name, 0) for name in keys)
        return sum(self.found.get(name, 0) for name in keys) / total if total else 1.0

    def __str__(self) -> str:
        shares = [f"{key} {self.found[key]}/{self.total[key]}" for key in self.total]
        return (
            f"{sum(self.found.values())} of {sum(self.total.values())} values found ({100 * self.share():.1f} %): "
            f"{', '.join(shares)}"
        )


def alignment_report(rows: Iterable[dict[str, Any]]) -> AlignmentReport:
    """
    How many of the official values were found in the words of each document.

    Args:
        rows: a dataset of aligned values (`kleister_nda`, `kleister_charity`, `sroie`), or rows of it; those without
            values (a hidden test) are passed over. Of a Dataset only the columns needed are read.
    """
    if hasattr(rows, "select_columns"):
        rows = rows.select_columns(["id", "entities"])
    found: dict[str, int] = {}
    total: dict[str, int] = {}
    misses = []
    for row in rows:
        values: dict[tuple[str, str], bool] = {}
        for entity in row["entities"] or ():
            pair = entity["type"], entity["text"]
            values[pair] = values.get(pair, False) or bool(entity["word_ids"])
        for (key, value), is_found in values.items():
            total[key] = total.get(key, 0) + 1
            found[key] = found.get(key, 0) + is_found
            if not is_found:
                misses.append((row["id"], key, value))
    return AlignmentReport(dict(sorted(found.items())), dict(sorted(total.items())), misses)


def _tokens(words: Iterable[str]) -> list[tuple[str, int, int]]:
    return [
        ("and" if token == "&" else token, index, index)
        for index, word in enumerate(words)
        for token in _TOKEN.findall(word)
    ]


def _canonical(tokens: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Legal forms written out become their abbreviations."""
    result = []
    position = 0
    while position < len(tokens):
        for length in (3, 2, 1):
            words = tuple(text for text, _, _ in tokens[position : position + length])
            form = _LEGAL.get(words)
            if form and len(words) == length:
                result.append((form, tokens[position][1], tokens[position + length - 1][2]))
                position += length
                break
        else:
            result.append(tokens[position])
            position += 1
    return result


def _without_form(tokens: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """A name without legal forms at its end and "The" at its start."""
    kept = list(tokens)
    while kept:
        for length in (4, 3, 2, 1):
            ending = [text for text, _, _ in kept[-length:]]
            if "".join(ending) in _LEGAL_FORMS and (length == 1 or all(len(text) == 1 for text in ending)):
                del kept[-length:]
                break
        else:
            break
    return kept[1:] if kept and kept[0][0] == "the" else kept


def _core(tokens: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """A name without initials and titles."""
    return [token for token in tokens if (len(token[0]) > 1 or token[0].isdigit()) and token[0] not in _NAME_ENDS]


def _joined(tokens: Sequence[tuple[str, int, int]]) -> str:
    return "".join(text for text, _, _ in tokens)


def _apart(places: Iterable[Place]) -> list[Place]:
    """Without those that overlap a longer one, in reading order."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda place: (place.first - place.last, place.first)):
        if all(place.last < other.first or place.first > other.last for other in kept):
            kept.append(place)
    return sorted(kept)
