"""F1 over extracted values, not over where they stand: Kleister's (GEval's MultiLabel-F1) and SROIE's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from broadsheet.metrics.f1_report import f1_report
from broadsheet.tokenization.input_checks import InputError

SROIE_FIELDS = ("company", "date", "address", "total")

Values = Mapping[str, str | Sequence[str] | None] | Sequence[str] | str
"""The values of a document: by key, one text or several; or texts "key=value"; or such texts joined by spaces."""


def kleister_f1(
    predictions: Sequence[Values],
    references: Sequence[Values],
    case: str = "upper",
    keys: Sequence[str] | None = None,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Micro F1 over the (key, value) pairs of all documents, as Kleister's scorer, GEval's `MultiLabel-F1:u`, counts.

    A predicted pair is right when the document has it; a pair that is given twice needs to be there twice. Values are
    compared as Kleister's files write them: without white space at the ends, each run of white space and each colon
    inside as one underscore. Dates, numbers and names are otherwise taken as they are: bring them to Kleister's form
    (2001-04-18, 7_years) first.

    Args:
        predictions: the values found in each document (see `Values`).
        references: the true values, for example the lines of `expected.tsv`.
        case: "upper" compares values and keys in upper case, Kleister's main score; "exact" as they are.
        keys: the keys to score, others are left out on both sides; all that occur when omitted.
        bootstrap_samples: resamples of the documents for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        As `f1_report`, by key as the references write it. (A ratio without denominator is 0, where GEval prints 1: it
        differs only for a key that no document has and nobody predicted, or a corpus without any value.)

    Raises:
        InputError: no documents, lists of different lengths, an unknown `case`, a value without key.
    """
    if case not in ("upper", "exact"):
        raise InputError(f"There is no case {case!r}; choose one of upper, exact.")
    _check(predictions, references)
    true = _normalized(references, "references")
    found = _normalized(predictions, "predictions")
    if keys is None:
        keys = [key for documents in (true, found) for key in sorted({key for pairs in documents for key, _ in pairs})]
    names: dict[str, str] = {}
    for key in keys:
        names.setdefault(_cased(key, case), key)
    compared_found, compared_true = (
        [Counter((_cased(key, case), _cased(value, case)) for key, value in pairs) for pairs in documents]
        for documents in (found, true)
    )
    counts = _counts(compared_found, compared_true, list(names))
    return f1_report(counts, list(names.values()), bootstrap_samples, confidence, seed)


