"""Mean and interval over seeds."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from scipy.stats import t as student


def summarise_seeds(values: Sequence[float]) -> dict[str, Any]:
    """
    Mean, with the 95 % interval of the mean by Student's t, None where there is one seed alone.

    Returns:
        `mean`, `interval` [low, high] or None, `values`.
    """
    mean = statistics.fmean(values)
    interval = None
    if len(values) > 1:
        half = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        interval = [mean - half, mean + half]
    return {"mean": mean, "interval": interval, "values": list(values)}


def summarise_curves(curves: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Curves [[x, y], ...] of several seeds -> [[x, mean, lowest, highest], ...] where all have a point."""
    points: dict[float, list[float]] = {}
    for curve in curves:
        for x, y in curve:
            points.setdefault(x, []).append(y)
    return [
        [x, statistics.fmean(values), min(values), max(values)]
        for x, values in sorted(points.items())
        if len(values) == len(curves)
    ]
