"""Precision, recall and F1 from counts per document, with intervals over documents."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from broadsheet.metrics.resampling import described, occurs, resampled_sums, type_intervals

_NAMES = ("precision", "recall", "f1")


def f1_report(
    counts: np.ndarray, types: Sequence[str], bootstrap_samples: int, confidence: float, seed: int
) -> dict[str, Any]:
    """
    All ratios of a set of documents.

    Args:
        counts: int `[documents, types, 3]`: how many are right, predicted, true.
        types: their names.
        bootstrap_samples: resamples of the documents for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        `precision`, `recall`, `f1` and `support` (micro average); `macro` with the means over types; `types` with
        each type's precision, recall, f1, support and number predicted; `documents`; and `interval` with [low, high]
        of precision, recall, f1, macro_f1 and of each type's f1, or None with fewer than two documents. All ratios
        are in 0..1; one without denominator is 0. A resample may lack a rare type: it is then left out of that
        resample's mean and of the type's own interval (None where no resample has the type).
    """
    totals = counts.sum(axis=0)
    per_type, micro = _ratios(totals), _ratios(totals.sum(axis=0))
    macro = per_type.mean(axis=0) if types else np.zeros(3)
    return {
        **_named(micro),
        "support": int(totals[:, 2].sum()),
        "macro": _named(macro),
        "types": {
            name: {**_named(per_type[index]), "support": int(totals[index, 2]), "predicted": int(totals[index, 1])}
            for index, name in enumerate(types)
        },
        "documents": len(counts),
        "interval": _intervals(counts, types, bootstrap_samples, confidence, seed),
    }


def _ratios(counts: np.ndarray) -> np.ndarray:
    """(right, predicted, true) in the last axis to (precision, recall, f1)."""
    right, predicted, true = counts[..., 0], counts[..., 1], counts[..., 2]
    pairs = ((right, predicted), (right, true), (2 * right, predicted + true))
    return np.stack([part / np.maximum(whole, 1) for part, whole in pairs], axis=-1)


def _named(ratios: np.ndarray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(_NAMES, ratios, strict=True)}


def _intervals(
    counts: np.ndarray, types: Sequence[str], samples: int, confidence: float, seed: int
) -> dict[str, Any] | None:
    drawn = resampled_sums(counts, samples, confidence, seed)
    if drawn is None:
        return None
    per_type, micro = _ratios(drawn), _ratios(drawn.sum(axis=1))
    intervals = {name: micro[:, index] for index, name in enumerate(_NAMES)}
    # A type that no document has counts 0, as in the mean that the interval is of.
    kept = occurs(drawn) | ~occurs(counts.sum(axis=0))
    intervals["macro_f1"] = (per_type[..., 2] * kept).sum(axis=1) / np.maximum(kept.sum(axis=1), 1)
    return {
        **described(intervals, samples, confidence, seed),
        "types": type_intervals(per_type[..., 2], drawn, enumerate(types), confidence),
    }
