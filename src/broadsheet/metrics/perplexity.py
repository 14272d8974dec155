"""Perplexity of a language model."""

import math


def perplexity(loss: float) -> float:
    """Exp of the mean cross-entropy per predicted token, in nats; infinite where that overflows."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
