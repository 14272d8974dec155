"""
FlexAttention with a score function of our own: pairs are scored inside the kernel, nothing of size length x length is
made.

For inference. On CUDA the kernel is compiled; on the CPU torch runs the same form slowly, which tests it.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._triton import has_triton

# What the compiled kernel asks for: tiles of at least 16 columns, tensor cores.
SMALLEST_HEAD, OLDEST_DEVICE = 16, (7, 5)


def can_flex(device: torch.device, head_size: int) -> bool:
    """Whether FlexAttention runs there for heads of that size; who cannot takes another form of the same attention."""
    if device.type == "cpu":
        return True
    if device.type != "cuda" or head_size < SMALLEST_HEAD:
        return False
    return has_triton() and torch.cuda.get_device_capability(device) >= OLDEST_DEVICE


def scored_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float,
    scores: Callable[..., torch.Tensor] | None,
    block_mask: Any = None,
) -> torch.Tensor:
    """
    softmax(scores(q k^T * scaling)) v.

    Args:
        query: `[batch, heads, queries, head_size]`; key and value `[batch, heads, keys, head_size]`.
        scaling: factor of the products.
        scores: FlexAttention's `score_mod`: (score, document, head, query, key) -> score; None for the score itself.
        block_mask: FlexAttention's `BlockMask`, who attends to whom; None for all to all.

    Returns:
        `[batch, heads, queries, head_size]`.
    """
    options: dict[str, Any] = {"score_mod": scores, "block_mask": block_mask, "scale": scaling}
    if query.device.type == "cuda":
        return _compiled()(query, key, value, **options)
    with warnings.catch_warnings():
        # torch recommends to compile, which is no faster here.
        warnings.simplefilter("ignore")
        output = flex_attention(query, key, value, **options)
    assert isinstance(output, torch.Tensor)
    return output


@cache
def _compiled() -> Callable[..., torch.Tensor]:
    return torch.compile(flex_attention)  # type: ignore[return-value]
