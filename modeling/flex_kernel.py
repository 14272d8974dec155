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
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.utils._triton import has_triton

# What the compiled kernel asks for: tiles of at least 16 columns, tensor cores.
SMALLEST_HEAD, OLDEST_DEVICE = 16, (7, 5)
# Queries and keys in a block of a mask: FlexAttention's own.
BLOCK = 128


def can_flex(device: torch.device, head_size: int) -> bool:
    """Whether FlexAttention runs there for heads of that size; who cannot takes another form of the same attention."""
    if device.type == "cpu":
        return True
    if device.type != "cuda" or head_size < SMALLEST_HEAD:
        return False
    return has_triton() and torch.cuda.get_device_capability(device) >= OLDEST_DEVICE


def takes_flex(config: Any, training: bool, device: torch.device) -> bool:
    """
    Whether FlexAttention's form is wanted, can be had, and serves: it has no gradients and no dropout here.

    Args:
        config: of a model, with `hidden_size`, `num_attention_heads` and `attention_probs_dropout_prob`.
        training: whether the model is in training mode.
        device: where its tokens are.
    """
    infers = not torch.is_grad_enabled() and not (training and config.attention_probs_dropout_prob)
    head_size = config.hidden_size // config.num_attention_heads
    return config._attn_implementation == "flex_attention" and infers and can_flex(device, head_size)


def make_block_mask(
    blocks: torch.Tensor,
    attends: Callable[..., torch.Tensor],
    lengths: tuple[int, int],
    full: torch.Tensor | None = None,
) -> BlockMask:
    """
    Args:
        blocks: bool `[batch or 1, heads or 1, query blocks, key blocks]`, blocks of 128 with a pair that attends.
        attends: FlexAttention's `mask_mod`: (document, head, query, key) -> bool.
        lengths: numbers of queries and of keys.
        full: blocks all of whose pairs attend, for which `attends` is not asked; of the same shape, or None.
    """
    count, order = _ordered(blocks if full is None else blocks & ~full)
    full_count, full_order = (None, None) if full is None else _ordered(full)
    return BlockMask.from_kv_blocks(
        count, order, full_count, full_order, BLOCK_SIZE=BLOCK, mask_mod=attends, seq_lengths=lengths
    )


def _ordered(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many key blocks each query block has, and all key blocks, those marked first, in their order."""
    order = blocks.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.to(torch.int32)


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
