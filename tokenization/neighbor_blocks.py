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
    places = _places(queries, neighbors)
    keys, columns = _columns(_mark(places, len(queries), len(neighbors)))
    return queries, keys, _members(places, columns, keys.shape[1])


def _union_blocks(neighbors: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of consecutive tokens, each with its window and the neighbours outside it."""
    length = len(neighbors)
    queries = _in_blocks(np.arange(length), UNION_BLOCK)
    places = _places(queries, neighbors)
    marked = _mark(places, len(queries), length)
    token = np.arange(length)
    marked[:, 1:] |= (token >= queries[:, :1] - half) & (token <= queries.max(1, keepdims=True) + half)
    keys, columns = _columns(marked)
    members = _members(places, columns, keys.shape[1])
    # The window's tokens follow each other in the columns too.
    first, last = (np.clip(queries + step, 0, length - 1) for step in (-half, half))
    small = np.dtype("int16" if length < 1 << 15 else "int32")
    first, last = (np.take_along_axis(columns, end + 1, axis=1).astype(small) - 1 for end in (first, last))
    last[queries < 0] = -1
    column = np.arange(keys.shape[1], dtype=small)
    members |= (column >= first[..., None]) & (column <= last[..., None])
    return queries, keys, members


def _in_blocks(tokens: np.ndarray, block: int) -> np.ndarray:
    """Tokens `[n]` -> `[blocks, block]`, -1 in the places left over."""
    blocks = -(-len(tokens) // block)
    padded = np.full(blocks * block, -1, dtype=np.int64)
    padded[: len(tokens)] = tokens
    return padded.reshape(blocks, block)


def _places(queries: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """
    Where the neighbours of each query stand in a flat `[blocks, 1 + length]` whose first column is for none: int64
    `[blocks, block, M]`.
    """
    near = neighbors[queries]
    near[queries < 0] = -1
    return near + (np.arange(len(queries)) * (len(neighbors) + 1) + 1)[:, None, None]


def _mark(places: np.ndarray, blocks: int, length: int) -> np.ndarray:
    """Bool `[blocks, 1 + length]`: the tokens that are someone's neighbours, in the second and later columns."""
    marked = np.zeros((blocks, length + 1), dtype=bool)
    marked.reshape(-1)[places.reshape(-1)] = True
    marked[:, 0] = False
    return marked


def _columns(marked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Marked tokens as keys `[blocks, K]`, ascending, -1 behind; and 1 + the column of each `[blocks, 1 + length]`."""
    columns = marked.cumsum(1)
    columns[:, 0] = 0
    keys = np.full((len(marked), int(columns[:, -1].max(initial=0))), -1, dtype=np.int64)
    block, token = np.nonzero(marked)
    keys[block, columns[block, token] - 1] = token - 1
    return keys, columns


def _members(places: np.ndarray, columns: np.ndarray, width: int) -> np.ndarray:
    """Who is whose neighbour: bool `[blocks, block, K]`."""
    blocks, block, _ = places.shape
    members = np.zeros(blocks * block * (width + 1), dtype=bool)
    marks = columns.take(places)
    marks += np.arange(blocks * block).reshape(blocks, block, 1) * (width + 1)
    members[marks.reshape(-1)] = True
    return members.reshape(blocks, block, width + 1)[..., 1:]
