"""
Block tables inside FlexAttention: who attends to whom as a bit for each pair of tokens, and the blocks of the mask
that hold any. For inference, see `flex_kernel`.

Blocks are cut in the order of the text. That of the tables, along a Morton curve for the nearest tokens, is of no use
here: in blocks of 128 the neighbours of real pages then lie in as many blocks or more.
"""

from typing import Any

import torch

from .flex_kernel import BLOCK, make_block_mask
from .flex_pattern import FlexPattern
from .sparse_attention import BlockTable

# Keys in a word of bits; pairs of a table that are packed at once.
WORD, CHUNK = 32, 1 << 22


def flex_table(table: BlockTable, batch: int, length: int) -> FlexPattern:
    """
    The table as FlexAttention takes it, alike in all heads.

    Args:
        table: who attends to whom, no key twice in a block.
        batch: documents.
        length: tokens of each. The mask takes length^2 / 8 bytes for each row of the table.
    """
    bits = pack_table(table, length)
    rows, size, words = bits.shape
    by_block = bits.view(rows, size // BLOCK, BLOCK, size // BLOCK, BLOCK // WORD)
    some, full = (by_block != 0).any(4).any(2), (by_block == -1).all(4).all(2)
    row = torch.arange(batch, device=bits.device) % rows

    def attends(document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        # key // 32 and key % 32, in operations that a GPU has.
        return ((bits[row[document], query, key >> 5] >> (key & 31)) & 1) != 0

    blocks = make_block_mask(some[:, None], attends, (length, length), full[:, None])
    return FlexPattern(blocks, (bits != 0).any(-1)[:, :length])


def pack_table(table: BlockTable, length: int) -> torch.Tensor:
    """
    The bits of all pairs, int32 `[batch or 1, queries, words]`: bit k % 32 of word k // 32 says that the query attends
    to key k. Queries and keys are filled up to whole blocks of the mask with such as do not attend.
    """
    size = -(-length // BLOCK) * BLOCK
    (rows, blocks, block), words = table.queries.shape, size // WORD
    bits = torch.zeros(rows, size * words, dtype=torch.int32, device=table.queries.device)
    step = max(1, CHUNK // max(1, rows * block * table.keys.shape[-1]))
    for first in range(0, blocks, step):
        members = None if table.members is None else table.members[:, first : first + step]
        part = BlockTable(table.queries[:, first : first + step], table.keys[:, first : first + step], members)
        queries, keys = part.queries.clamp(min=0), part.keys.clamp(min=0)
        allowed = part.allowed() & (part.queries >= 0).unsqueeze(-1)
        place = queries.unsqueeze(-1) * words + (keys // WORD).unsqueeze(-2)
        # No pair comes twice, so that the sum of their bits is the union; the highest is the sign.
        bit = torch.ones_like(keys, dtype=torch.int32) << (keys % WORD).to(torch.int32)
        bits.scatter_add_(1, place.flatten(1), torch.where(allowed, bit.unsqueeze(-2), 0).flatten(1))
    return bits.view(rows, size, words)