def sroie_f1(
    predictions: Sequence[Mapping[str, str | None]],
    references: Sequence[Mapping[str, str | None]],
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Precision, recall and F1 of SROIE's task 3: a field is right when its text equals the true text exactly.

    All fields of all receipts count together. Case, punctuation and inner spaces count; spaces at the ends do not. An
    empty text, None or a missing field is no answer: it is not counted as predicted, nor as true. (Leaderboard
    entries "excluding OCR mismatch" or "fixing total" score corrected references: correct yours alike to compare.)

    Args:
        predictions: `company`, `date`, `address`, `total` of each receipt.
        references: the true ones, as in SROIE's JSON files.
        bootstrap_samples: resamples of the receipts for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        As `f1_report`, by field.

    Raises:
        InputError: no receipts, lists of different lengths, an unknown field, a text that is none.
    """
    _check(predictions, references)
    found, true = _fields(predictions, "predictions"), _fields(references, "references")
    return f1_report(_counts(found, true, SROIE_FIELDS), SROIE_FIELDS, bootstrap_samples, confidence, seed)


def parse_values(line: str) -> dict[str, list[str]]:
    """
    A line of Kleister's `expected.tsv` or `out.tsv`, such as "party=Nike_Inc. term=7_years", by key.

    Raises:
        InputError: a pair without "=".
    """
    values: dict[str, list[str]] = {}
    for key, value in map(_split, line.split()):
        values.setdefault(key, []).append(value)
    return values


class _ValueMetric(evaluate.Metric):
    """Documents as lists of (key, value) pairs, because tables have no dictionaries with open keys."""

    def __init__(self, keep_in_memory: bool = True, **options: Any):
        super().__init__(keep_in_memory=keep_in_memory, **options)

    def _info(self) -> evaluate.MetricInfo:
        pairs = datasets.List({"key": datasets.Value("string"), "value": datasets.Value("string")})
        return evaluate.MetricInfo(
            description=(type(self).__doc__ or "").strip().split("\n")[0],
            citation="",
            inputs_description="",
            features=datasets.Features({"predictions": pairs, "references": pairs}),
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **options: Any) -> None:
        """The values of some documents."""
        _check(predictions, references)
        super().add_batch(
            predictions=[_as_rows(document, "predictions") for document in predictions],
            references=[_as_rows(document, "references") for document in references],
            **options,
        )

    def add(self, *, prediction: Any = None, reference: Any = None, **options: Any) -> None:
        """The values of one document."""
        self.add_batch(predictions=[prediction], references=[reference], **options)


class KleisterF1(_ValueMetric):
    """`kleister_f1` as an `evaluate.Metric`: `compute(predictions=..., references=...)`, or `add_batch` first."""

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return kleister_f1(_by_key(predictions), _by_key(references), **options)


class SroieF1(_ValueMetric):
    """`sroie_f1` as an `evaluate.Metric`: `compute(predictions=..., references=...)`, or `add_batch` first."""

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return sroie_f1(_single(predictions), _single(references), **options)


def _pairs(document: Values, where: str) -> list[tuple[str, str]]:
    """(key, value) as given; empty texts and None are no values."""
    found: list[tuple[str, str]] = []
    if isinstance(document, Mapping):
        for key, values in document.items():
            several = values if isinstance(values, list | tuple) else [values]
            found += [(key, _value(value, f"{key!r} in {where}")) for value in several if value is not None]
    else:
        texts = document.split() if isinstance(document, str) else document
        found = [_split(_value(text, where)) for text in texts]
    return [(key, value) for key, value in found if value.strip()]


def _split(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals or not key.strip():
        raise InputError(f"The value {pair!r} has no key; write key=value.")
    return key, value


def _value(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"The value {value!r} of {where} is no text; pass str(value).")
    return value


def _normalized(documents: Sequence[Values], name: str) -> list[list[tuple[str, str]]]:
    """The pairs of each document, with values as Kleister's files write them."""
    return [
        [
            (key.strip(), "_".join(value.split()).replace(":", "_"))
            for key, value in _pairs(document, f"document {number} of {name}")
        ]
        for number, document in enumerate(documents)
    ]


def _cased(text: str, case: str) -> str:
    return text.upper() if case == "upper" else text


def _fields(documents: Sequence[Mapping[str, str | None]], name: str) -> list[Counter]:
    counted = []
    for number, document in enumerate(documents):
        where = f"receipt {number} of {name}"
        if not isinstance(document, Mapping):
            raise InputError(
                f"The values of {where} are {document!r}; pass a dictionary of {', '.join(SROIE_FIELDS)}."
            )
        unknown = set(document) - set(SROIE_FIELDS)
        if unknown:
            raise InputError(
                f"The field {min(unknown)!r} of {where} is unknown; SROIE's fields are {', '.join(SROIE_FIELDS)}."
            )
        texts = {field: _value(text, f"{field!r} in {where}") for field, text in document.items() if text is not None}
        counted.append(Counter((field, text.strip()) for field, text in texts.items() if text.strip()))
    return counted


def _counts(found: Sequence[Counter], true: Sequence[Counter], types: Sequence[str]) -> np.ndarray:
    """`[documents, types, (right, predicted, true)]`."""
    position = {name: index for index, name in enumerate(types)}
    counts = np.zeros((len(true), len(types), 3), dtype=np.int64)
    for document, (predicted, wanted) in enumerate(zip(found, true, strict=True)):
        for column, pairs in enumerate((predicted & wanted, predicted, wanted)):
            for (key, _), times in pairs.items():
                if key in position:
                    counts[document, position[key], column] += times
    return counts


def _check(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    if predictions is None or references is None:
        raise InputError("Pass both predictions and references, the values of each document.")
    if len(references) == 0:
        raise InputError("There are no documents to score; pass the values of at least one.")
    if len(predictions) != len(references):
        raise InputError(f"There are predictions for {len(predictions)} documents but values of {len(references)}.")


def _as_rows(document: Values, name: str) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in _pairs(document, f"a document of {name}")]


def _by_key(documents: Sequence[Sequence[Mapping[str, str]]]) -> list[dict[str, list[str]]]:
    result = []
    for rows in documents:
        values: dict[str, list[str]] = {}
        for row in rows:
            values.setdefault(row["key"], []).append(row["value"])
        result.append(values)
    return result


def _single(documents: Sequence[Sequence[Mapping[str, str]]]) -> list[dict[str, str]]:
    return [{row["key"]: row["value"] for row in rows} for rows in documents]
