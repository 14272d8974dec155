"""
ETC's attention inside FlexAttention: the radius and the global tokens as a block mask, the terms of pairs of tokens
(Rich Attention, relative positions) as a score function of a few numbers per token.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask

from .flex_kernel import BLOCK, make_block_mask, scored_attention


def etc_block_mask(mask: torch.Tensor, radius: int, num_global: int) -> BlockMask:
    """
    Who attends to whom, of size (length / 128)^2.

    Args:
        mask: bool `[batch, length + globals]`, False for padding; the global tokens last.
        radius: how far tokens attend to tokens.
        num_global: global tokens.

    Returns:
        The mask of `length` queries and `length + globals` keys.
    """
    total, device = mask.shape[1], mask.device
    length = total - num_global
    is_global = _is_global(total, num_global, device)
    reach = torch.tensor(radius, device=device)

    def attends(document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        return (((key - query).abs() <= reach) | is_global[key]) & mask[document, key]

    first_query = torch.arange(0, length, BLOCK, device=device)[:, None]
    first_key = torch.arange(0, total, BLOCK, device=device)[None, :]
    near = (first_key < first_query + BLOCK + radius) & (first_key + BLOCK > first_query - radius)
    blocks = near | (first_key + BLOCK > length)
    return make_block_mask(blocks[None, None], attends, (length, total))


def etc_scores(
    terms: Any, query_numbers: torch.Tensor, key_numbers: torch.Tensor, num_global: int
) -> Callable[..., torch.Tensor]:
    """
    FlexAttention's `score_mod`: (score, document, head, query, key) -> score, with the terms of a pair of tokens.

    Args:
        terms: whose `of_pairs` makes the terms from the numbers.
        query_numbers: `[batch, heads, length, Q]`.
        key_numbers: `[batch, heads, length + globals, P]`, the global tokens last: pairs with them have no terms.
        num_global: global tokens.
    """
    pair = terms.of_pairs(query_numbers, key_numbers)
    is_global = _is_global(key_numbers.shape[2], num_global, key_numbers.device)

    def scores(score: torch.Tensor, document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        return torch.where(is_global[key], score, score + pair(document, head, query, key))

    return scores


def flex_etc_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    block_mask: BlockMask,
    scaling: float,
    num_global: int,
    terms: Any = None,
    query_numbers: torch.Tensor | None = None,
    key_numbers: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    The tokens' attention, for inference.

    Args:
        query: `[batch, heads, length, head_size]`; key and value `[batch, heads, length + globals, head_size]`.
        block_mask: as `etc_block_mask` makes it.
        scaling: factor of the products.
        num_global: global tokens.
        terms: makes additive terms of a pair from the numbers, or None; with `query_numbers`, `key_numbers` as
            `etc_scores` takes them.

    Returns:
        `[batch, heads, length, head_size]`.
    """
    scores = None
    if terms is not None:
        assert query_numbers is not None
        assert key_numbers is not None
        scores = etc_scores(terms, query_numbers, key_numbers, num_global)
    return scored_attention(query, key, value, scaling, scores, block_mask)


def _is_global(total: int, num_global: int, device: torch.device) -> torch.Tensor:
    # A tensor, as all that the functions of pairs read: numbers would make the compiler start anew.
    return torch.arange(total, device=device) >= total - num_global
