"""
SW+RAND: BigBird's attention by whole blocks (BigBird, section 2; Position-aware attention, Eq. 7 and 8).

A document is cut into blocks. Each block attends to itself, the blocks before and after it, some random ones, and to
the first and the last block of the document, which themselves attend to all. Documents of few blocks attend in full.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sparse_attention import BlockTable, mask_padding


class RandomBlocks(NamedTuple):
    """
    The pattern of one layer for a batch.

    Attributes:
        keys: int64 `[batch, heads, blocks, S]`, the blocks that each block attends to, as often as they count; -1 for
            none, and in rows of blocks that attend to all.
        full: bool `[batch, blocks]`, the blocks that attend to all.
        lengths: int64 `[batch]`, places of each document, the last of which is no padding.
        block_size: tokens of a block.
    """

    keys: torch.Tensor
    full: torch.Tensor
    lengths: torch.Tensor
    block_size: int


@lru_cache(maxsize=1024)
def draw_random_blocks(blocks: int, heads: int, count: int, seed: int, global_blocks: bool = True) -> torch.Tensor:
    """
    Draw the random blocks of a layer.

    Args:
        blocks: of the document.
        heads: of the attention; each has its own.
        count: random blocks for each block, or as many as there are.
        seed: the same seed gives the same blocks.
        global_blocks: whether all attend to the first and the last block anyway.

    Returns:
        int64 `[heads, blocks, count]`, distinct, none of them attended to without chance; -1 where none is left.
    """
    place = torch.arange(blocks)
    taken = (place[:, None] - place).abs() <= 1
    if global_blocks and blocks:
        taken[:, [0, -1]] = True
    generator = torch.Generator().manual_seed(seed)
    luck = torch.rand(heads, blocks, blocks, generator=generator).masked_fill(taken, -1.0)
    best = luck.topk(min(count, blocks), dim=-1)
    drawn = best.indices.masked_fill(best.values < 0, -1)
    return torch.nn.functional.pad(drawn, (0, count - drawn.shape[-1]), value=-1)


def list_blocks(random: torch.Tensor, global_blocks: bool, count_duplicates: bool) -> torch.Tensor:
    """
    All blocks that each block attends to, none twice but for random ones where duplicates count.

    Args:
        random: int64 `[heads, blocks, count]`, -1 for none.
        global_blocks: whether all attend to the first and the last block.
        count_duplicates: whether a random block that is attended to anyway counts again.

    Returns:
        int64 `[heads, blocks, S]`, -1 for none.
    """
    heads, blocks, _ = random.shape
    place = torch.arange(blocks)
    listed = [place - 1, place, torch.where(place + 1 < blocks, place + 1, -1)]
    if global_blocks:
        listed += [torch.zeros_like(place), torch.full_like(place, blocks - 1)]
    fixed = torch.stack(listed, -1)
    every = torch.cat([fixed.expand(heads, -1, -1), random], -1)
    repeated = (every[..., :, None] == every[..., None, :]).tril(-1).any(-1)
    if count_duplicates:
        repeated[..., fixed.shape[-1] :] = False
    return every.masked_fill(repeated, -1)


def attends_in_full(blocks: int, count: int) -> bool:
    """Whether a document of so many blocks is short enough to attend in full, as in transformers' BigBird."""
    return blocks <= 5 + 2 * count


