"""Accuracy and F1 of document classes, with intervals over documents."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from broadsheet.metrics.f1_report import f1_report
from broadsheet.tokenization.input_checks import InputError

# Words from which on documents are counted once more, by themselves (Position-aware attention, Figure 3).
LENGTHS = (512, 1024, 2048, 4096)


def classification_f1(
    predictions: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int] | None = None,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Accuracy and the F1 of each class, one predicted and one true class per document.

    Args:
        predictions: class of each document.
        references: the true one.
        lengths: words of each document; None for no numbers by length.
        bootstrap_samples: resamples of the documents for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        `accuracy` (which equals the micro-averaged f1, so that `interval["f1"]` is its interval too); as `f1_report`,
        by class; and `by_length`: least number of words, as text -> `documents` of at least so many, `accuracy`, where
        there are such documents and not all are.

    Raises:
        InputError: no documents, or as many predictions as references there are not.
    """
    if len(references) == 0:
        raise InputError("There are no documents to score; pass the class of at least one.")
    if len(predictions) != len(references):
        raise InputError(f"There are predictions for {len(predictions)} documents but classes of {len(references)}.")
    types = sorted({*predictions, *references})
    counts = np.zeros((len(references), len(types), 3), dtype=np.int64)
    for document, (predicted, true) in enumerate(zip(predictions, references, strict=True)):
        counts[document, types.index(predicted), 1] = 1
        counts[document, types.index(true), 2] = 1
        counts[document, types.index(true), 0] = int(predicted == true)
    report = f1_report(counts, types, bootstrap_samples, confidence, seed)
    right = counts[..., 0].sum(axis=1)
    return {"accuracy": report["f1"], "by_length": {} if lengths is None else _by_length(right, lengths), **report}


def _by_length(right: np.ndarray, lengths: Sequence[int]) -> dict[str, dict[str, float]]:
    words = np.asarray(lengths)
    long = {least: right[words >= least] for least in LENGTHS if 0 < (words >= least).sum() < len(words)}
    return {str(least): {"documents": len(part), "accuracy": float(part.mean())} for least, part in long.items()}
