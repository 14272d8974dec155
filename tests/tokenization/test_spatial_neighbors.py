"""Nearest tokens, their order on the page, and the block tables made of them."""

import numpy as np
import pytest

from broadsheet.tokenization import spatial_neighbors
from broadsheet.tokenization.neighbor_blocks import neighbor_tables
from broadsheet.tokenization.spatial_neighbors import GRID, grid_centers, morton_order, nearest_tokens


def by_brute_force(centers: np.ndarray, count: int) -> np.ndarray:
    near = np.full((len(centers), count), -1)
    for token, center in enumerate(centers):
        distances = ((centers - center) ** 2).sum(1)
        order = np.lexsort((np.arange(len(centers)), distances))[:count]
        if token not in order:
            order[-1] = token
        near[token, : len(order)] = order
    return near


def points(kind: str, number: int) -> np.ndarray:
    generator = np.random.default_rng(number)
    if kind == "anywhere":
        return generator.integers(0, GRID, (number, 2))
    if kind == "grid":
        return generator.integers(0, 6, (number, 2)) * 1000
    if kind == "line":
        return np.stack([np.arange(number) * 17, np.zeros(number, dtype=np.int64)], 1)
    if kind == "two heaps":
        return np.repeat([[0, 0], [5, 5]], [number // 2, number - number // 2], 0)
    return np.zeros((number, 2), dtype=np.int64)


@pytest.mark.parametrize("by_tree", [False, True], ids=["all pairs", "tree"])
@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("number", [1, 2, 7, 300])
@pytest.mark.parametrize("kind", ["anywhere", "grid", "line", "two heaps", "one point"])
def test_nearest_tokens(kind: str, number: int, count: int, by_tree: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By (distance, index), however many are equally far."""
    if by_tree:
        monkeypatch.setattr(spatial_neighbors, "FEW_PAIRS", 0)
    centers = points(kind, number)
    assert np.array_equal(nearest_tokens(centers, count), by_brute_force(centers, count))


@pytest.mark.parametrize("height", [1 << 21, 1 << 24, 1 << 29], ids=["a page", "many pages", "hundreds"])
def test_nearest_tokens_of_tall_stacks(height: int) -> None:
    """However far the farthest are, equal distances are equal, and one unit more is more."""
    generator = np.random.default_rng(height)
    left = np.stack([generator.integers(0, 4, 150), generator.integers(0, 4, 150) * (height // 4)], 1)
    centers = np.concatenate([left, [GRID, height] - left[::-1]])
    assert np.array_equal(nearest_tokens(centers, 40), by_brute_force(centers, 40))


@pytest.mark.parametrize("kind", ["anywhere", "one point"])
def test_a_token_is_its_own_neighbour(kind: str) -> None:
    near = nearest_tokens(points(kind, 50), 3)
    assert (near == np.arange(50)[:, None]).any(1).all()


def test_no_tokens() -> None:
    assert nearest_tokens(np.zeros((0, 2), dtype=np.int64), 4).shape == (0, 4)
    assert morton_order(np.zeros((0, 2), dtype=np.int64)).shape == (0,)


def test_centers_are_shares_of_the_width() -> None:
    boxes = np.array([[0, 0, 600, 0], [300.0, 300.0, 300.0, 900.0]])
    assert grid_centers(boxes, 600).tolist() == [[GRID // 2, 0], [GRID // 2, GRID]]


def test_morton_order_keeps_quarters_together() -> None:
    centers = points("anywhere", 400)
    ranks = morton_order(centers)
    assert sorted(ranks) == list(range(400))
    first = centers[ranks < (centers < GRID // 2).all(1).sum()]
    assert (first < GRID // 2 + GRID // 50).all()


@pytest.mark.parametrize("window", [None, 6])
def test_tables_say_what_neighbours_say(window: int | None) -> None:
    """Every query once; its members are its neighbours, and its window where there is one."""
    batch, length, count = 3, 300, 7
    neighbors = np.full((batch, length, count), -1, dtype=np.int32)
    order = np.full((batch, length), -1, dtype=np.int32)
    lengths = np.array([300, 1, 151])
    for row, own in enumerate(lengths):
        centers = points("grid", own)
        neighbors[row, :own], order[row, :own] = nearest_tokens(centers, count), morton_order(centers)
        neighbors[row, 0] = -1  # <s> stands nowhere
    tables = neighbor_tables(neighbors, order, lengths, window)
    for row, own in enumerate(lengths):
        found = np.zeros((length, length), dtype=int)
        queries, keys, members = (tables[f"block_{name}"][row] for name in ("queries", "keys", "members"))
        for block in range(len(queries)):
            for place, query in enumerate(queries[block]):
                attended = keys[block][members[block, place]]
                assert (attended >= 0).all()
                if query < 0:
                    assert len(attended) == 0
                else:
                    np.add.at(found[query], attended, 1)
        expected = np.zeros((length, length), dtype=bool)
        for token in range(own):
            expected[token, [near for near in neighbors[row, token] if near >= 0]] = True
            if window is not None:
                expected[token, max(0, token - 3) : min(own, token + 4)] = True
        assert np.array_equal(found, expected.astype(int))
        placed = queries[queries >= 0]
        assert len(placed) == len(set(placed.tolist())) == own


def test_blocks_of_a_page_share_their_neighbours() -> None:
    """The union of 64 neighbourhoods of 128 tokens is small where the tokens stand together."""
    place = np.arange(4096)
    centers = np.stack([place % 12 * 80_000, place // 12 * 20_000], 1)
    near, order = nearest_tokens(centers, 128), morton_order(centers)
    keys = neighbor_tables(near[None], order[None], np.array([4096]))["block_keys"]
    shuffled = np.random.default_rng(0).permutation(4096)
    anywhere = neighbor_tables(near[None], shuffled[None], np.array([4096]))["block_keys"]
    assert (keys >= 0).sum(-1).mean() < 450 < (anywhere >= 0).sum(-1).mean()
