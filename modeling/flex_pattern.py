"""A pattern of attention inside FlexAttention, the same for all layers. For inference, see `flex_kernel`."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.attention.flex_attention import BlockMask

from .flex_kernel import scored_attention


class FlexPattern(NamedTuple):
    """
    Who attends to whom.

    Attributes:
        block_mask: FlexAttention's mask.
        queries: bool `[batch or 1, length]`, the tokens that attend to any.
        scores: FlexAttention's `score_mod`, or None.
    """

    block_mask: BlockMask
    queries: torch.Tensor
    scores: Callable[..., torch.Tensor] | None = None


def flex_pattern_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pattern: FlexPattern, scaling: float
) -> torch.Tensor:
    """`[batch, heads, length, head_size]` each; zero for tokens that attend to none."""
    output = scored_attention(query, key, value, scaling, pattern.scores, pattern.block_mask)
    # What the kernel makes of a row without keys depends on the device.
    return output.masked_fill(~pattern.queries[:, None, :, None], 0.0)
