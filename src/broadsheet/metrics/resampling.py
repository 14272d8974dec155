"""Sums over resampled documents, from which metrics that are ratios or means get their intervals."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from broadsheet.metrics.bootstrap import bootstrap_weights, interval
from broadsheet.tokenization.input_checks import InputError


def resampled_sums(per_document: np.ndarray, samples: int, confidence: float, seed: int) -> np.ndarray | None:
    """
    The sum over each resample of the documents.

    Args:
        per_document: `[documents, ...]`, what each document adds.
        samples: resamples; 0 for none.
        confidence: only checked, so that a wrong one is told also where there is nothing to resample.
        seed: of the resampling.

    Returns:
        float64 `[samples, ...]`, or None where `samples` is 0 or there are fewer than two documents.

    Raises:
        InputError: a confidence outside 0..1.
    """
    if not 0 < confidence < 1:
        raise InputError(f"The confidence {confidence} is not between 0 and 1; 0.95 is usual.")
    documents = len(per_document)
    if samples < 1 or documents < 2:
        return None
    weights = bootstrap_weights(documents, samples, seed)
    flat = per_document.reshape(documents, -1).astype(np.float64)
    # By blocks: a whole float copy of the weights would double their memory (800 bytes a document and 100 resamples).
    sums = [weights[start : start + 64].astype(np.float64) @ flat for start in range(0, samples, 64)]
    return np.concatenate(sums).reshape(samples, *per_document.shape[1:])


def described(intervals: dict[str, np.ndarray], samples: int, confidence: float, seed: int) -> dict[str, Any]:
    """The [low, high] of each name's resampled values `[samples]`, with how they were made."""
    return {
        "confidence": confidence,
        "samples": samples,
        "seed": seed,
        **{name: interval(values, confidence) for name, values in intervals.items()},
    }


def occurs(sums: np.ndarray) -> np.ndarray:
    """Whether a type was predicted or is true: `[..., types]` from (right, predicted, true) `[..., types, 3]`."""
    return sums[..., 1:].sum(axis=-1) > 0


def type_intervals(
    f1: np.ndarray, drawn: np.ndarray, types: Iterable[tuple[int, str]], confidence: float
) -> dict[str, list[float] | None]:
    """
    The interval of each type's F1, over the resamples that hold the type; None where none does.

    Args:
        f1: `[samples, types]`.
        drawn: `[samples, types, (right, predicted, true)]`.
        types: positions and names of those wanted.
        confidence: the intervals' coverage.
    """
    held = occurs(drawn)
    return {
        name: interval(f1[held[:, index], index], confidence) if held[:, index].any() else None
        for index, name in types
    }


def group_sums(per_item: np.ndarray, documents: Sequence[Any] | None) -> np.ndarray:
    """
    What each document adds, from what each of its items (questions, windows) adds.

    Args:
        per_item: `[items, ...]`.
        documents: the document of each item, any hashable; None where each item is a document of its own.

    Returns:
        `[documents, ...]`, in the order in which the documents first occur.

    Raises:
        InputError: as many documents as items there are not.
    """
    if documents is None:
        return per_item
    if len(documents) != len(per_item):
        raise InputError(
            f"There are {len(per_item)} items to score but {len(documents)} documents; give one per item."
        )
    rows = {name: row for row, name in enumerate(dict.fromkeys(documents))}
    sums = np.zeros((len(rows), *per_item.shape[1:]), dtype=per_item.dtype)
    np.add.at(sums, [rows[name] for name in documents], per_item)
    return sums
