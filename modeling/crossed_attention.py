"""
DISTANCE+SW (Position-aware attention, section 3.3): scores from the nearest tokens, values from the window, the k-th
score with the k-th value.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .global_tokens import GlobalTokens, gather_global
from .sparse_attention import CPU_CHUNK, GPU_CHUNK, gather_tokens

BLOCK = 64


class Crossing(NamedTuple):
    """
    Which scores meet which values.

    Attributes:
        neighbors: int64 `[batch, length, K]`, the nearest tokens of each, K = window + 1; -1 for none.
        allowed: bool `[batch, length, K]`, slots whose neighbour and whose window token both exist.
        tokens: the global tokens, which all attend to beside the slots, or None.
    """

    neighbors: torch.Tensor
    allowed: torch.Tensor
    tokens: GlobalTokens | None


def window_slots(length: int, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """The k-th token of each token's window, int64 `[length, count]`, from the first before it; may lie outside."""
    return torch.arange(length, device=device)[:, None] + torch.arange(count, device=device) - count // 2


def make_crossing(neighbors: torch.Tensor, mask: torch.Tensor, tokens: GlobalTokens | None) -> Crossing:
    """
    Args:
        neighbors: int64 `[batch, length, K]`, -1 for none.
        mask: bool `[batch, length]`, False for padding.
        tokens: the global tokens, which are attended to once, as such, or None.
    """
    batch, length, count = neighbors.shape
    open_keys = mask
    if tokens is not None:
        places = torch.arange(length, device=mask.device)
        open_keys = mask & ~(tokens.tokens[:, :, None] == places).any(1)
    slots = window_slots(length, count, neighbors.device).expand(batch, -1, -1)

    def is_open(index: torch.Tensor) -> torch.Tensor:
        inside = (index >= 0) & (index < length)
        return inside & open_keys.gather(1, index.clamp(0, length - 1).flatten(1)).view_as(index)

    # Neither has a global token's own row a part here: `global_rows` makes it.
    return Crossing(neighbors, is_open(neighbors) & is_open(slots) & open_keys.unsqueeze(-1), tokens)


def crossed_probabilities(
    scores: torch.Tensor,
    allowed: torch.Tensor,
    global_scores: torch.Tensor | None,
    global_allowed: torch.Tensor | None,
) -> torch.Tensor:
    """Softmax over slots and global tokens, zero in rows without any: `[..., K]` and `[..., G]` -> `[..., K + G]`."""
    if global_scores is not None and global_allowed is not None:
        scores = torch.cat([scores, global_scores], -1)
        allowed = torch.cat([allowed, global_allowed.expand(*allowed.shape[:-1], -1)], -1)
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return wide.masked_fill(~allowed, torch.finfo(wide.dtype).min).softmax(-1) * allowed.any(-1, keepdim=True)


def crossed_map(query: torch.Tensor, key: torch.Tensor, crossing: Crossing, scaling: float) -> torch.Tensor:
    """
    The plain form: how much each token reads of each value, `[batch, heads, length, length]`; zero in global rows.

    Shapes: query, key `[batch, heads, length, head_size]`.
    """
    neighbors, allowed, tokens = crossing
    heads, (batch, length, count) = query.shape[1], neighbors.shape
    scores = query @ key.transpose(-1, -2) * scaling
    index = neighbors.clamp(min=0)[:, None].expand(-1, heads, -1, -1)
    spatial, in_text = scores.gather(-1, index), allowed[:, None].expand(-1, heads, -1, -1)
    slots = window_slots(length, count, query.device).clamp(0, length - 1).expand(batch, heads, -1, -1)
    if tokens is None:
        probabilities = crossed_probabilities(spatial, in_text, None, None)
        return probabilities.new_zeros(scores.shape).scatter_add(-1, slots, probabilities)
    places = tokens.tokens.clamp(min=0)[:, None, None].expand(-1, heads, length, -1)
    exists = (tokens.tokens >= 0)[:, None, None]
    is_row = ~(tokens.tokens[:, :, None] == torch.arange(length, device=query.device)).any(1) & tokens.mask
    joint = crossed_probabilities(spatial, in_text, scores.gather(-1, places), exists & is_row[:, None, :, None])
    zeros = joint.new_zeros(scores.shape)
    return zeros.scatter_add(-1, torch.cat([slots, places], -1), joint)


