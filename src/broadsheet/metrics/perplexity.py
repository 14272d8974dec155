"""Perplexity of a language model."""

import math
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from broadsheet.metrics.resampling import described, group_sums, resampled_sums
from broadsheet.tokenization.input_checks import InputError


def perplexity(loss: float) -> float:
    """Exp of the mean cross-entropy per predicted token, in nats; infinite where that overflows."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def merged_loss(losses: Sequence[float], tokens: Sequence[int]) -> float:
    """
    The mean cross-entropy per token of batches (or documents, or windows) that have different numbers of tokens.

    The mean of the batches' means is another number, which changes with the batch size.

    Args:
        losses: the mean loss of each batch, in nats per predicted token. That of a batch without predicted tokens is
            not looked at (PyTorch's is NaN).
        tokens: how many tokens each loss is the mean over (of a masked LM: the labels other than -100).

    Raises:
        InputError: lists of different lengths, no tokens at all, a negative count, a loss that is not finite.
    """
    pairs = _checked(losses, tokens)
    return math.fsum(loss * count for loss, count in pairs) / sum(count for _, count in pairs)


def corpus_perplexity(
    losses: Sequence[float],
    tokens: Sequence[int],
    documents: Sequence[Any] | None = None,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Perplexity from the losses of parts of a corpus, with an interval over documents.

    Args:
        losses: as in `merged_loss`.
        tokens: as in `merged_loss`.
        documents: the document of each part; each part counts as a document of its own when omitted (batches then
            give a wider interval than the documents in them would).
        bootstrap_samples: resamples of the documents for the interval; 0 for none.
        confidence: the interval's coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        `perplexity`; `loss`, in nats per token; `tokens`; `documents`; `interval` with [low, high] of both, or None
        with fewer than two documents.

    Raises:
        InputError: as `merged_loss`.
    """
    loss = merged_loss(losses, tokens)
    parts = np.array([[part * count, count] for part, count in _checked(losses, tokens)], dtype=np.float64)
    sums = group_sums(parts, documents)
    # A document without tokens adds nothing, and a resample of such documents alone would have no perplexity.
    sums = sums[sums[:, 1] > 0]
    drawn = resampled_sums(sums, bootstrap_samples, confidence, seed)
    intervals = None
    if drawn is not None:
        means = drawn[:, 0] / drawn[:, 1]
        both = {"perplexity": np.array([perplexity(mean) for mean in means]), "loss": means}
        intervals = described(both, bootstrap_samples, confidence, seed)
    return {
        "perplexity": perplexity(loss),
        "loss": loss,
        "tokens": int(sums[:, 1].sum()),
        "documents": len(sums),
        "interval": intervals,
    }


class Perplexity(evaluate.Metric):
    """`corpus_perplexity` as an `evaluate.Metric`: `Perplexity().compute(losses=..., tokens=...)`, or `add_batch`."""

    def __init__(self, keep_in_memory: bool = True, **options: Any):
        super().__init__(keep_in_memory=keep_in_memory, **options)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Perplexity from losses weighted by their tokens, with a bootstrap interval over documents.",
            citation="",
            inputs_description=corpus_perplexity.__doc__ or "",
            features=datasets.Features({"losses": datasets.Value("float64"), "tokens": datasets.Value("int64")}),
        )

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, Any] | None:
        """As `corpus_perplexity`; losses and tokens are left out after `add_batch`."""
        if options.get("losses") is not None and options.get("tokens") is not None:
            _checked(options["losses"], options["tokens"])
        return super().compute(predictions=predictions, references=references, **options)

    def _compute(self, *, losses: Any, tokens: Any, **options: Any) -> dict[str, Any]:
        return corpus_perplexity(losses, tokens, **options)


def _checked(losses: Sequence[float], tokens: Sequence[int]) -> list[tuple[float, int]]:
    if len(losses) != len(tokens):
        raise InputError(f"There are {len(losses)} losses but {len(tokens)} counts of tokens; give one for each loss.")
    pairs = []
    for part, (loss, count) in enumerate(zip(losses, tokens, strict=True)):
        if count < 0 or count != int(count):
            raise InputError(f"Part {part} has {count} predicted tokens; give a whole number, 0 or more.")
        if count and not math.isfinite(loss):
            raise InputError(f"The loss of part {part} over {count} tokens is {loss}; look there for what made it so.")
        pairs.append((float(loss) if count else 0.0, int(count)))
    if sum(count for _, count in pairs) == 0:
        raise InputError("There are no predicted tokens; mask or label at least one token of the evaluation data.")
    return pairs
