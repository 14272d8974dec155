"""
The tokens nearest to each token on the page (Position-aware attention, section 3.3), and an order in which tokens that
stand together follow each other.
"""

import numpy as np
from sklearn.neighbors import KDTree

# Centres are rounded to this share of the stack's width, a few hundredths of a micrometre on paper: distances between
# integers are exact, so that equal ones are equal on every machine.
GRID = 1 << 20
# Neighbours asked of the tree beyond those needed, so that few points have to ask again for the sake of ties.
SPARE = 8
# Up to so many pairs of points and tokens, comparing all is faster than a tree.
FEW_PAIRS = 1 << 26
# Pairs that are compared at once, or a few rows of them: what the processor's caches hold.
AT_ONCE, FEW_ROWS = 1 << 15, 16


def grid_centers(boxes: np.ndarray, width: float) -> np.ndarray:
    """Centres of boxes float64 `[N, 4]` in a stack of the given width, as int64 `[N, 2]` in `GRID` parts of it."""
    return np.rint((boxes[:, :2] + boxes[:, 2:]) * (GRID / (2 * width))).astype(np.int64)


def nearest_tokens(centers: np.ndarray, count: int) -> np.ndarray:
    """
    The nearest tokens of each token by L2 distance of the centres, ordered by (distance, index). Each is among its
    own, in the place of the last where `count` tokens of the same centre come before it.

    Args:
        centers: int64 `[N, 2]`, as of `grid_centers`.
        count: how many.

    Returns:
        int32 `[N, count]`, -1 where there are fewer tokens.
    """
    if not len(centers):
        return np.full((0, count), -1, dtype=np.int32)
    near, own = _nearest(centers, count), np.arange(len(centers), dtype=np.int32)
    last = near[:, -1]
    crowded = (last >= 0) & (last < own) & (centers[last] == centers).all(1)
    near[crowded, -1] = own[crowded]
    return near


def _nearest(centers: np.ndarray, count: int) -> np.ndarray:
    # Sub-words of a word share its box: all tokens of one point have the same neighbours.
    begins = np.append(True, (centers[1:] != centers[:-1]).any(1))
    runs = centers[begins]
    bits = _distance_bits(centers)
    # In float64 squared distances are exact, and int64 has room for an index behind them.
    exact = bits <= 53 and bits + len(centers).bit_length() <= 63
    if exact and len(runs) * len(centers) <= FEW_PAIRS:
        return _compare_all(runs, centers, count).take(begins.cumsum() - 1, axis=0)
    points, place, sizes = np.unique(centers, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    members = np.argsort(place, kind="stable").astype(np.int64)  # tokens, point by point, ascending within each
    starts = np.cumsum(sizes) - sizes
    found = np.full((len(points), count), -1, dtype=np.int32)
    tree, rows, asked = KDTree(points.astype(np.float64), leaf_size=16), np.arange(len(points)), count + SPARE
    while len(rows):
        asked = min(asked, len(points))
        near = tree.query(points[rows], asked, return_distance=False)
        distances = ((points[near] - points[rows, None]) ** 2).sum(-1)
        order, complete = _order_tokens(near, distances, sizes, starts, members, count)
        done = complete | (asked == len(points))
        found[rows[done], : order.shape[1]] = order[done]
        rows, asked = rows[~done], 2 * asked
    return found[place]


def _distance_bits(centers: np.ndarray) -> int:
    """Bits of the largest squared distance between two centres, at most."""
    across, down = (centers.max(0) - centers.min(0)).tolist()
    return (across * across + down * down).bit_length()


def _compare_all(points: np.ndarray, centers: np.ndarray, count: int) -> np.ndarray:
    """Each point's nearest tokens, int32 `[points, count]`, by way of all distances, which float64 holds exactly."""
    size, bits = len(centers), len(centers).bit_length()
    middle = (centers.min(0) + centers.max(0)) // 2
    points, others = (points - middle).astype(np.float64), (centers - middle).astype(np.float64)
    # |p|^2 - 2 p o + |o|^2 as one matrix product: whole numbers, none of them above the largest squared distance.
    left = np.stack([(points**2).sum(1), -2 * points[:, 0], -2 * points[:, 1], np.ones(len(points))], 1)
    right = np.stack([np.ones(size), others[:, 0], others[:, 1], (others**2).sum(1)])
    # One number for distance and index, so that one sort settles both; made by the product too where they fit.
    index = np.arange(1, size + 1)
    together = _distance_bits(centers) + bits <= 53
    if together:
        right *= 1 << bits
        right[3] += index
    near = np.full((len(points), count), -1, dtype=np.int32)
    rows = max(FEW_ROWS, AT_ONCE // size)
    for start in range(0, len(points), rows):
        product = left[start : start + rows] @ right
        # Floats above zero have the order of their bits, and numpy sorts whole numbers faster.
        keys = product.view(np.int64) if together else (product.astype(np.int64) << bits) | index
        if count < size:
            keys.partition(count - 1, axis=1)
            keys = keys[:, :count]
        keys.sort(axis=1)
        keys = keys.view(np.float64).astype(np.int64) if together else keys
        near[start : start + rows, : keys.shape[1]] = (keys & ((1 << bits) - 1)) - 1
    return near


def _order_tokens(
    near: np.ndarray, distances: np.ndarray, sizes: np.ndarray, starts: np.ndarray, members: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """
    Tokens of near points, int32 `[rows, up to count]`, by (distance, index), -1 where there are fewer; and whether a
    point further off than all that the tree returned could not come before the last of them, bool `[rows]`.
    """
    rows, number = len(near), sizes[near]
    totals = number.sum(1)
    points = near.ravel()
    repeat = sizes[points]
    flat_start = np.cumsum(repeat) - repeat
    within = np.arange(repeat.sum()) - np.repeat(flat_start, repeat)
    tokens = members[np.repeat(starts[points], repeat) + within]
    row = np.repeat(np.arange(rows), totals)
    column = np.arange(len(row)) - np.repeat(np.cumsum(totals) - totals, totals)
    # One number for distance and index, so that one sort settles both; the largest stands for none.
    size = len(members)
    endless = np.iinfo(np.int64).max
    keys = np.full((rows, int(totals.max())), endless)
    keys[row, column] = np.minimum(np.repeat(distances.ravel(), repeat), endless // size - 1) * size + tokens
    keys.sort(axis=1)
    keys = keys[:, :count]
    order = np.where(keys == endless, -1, keys % size).astype(np.int32)
    last = np.where(keys == endless, -1, keys // size).max(1)
    complete = (totals >= count) & (last < distances.max(1))
    return order, complete


def morton_order(centers: np.ndarray) -> np.ndarray:
    """Ranks int32 `[N]` along a Morton curve over centres int64 `[N, 2]`: near ranks stand near each other."""
    if not len(centers):
        return np.zeros(0, dtype=np.int32)
    cells = centers - centers.min(0)
    shift = max(0, int(cells.max()).bit_length() - 16)
    code = _spread(cells[:, 0] >> shift) | (_spread(cells[:, 1] >> shift) << 1)
    ranks = np.empty(len(centers), dtype=np.int32)
    ranks[np.argsort(code, kind="stable")] = np.arange(len(centers), dtype=np.int32)
    return ranks


def _spread(values: np.ndarray) -> np.ndarray:
    """A zero bit between each two of the lowest 16 bits."""
    values = values.astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values
