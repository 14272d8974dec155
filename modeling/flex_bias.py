"""The relative bias inside FlexAttention: looked up in the tables pair by pair. For inference, see `flex_kernel`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .flex_kernel import scored_attention
from .relative_bias import RelativeBias


class FlexBias(NamedTuple):
    """
    A bias as the layers get it in place of a tensor.

    Attributes:
        scores: FlexAttention's `score_mod`: (score, document, head, query, key) -> score with bias and mask.
    """

    scores: Callable[..., torch.Tensor]


def flex_bias(bias: RelativeBias, bbox: torch.Tensor, mask: torch.Tensor | None) -> FlexBias:
    """
    Args:
        bias: the tables.
        bbox: float `[batch, length, 4]`, in units of the page's height.
        mask: bool `[batch, 1, 1, length]`, True for the tokens that may be attended to; None for all.
    """
    left, middle = bias.coordinates(bbox)
    kept = None if mask is None else mask[:, 0, 0].contiguous()
    tables = [None if table is None else table() for table in (bias.sequential, bias.horizontal, bias.vertical)]

    def scores(score: torch.Tensor, document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        sequential, horizontal, vertical = tables
        if sequential is not None:
            score = score + sequential[bias.sequential_row(query, key), head]
        if horizontal is not None:
            score = score + horizontal[bias.page_row(left[document, query], left[document, key]), head]
        if vertical is not None:
            score = score + vertical[bias.page_row(middle[document, query], middle[document, key]), head]
        if kept is None:
            return score
        return torch.where(kept[document, key], score, torch.finfo(score.dtype).min)

    return FlexBias(scores)


def flex_biased_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: FlexBias, scaling: float
) -> torch.Tensor:
    """softmax(q k^T * scaling + bias) v; all `[batch, heads, length, head_size]`."""
    return scored_attention(query, key, value, scaling, bias.scores)
