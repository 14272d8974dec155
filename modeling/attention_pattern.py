"""
LongLayoutLM's attention over any of its patterns: the plain form, masked dense, the fast exact form, and
FlexAttention's, for inference on CUDA.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from .crossed_attention import Crossing, crossed_attention, crossed_map
from .encoder_layer import split_heads
from .flex_pattern import FlexPattern, flex_pattern_attention
from .global_tokens import GlobalTokens, add_global_tokens, gather_global
from .matrix_products import is_plain
from .random_blocks import RandomBlocks, full_table, sparse_table
from .seeded_dropout import seed_of_table
from .sparse_attention import BlockTable, sparse_attention
from .tracing import is_traced


class AttentionPattern(NamedTuple):
    """
    Who attends to whom in one layer; one of the first five is set.

    Attributes:
        counts: the plain form, how often token i attends to token j, int64 or bool
            `[batch or 1, heads or 1, length, length]`, without global tokens.
        table: a block table, alike in all heads, global tokens' keys in it.
        blocks: SW+RAND.
        crossing: DISTANCE+SW.
        flex: FlexAttention's form of any but DISTANCE+SW.
        tokens: the global tokens, or None.
        mask: `[batch, length]`, 0 for padding, or None.
    """

    counts: torch.Tensor | None = None
    table: BlockTable | None = None
    blocks: RandomBlocks | None = None
    crossing: Crossing | None = None
    flex: FlexPattern | None = None
    tokens: GlobalTokens | None = None
    mask: torch.Tensor | None = None


def attention_map(query: torch.Tensor, key: torch.Tensor, pattern: AttentionPattern, scaling: float) -> torch.Tensor:
    """
    The plain form of the probabilities, zero in rows of padding, of global tokens, and of tokens that attend to none.

    Shapes: query, key `[batch, heads, length, head_size]`; returns `[batch, heads, length, length]`.
    """
    if pattern.crossing is not None:
        return crossed_map(query, key, pattern.crossing, scaling)
    assert pattern.counts is not None
    counts = pattern.counts.long()
    if pattern.tokens is not None:
        places = torch.arange(counts.shape[-1], device=counts.device)
        is_global = (pattern.tokens.tokens[:, :, None] == places).any(1)
        counts = torch.where(is_global[:, None, None, :], 1, counts)
        counts = counts.masked_fill(is_global[:, None, :, None], 0)
    if pattern.mask is not None:
        real = pattern.mask.bool()
        counts = counts * (real[:, None, None, :] & real[:, None, :, None])
    scores = query @ key.transpose(-1, -2) * scaling
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    # A key that counts n times weighs n times as much.
    wide = (wide + counts.clamp(min=1).to(wide.dtype).log()).masked_fill(counts == 0, torch.finfo(wide.dtype).min)
    return wide.softmax(-1).masked_fill(counts.sum(-1, keepdim=True) == 0, 0.0)


def pattern_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pattern: AttentionPattern,
    scaling: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> torch.Tensor:
    """
    The fast form, or FlexAttention's, which has no dropout and no gradients: `[batch, heads, length, head_size]` each,
    zero where `attention_map` is.
    """
    if pattern.crossing is not None:
        return crossed_attention(query, key, value, pattern.crossing, scaling, dropout)
    if pattern.flex is not None:
        return flex_pattern_attention(query, key, value, pattern.flex, scaling)
    if pattern.table is not None:
        return sparse_attention(query, key, value, pattern.table, scaling, dropout, seed)
    assert pattern.blocks is not None
    batch, heads, length, _ = query.shape
    tokens, output = pattern.tokens, torch.zeros_like(value)
    if not bool(pattern.blocks.full.all()):
        q, k, v = (tensor.reshape(batch * heads, 1, length, -1) for tensor in (query, key, value))
        own = None if tokens is None else GlobalTokens(*(part.repeat_interleave(heads, 0) for part in tokens))
        table = add_global_tokens(sparse_table(pattern.blocks, pattern.mask), own)
        output = sparse_attention(q, k, v, table, scaling, dropout, seed).view(batch, heads, length, -1)
    if bool(pattern.blocks.full.any()):
        table = add_global_tokens(full_table(pattern.blocks, length, pattern.mask), tokens)
        output = output + sparse_attention(query, key, value, table, scaling, dropout, seed_of_table(seed, 1))
    return output


def global_attention(
    hidden_states: torch.Tensor,
    projections: tuple[nn.Module, nn.Module, nn.Module],
    tokens: GlobalTokens,
    head_size: int,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The global tokens' own rows.

    Few queries need no keys and values of all tokens: q (H W)^T is (q W^T) H^T, and P (H W) is (P H) W, which costs a
    fraction as long as the global tokens are fewer than the head size.

    Args:
        hidden_states: `[batch, length, hidden]`.
        projections: query, key and value of global tokens.
        tokens: the global tokens.
        head_size: of each head.
        dropout: share of the probabilities that is dropped.

    Returns:
        Outputs `[batch, heads, G, head_size]` and probabilities before dropout `[batch, heads, G, length]`.
    """
    ask, key, value = projections
    own = gather_global(hidden_states.unsqueeze(1), tokens).squeeze(1)
    query = split_heads(ask(own), head_size) * head_size**-0.5
    few = not is_traced() and is_plain(key) and is_plain(value)
    few = few and tokens.tokens.shape[1] < head_size
    heads = query.shape[1]
    if few:
        weight, bias = split_weight(key, heads)
        scores = ((query @ weight).flatten(1, 2) @ hidden_states.transpose(1, 2)).unflatten(1, (heads, -1))
        # The bias moves all scores of a query alike; it stays, so that it has the gradient it would have.
        scores = scores + query @ bias.transpose(-1, -2)
    else:
        scores = query @ split_heads(key(hidden_states), head_size).transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    scores = scores.masked_fill(~tokens.mask[:, None, None, :], torch.finfo(scores.dtype).min)
    probabilities = scores.softmax(-1).to(query.dtype)
    dropped = nn.functional.dropout(probabilities, dropout)
    if not few:
        return dropped @ split_heads(value(hidden_states), head_size), probabilities
    weight, bias = split_weight(value, heads)
    read = (dropped.flatten(1, 2) @ hidden_states).unflatten(1, (heads, -1))
    return read @ weight.transpose(-1, -2) + dropped.sum(-1, keepdim=True) * bias, probabilities


def split_weight(linear: Any, heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each head's part of a projection: `[heads, head_size, hidden]` and `[heads, 1, head_size]`."""
    return linear.weight.unflatten(0, (heads, -1)), linear.bias.unflatten(0, (heads, 1, -1))


__all__ = ["AttentionPattern", "attention_map", "global_attention", "pattern_attention"]
