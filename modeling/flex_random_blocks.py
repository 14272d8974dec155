"""SW+RAND inside FlexAttention: whole blocks of tokens, looked up by the kernel. For inference, see `flex_kernel`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .flex_kernel import BLOCK, make_block_mask
from .flex_pattern import FlexPattern
from .global_tokens import GlobalTokens
from .random_blocks import RandomBlocks, block_counts


def flex_random_blocks(
    pattern: RandomBlocks, length: int, mask: torch.Tensor | None, tokens: GlobalTokens | None, weighted: bool = False
) -> FlexPattern:
    """
    The pattern as FlexAttention takes it.

    Args:
        pattern: of one layer.
        length: tokens of the batch.
        mask: `[batch, length]`, 0 for padding, or None.
        tokens: the global tokens, which all attend to, or None.
        weighted: whether a block that counts n times weighs n times as much; else all that count weigh alike.
    """
    counts = block_counts(pattern)
    attended, place = counts > 0, torch.arange(length, device=counts.device)
    block, is_key = place // pattern.block_size, place < pattern.lengths[:, None]
    is_key = is_key if mask is None else is_key & mask.bool()
    is_global = torch.zeros_like(is_key) if tokens is None else (tokens.tokens[:, :, None] == place).any(1)
    is_query = is_key & ~is_global

    def attends(document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        near = attended[document, head, block[query], block[key]] | is_global[document, key]
        return near & is_query[document, query] & is_key[document, key]

    count = -(-length // BLOCK)
    overlap = torch.zeros(count, counts.shape[-1], device=counts.device)
    overlap[place // BLOCK, block] = 1.0
    near = overlap @ attended.float() @ overlap.T > 0
    queries, keys, globals_ = (_some(each, count)[:, None] for each in (is_query, is_key, is_global))
    blocks = (near | globals_[:, :, None]) & queries[..., None] & keys[:, :, None]
    scores = _weigh(counts, block, is_global) if weighted else None
    return FlexPattern(make_block_mask(blocks, attends, (length, length)), is_query, scores)


def _weigh(counts: torch.Tensor, block: torch.Tensor, is_global: torch.Tensor) -> Callable[..., torch.Tensor]:
    """FlexAttention's `score_mod`: the logarithm of how often a block counts, for all but the global tokens."""
    weights = counts.clamp(min=1).float().log()

    def scores(score: torch.Tensor, document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        weight = weights[document, head, block[query], block[key]]
        return torch.where(is_global[document, key], score, score + weight)

    return scores


def _some(marked: torch.Tensor, count: int) -> torch.Tensor:
    """Bool `[batch, length]` -> bool `[batch, count]`: the blocks of the mask in which a token is marked."""
    padded = nn.functional.pad(marked, (0, count * BLOCK - marked.shape[1]))
    return padded.unflatten(1, (count, BLOCK)).any(-1)
