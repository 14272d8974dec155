"""
Block tables of spatial attention: tokens in blocks of queries, for each block the union of the tokens that they attend
to, and who attends to which of them. They depend on the document alone; all layers of a model share them.
"""

import numpy as np

# Queries of a block. Neighbourhoods overlap most in small blocks, matrix products like large ones.
DISTANCE_BLOCK, UNION_BLOCK = 64, 128
# Numbers of keys are rounded up to it.
ROUND = 8


def neighbor_tables(
    neighbors: np.ndarray, order: np.ndarray, lengths: np.ndarray, window: int | None = None
) -> dict[str, np.ndarray]:
    """
    The tables of a padded batch.

    Args:
        neighbors: int `[batch, length, M]`, -1 for none.
        order: int `[batch, length]`, the rank of each token in an order by place; -1 for tokens on no page.
        lengths: int `[batch]`, tokens of each document.
        window: None to attend to the neighbours alone; else also to `window // 2` tokens before and after.

    Returns:
        `block_queries` int32 `[batch, blocks, block]` and `block_keys` int32 `[batch, blocks, K]`, -1 for none, and
        `block_members` bool `[batch, blocks, block, K]`.
    """
    made = [
        _distance_blocks(near[:own], rank[:own]) if window is None else _union_blocks(near[:own], window // 2)
        for near, rank, own in zip(neighbors, order, lengths, strict=True)
    ]
    blocks = max(1, *(len(queries) for queries, _, _ in made))
    width = -(-max(1, *(keys.shape[1] for _, keys, _ in made)) // ROUND) * ROUND
    block = DISTANCE_BLOCK if window is None else UNION_BLOCK
    all_queries = np.full((len(made), blocks, block), -1, dtype=np.int32)
    all_keys = np.full((len(made), blocks, width), -1, dtype=np.int32)
    all_members = np.zeros((len(made), blocks, block, width), dtype=bool)
    for row, (queries, keys, members) in enumerate(made):
        all_queries[row, : len(queries)] = queries
        all_keys[row, : len(keys), : keys.shape[1]] = keys
        all_members[row, : len(members), :, : keys.shape[1]] = members
    return {"block_queries": all_queries, "block_keys": all_keys, "block_members": all_members}


def _distance_blocks(neighbors: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of the tokens in the order of their ranks; those on no page, which may attend to global tokens, last."""
    last = np.iinfo(np.int64).max
    tokens = np.argsort(np.where(order < 0, last, order), kind="stable")
    queries = _in_blocks(tokens, DISTANCE_BLOCK)
    near = np.where(queries[..., None] >= 0, neighbors[queries], -1)
    has = _mark(near, len(neighbors))
    keys, rank = _ranks(has)
    members = np.zeros((*queries.shape, keys.shape[1]), dtype=bool)
    _set_members(members, near, rank)
    return queries, keys, members


def _union_blocks(neighbors: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of consecutive tokens, each with its window and the neighbours outside it."""
    length = len(neighbors)
    queries = _in_blocks(np.arange(length), UNION_BLOCK)
    near = np.where(queries[..., None] >= 0, neighbors[queries], -1)
    has = _mark(near, length)
    place, first = np.arange(length), queries[:, 0]
    last = queries.max(1)
    has |= (place >= first[:, None] - half) & (place <= last[:, None] + half)
    keys, rank = _ranks(has)
    offset = keys[:, None, :] - queries[:, :, None]
    members = (np.abs(offset) <= half) & (keys >= 0)[:, None, :] & (queries >= 0)[:, :, None]
    _set_members(members, near, rank)
    return queries, keys, members


def _in_blocks(tokens: np.ndarray, block: int) -> np.ndarray:
    """Tokens `[n]` -> `[blocks, block]`, -1 in the places left over."""
    blocks = -(-len(tokens) // block)
    padded = np.full(blocks * block, -1, dtype=np.int64)
    padded[: len(tokens)] = tokens
    return padded.reshape(blocks, block)


def _mark(near: np.ndarray, length: int) -> np.ndarray:
    """Bool `[blocks, length]`: the tokens that stand in `near` `[blocks, block, M]`."""
    has = np.zeros((len(near), length + 1), dtype=bool)
    flat = near.reshape(len(near), near.shape[1] * near.shape[2])
    has[np.arange(len(near))[:, None], flat] = True  # -1 is the last column
    return has[:, :length]


def _ranks(has: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Marked tokens `[blocks, length]` as keys `[blocks, K]`, ascending, -1 behind; and the column of each token."""
    rank = has.cumsum(1) - 1
    width = int(has.sum(1).max(initial=0))
    keys = np.full((len(has), width), -1, dtype=np.int64)
    block, token = np.nonzero(has)
    keys[block, rank[block, token]] = token
    return keys, rank


def _set_members(members: np.ndarray, near: np.ndarray, rank: np.ndarray) -> None:
    """Mark the columns of `near` `[blocks, block, M]`, -1 for none, in `members` `[blocks, block, K]`."""
    blocks, block, _ = near.shape
    columns = np.take_along_axis(rank, near.reshape(blocks, -1), axis=1).reshape(near.shape)
    places = columns + (np.arange(blocks * block) * members.shape[-1]).reshape(blocks, block, 1)
    members.reshape(-1)[places[near >= 0]] = True