def random_blocks(
    lengths: torch.Tensor,
    length: int,
    block_size: int,
    random: list[torch.Tensor],
    global_blocks: bool = True,
    count_duplicates: bool = False,
) -> RandomBlocks:
    """
    The pattern of one layer.

    Args:
        lengths: int64 `[batch]`, places of each document, the last of which is no padding.
        length: tokens of the padded batch.
        block_size: tokens of a block.
        random: for each document its random blocks, `[heads, blocks, count]`.
        global_blocks: whether all attend to the first and the last block, and these to all.
        count_duplicates: whether a random block that is attended to anyway counts again.
    """
    blocks = -(-length // block_size)
    heads, count = random[0].shape[0], random[0].shape[2]
    keys = torch.full((len(random), heads, blocks, count + (5 if global_blocks else 3)), -1)
    full = torch.zeros(len(random), blocks, dtype=torch.bool)
    for row, drawn in enumerate(random):
        own = drawn.shape[1]
        if own == 0:
            continue
        keys[row, :, :own] = list_blocks(drawn, global_blocks, count_duplicates)
        if attends_in_full(own, count):
            full[row, :own] = True
        elif global_blocks:
            full[row, [0, own - 1]] = True
    keys.masked_fill_(full[:, None, :, None], -1)
    device = lengths.device
    return RandomBlocks(keys.to(device), full.to(device), lengths, block_size)


def _tokens(blocks: torch.Tensor, size: int, lengths: torch.Tensor) -> torch.Tensor:
    """Numbers of blocks `[batch, ..., n]`, -1 for none -> their tokens `[batch, ..., n * size]`, -1 for none."""
    tokens = (blocks.unsqueeze(-1) * size + torch.arange(size, device=blocks.device)).flatten(-2)
    limits = lengths.view(-1, *[1] * (tokens.dim() - 1))
    return tokens.masked_fill((tokens < 0) | (tokens >= limits), -1)


def sparse_table(pattern: RandomBlocks, attention_mask: torch.Tensor | None) -> BlockTable:
    """Blocks that do not attend to all, heads folded into the batch: queries `[batch * heads, blocks, size]`."""
    batch, heads, blocks, _ = pattern.keys.shape
    place = torch.arange(blocks, device=pattern.keys.device).expand(batch, -1).masked_fill(pattern.full, -1)
    queries = _tokens(place.unsqueeze(-1), pattern.block_size, pattern.lengths)
    keys = _tokens(pattern.keys, pattern.block_size, pattern.lengths)
    table = BlockTable(queries.repeat_interleave(heads, 0), keys.flatten(0, 1))
    return table if attention_mask is None else mask_padding(table, attention_mask.repeat_interleave(heads, 0))


def full_table(pattern: RandomBlocks, length: int, attention_mask: torch.Tensor | None) -> BlockTable:
    """Blocks that attend to all, alike in all heads: queries `[batch, most, size]`, keys `[batch, most, length]`."""
    most = int(pattern.full.sum(-1).max())
    order = pattern.full.int().sort(dim=-1, descending=True, stable=True)
    place = order.indices.masked_fill(order.values == 0, -1)[:, :most]
    queries = _tokens(place.unsqueeze(-1), pattern.block_size, pattern.lengths)
    every = torch.arange(length, device=place.device)
    keys = every.masked_fill(every >= pattern.lengths[:, None], -1)[:, None].expand(-1, most, -1)
    table = BlockTable(queries, keys)
    return table if attention_mask is None else mask_padding(table, attention_mask)


def block_counts(pattern: RandomBlocks) -> torch.Tensor:
    """How often a block attends to a block, int64 `[batch, heads, blocks, blocks]`."""
    keys, blocks = pattern.keys, pattern.keys.shape[2]
    counts = torch.nn.functional.one_hot(keys + 1, blocks + 1)[..., 1:].sum(-2)
    return torch.where(pattern.full[:, None, :, None], torch.ones_like(counts), counts)


def dense_blocks(pattern: RandomBlocks, length: int) -> torch.Tensor:
    """The plain form: how often token i attends to token j, int64 `[batch, heads, length, length]`."""
    counts = block_counts(pattern)
    counts = counts.repeat_interleave(pattern.block_size, 2).repeat_interleave(pattern.block_size, 3)
    is_token = torch.arange(length, device=counts.device) < pattern.lengths[:, None]
    return counts[:, :, :length, :length] * (is_token[:, None, :, None] & is_token[:, None, None, :])
