"""Accuracy and F1 of document classes, with intervals over documents."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from broadsheet.metrics.f1_report import f1_report
from broadsheet.tokenization.input_checks import InputError


def classification_f1(
    predictions: Sequence[str],
    references: Sequence[str],
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Accuracy and the F1 of each class, one predicted and one true class per document.

    Returns:
        `accuracy` (which equals the micro-averaged f1, so that `interval["f1"]` is its interval too), and as
        `f1_report`, by class.

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
    return {"accuracy": report["f1"], **report}
