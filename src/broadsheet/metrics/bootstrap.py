"""Confidence intervals by resampling documents."""

import numpy as np


def bootstrap_weights(documents: int, samples: int, seed: int) -> np.ndarray:
    """
    How often each document is drawn in each resample of the same size.

    A metric made of per-document counts `[documents, K]` is computed on all resamples at once from
    `weights @ counts`.

    Returns:
        int64 `[samples, documents]`; each row sums to `documents`.
    """
    generator = np.random.default_rng(seed)
    return generator.multinomial(documents, np.full(documents, 1 / documents), size=samples)


def interval(values: np.ndarray, confidence: float) -> list[float]:
    """The percentile interval [low, high] of resampled `values [samples]`."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return [float(low), float(high)]