def crossed_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    crossing: Crossing,
    scaling: float,
    dropout: float = 0.0,
) -> torch.Tensor:
    """
    The fast form: blocks of consecutive queries against the union of their neighbours, a few blocks at a time,
    computed again in the backward pass. Shapes: query, key, value and result `[batch, heads, length, head_size]`.
    """
    neighbors, allowed, tokens = crossing
    batch, length, count = neighbors.shape
    blocks = -(-length // BLOCK)
    pad = blocks * BLOCK - length
    neighbors = nn.functional.pad(neighbors, (0, 0, 0, pad), value=-1).view(batch, blocks, BLOCK, count)
    allowed = nn.functional.pad(allowed, (0, 0, 0, pad)).view(batch, blocks, BLOCK, count)
    keys, columns = union(neighbors, length)
    budget = CPU_CHUNK if query.device.type == "cpu" else GPU_CHUNK
    step = max(1, budget // max(1, batch * query.shape[1] * BLOCK * keys.shape[-1]))
    parts = []
    for first in range(0, blocks, step):
        part = slice(first, first + step)
        arguments = (query, key, value, keys[:, part], columns[:, part], allowed[:, part], first, tokens)
        parts.append(checkpoint(_blocks, *arguments, scaling, dropout, use_reentrant=False))
    return torch.cat(parts, 1).transpose(2, 3).flatten(1, 2)[:, :length].transpose(1, 2)


def union(neighbors: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Neighbours `[batch, blocks, block, K]`, -1 for none -> the tokens that a block's have together,
    `[batch, blocks, U]`, ascending, and the column of each neighbour among them, `[batch, blocks, block, K]`.
    """
    flat = neighbors.flatten(2)
    has = torch.zeros(*flat.shape[:2], length + 1, dtype=torch.bool, device=flat.device)
    has = has.scatter(-1, torch.where(flat < 0, length, flat), True)[..., :length]
    rank = has.cumsum(-1) - 1
    size = max(1, int(has.sum(-1).max()))
    keys = (has.to(torch.int32) * torch.arange(length, 0, -1, device=flat.device)).topk(size, -1).values
    columns = rank.gather(-1, flat.clamp(min=0)).clamp(min=0).view_as(neighbors)
    return (length - keys).clamp(max=length - 1), columns


def _blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    keys: torch.Tensor,
    columns: torch.Tensor,
    allowed: torch.Tensor,
    first: int,
    tokens: GlobalTokens | None,
    scaling: float,
    dropout: float,
) -> torch.Tensor:
    """Blocks from `first` on: `[batch, blocks, heads, block, head_size]`."""
    (batch, heads, length, _), (blocks, _, count) = query.shape, columns.shape[1:]
    starts = (first + torch.arange(blocks, device=query.device))[:, None] * BLOCK
    rows = (starts + torch.arange(BLOCK, device=query.device)).clamp(max=length - 1).expand(batch, -1, -1)
    range_ = starts + torch.arange(-(count // 2), BLOCK + count // 2, device=query.device)
    range_ = range_.clamp(0, length - 1).expand(batch, -1, -1)
    queries = gather_tokens(query, rows)
    scores = queries @ gather_tokens(key, keys).transpose(-1, -2) * scaling
    scores = scores.gather(-1, columns.unsqueeze(2).expand(-1, -1, heads, -1, -1))
    global_scores = global_allowed = None
    if tokens is not None:
        global_scores = queries @ gather_global(key, tokens).transpose(-1, -2).unsqueeze(1) * scaling
        places = torch.arange(length, device=query.device)
        open_rows = ~(tokens.tokens[:, :, None] == places).any(1) & tokens.mask
        open_rows = open_rows.gather(1, rows.flatten(1)).view_as(rows)
        global_allowed = (tokens.tokens >= 0)[:, None, None, None] & open_rows[:, :, None, :, None]
        global_allowed = global_allowed.expand(-1, -1, heads, -1, -1)
    in_text = allowed.unsqueeze(2).expand(-1, -1, heads, -1, -1)
    probabilities = crossed_probabilities(scores, in_text, global_scores, global_allowed)
    probabilities = nn.functional.dropout(probabilities, dropout).to(value.dtype)
    slots = torch.arange(BLOCK, device=query.device)[:, None] + torch.arange(count, device=query.device)
    band = probabilities.new_zeros(*probabilities.shape[:-1], BLOCK + count - 1)
    band = band.scatter(-1, slots.expand(*probabilities.shape[:-1], -1), probabilities[..., :count])
    output = band @ gather_tokens(value, range_)
    if tokens is None:
        return output
    return output + probabilities[..., count:] @ gather_global(value, tokens).unsqueeze(1)


__all__ = ["Crossing", "crossed_attention", "crossed_map", "make_crossing", "window_slots"]
