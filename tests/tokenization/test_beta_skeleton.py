import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from broadsheet.tokenization.beta_skeleton import beta_skeleton, connect_components, limit_neighbors
from broadsheet.tokenization.token_graph import token_graph, word_graph


def brute_force(centers):
    """Edges between distinct points by the definition: no other on or in the circle over them."""
    edges = []
    for i in range(len(centers)):
        for j in range(i + 1, len(centers)):
            to_ends = ((centers[i] - centers) * (centers[j] - centers)).sum(axis=1)
            to_ends[[i, j]] = 1
            if (to_ends > 0).all():
                edges.append((i, j))
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def is_connected(edges, count):
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[0] == 1


def kept_edges(neighbors):
    rows, slots = np.nonzero(neighbors >= 0)
    return np.stack([rows, neighbors[rows, slots]], axis=1)


def random_points(count, seed=0):
    return np.random.default_rng(seed).random((count, 2)) * 1000


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 20, 150])
@pytest.mark.parametrize("seed", range(8))
def test_equals_brute_force_on_random_points(count, seed):
    points = random_points(count, seed)
    np.testing.assert_array_equal(beta_skeleton(points), brute_force(points))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40, unique=True))
def test_equals_brute_force_on_a_lattice_and_is_connected(places):
    """Right angles, cocircular and collinear points everywhere."""
    points = np.array(places, dtype=float)
    edges = beta_skeleton(points)
    np.testing.assert_array_equal(edges, brute_force(points))
    assert is_connected(edges, len(points))


@pytest.mark.parametrize("step", [1.0, 0.1, 7.3, 1 / 3])
def test_a_grid_has_no_diagonals(step):
    rows, columns = np.indices((20, 20)).reshape(2, -1)
    edges = beta_skeleton(np.stack([columns, rows], axis=1) * step)
    assert len(edges) == 2 * 20 * 19
    lengths = np.abs(rows[edges[:, 0]] - rows[edges[:, 1]]) + np.abs(columns[edges[:, 0]] - columns[edges[:, 1]])
    assert (lengths == 1).all()


@pytest.mark.parametrize("direction", [(1, 0), (0, 1), (3, 7), (0.1, 0.3)])
def test_a_line_is_a_path(direction):
    order = np.random.default_rng(1).permutation(30)
    edges = beta_skeleton(order[:, None] * np.array(direction))
    place = np.argsort(order)
    expected = np.sort(np.stack([place[:-1], place[1:]], axis=1), axis=1)
    np.testing.assert_array_equal(edges, expected[np.lexsort(expected.T[::-1])])


def test_few_points():
    assert beta_skeleton(np.zeros((0, 2))).shape == (0, 2)
    assert beta_skeleton(np.array([[3.0, 4]])).shape == (0, 2)
    np.testing.assert_array_equal(beta_skeleton(np.array([[3.0, 4], [1, 2]])), [[0, 1]])
    np.testing.assert_array_equal(beta_skeleton(np.array([[3.0, 4], [3, 4]])), [[0, 1]])


def test_coinciding_points_are_a_chain_and_the_first_has_the_edges():
    points = np.array([[0.0, 0], [5, 0], [0, 0], [9, 3], [0, 0], [5, 0]])
    edges = beta_skeleton(points)
    distinct = brute_force(points[[0, 1, 3]])
    links = np.array([[0, 2], [2, 4], [1, 5]])
    expected = np.concatenate([np.array([0, 1, 3])[distinct], links])
    np.testing.assert_array_equal(edges, expected[np.lexsort(expected.T[::-1])])
    assert is_connected(edges, 6)


def test_all_coincide():
    edges = beta_skeleton(np.full((50, 2), 2.5))
    np.testing.assert_array_equal(edges, np.stack([np.arange(49), np.arange(1, 50)], axis=1))


@pytest.mark.parametrize("apart", [1e-7, 1e-10, 1e-13])
def test_points_hardly_apart_stay_connected(apart):
    points = np.concatenate([random_points(60), random_points(60) + apart])
    edges = connect_components(beta_skeleton(points), points)
    assert is_connected(edges, 120)


def test_nearly_flat_points_stay_connected():
    line = np.linspace(0, 1000, 40)
    for height in (1e-14, 1e-9, 1e-6, 1e-3):
        points = np.stack([line, height * np.sin(line)], axis=1)
        assert is_connected(connect_components(beta_skeleton(points), points), 40)


def test_repair_links_parts_by_their_nearest_points():
    points = np.array([[0.0, 0], [1, 0], [4, 0], [5, 0], [5, 3]])
    edges = connect_components(np.array([[0, 1], [2, 3]]), points)
    np.testing.assert_array_equal(edges, [[0, 1], [1, 2], [2, 3], [3, 4]])
    np.testing.assert_array_equal(connect_components(edges, points), edges)


def hub(count=12):
    """A point with `count` on a circle around it, each near another circle's."""
    angles = np.arange(count) * 2 * np.pi / count
    return np.concatenate([np.zeros((1, 2)), 100 * np.stack([np.cos(angles), np.sin(angles)], axis=1)])


def test_at_most_eight_neighbours_also_at_hubs():
    points = hub()
    edges = beta_skeleton(points)
    assert np.bincount(edges.ravel(), minlength=13)[0] == 12
    neighbors = limit_neighbors(edges, points)
    assert (neighbors >= 0).sum(axis=1).max() == 8
    assert is_connected(kept_edges(neighbors), 13)


def test_priorities():
    """Coinciding points first, then the tree, then what is nearest."""
    points = np.concatenate([hub(), np.zeros((2, 2)), [[30.0, 3.0]]])
    edges = beta_skeleton(points)
    neighbors = limit_neighbors(edges, points)
    assert neighbors[0, 0] == 13
    assert set(neighbors[13][neighbors[13] >= 0]) == {0, 14}
    lengths = np.linalg.norm(points[neighbors[0]] - points[0], axis=1)
    assert neighbors[0, 1] == 15
    assert lengths[0] == 0
    assert (lengths[1:] > 0).all()
    assert is_connected(kept_edges(neighbors), len(points))


@pytest.mark.parametrize("seed", range(5))
def test_the_cap_leaves_pages_connected(seed):
    generator = np.random.default_rng(seed)
    points = generator.integers(0, 15, (150, 2)).astype(float)
    edges = beta_skeleton(points)
    neighbors = limit_neighbors(edges, points)
    assert is_connected(edges, 150)
    assert is_connected(kept_edges(neighbors), 150)
    known = {tuple(edge) for edge in edges.tolist()}
    assert all(tuple(sorted(edge)) in known for edge in kept_edges(neighbors).tolist())


def test_ten_thousand_words():
    centers = random_points(10_000)
    boxes = np.concatenate([centers, centers], axis=1)
    edges, neighbors = word_graph(boxes, np.zeros(10_000, dtype=int))
    assert is_connected(kept_edges(neighbors), 10_000)
    # Of some words all edges by the definition: every other word, each against all words.
    for word in (0, 2500, 9999):
        from_word = centers - centers[word]
        inside = np.zeros(10_000, dtype=bool)
        for part in np.array_split(np.arange(10_000), 20):
            # The angle over the edge word-other is not acute at third: (word - third) (other - third) <= 0.
            products = (from_word**2).sum(axis=1)[None] - from_word[part] @ from_word.T
            products[:, word] = 1
            products[np.arange(len(part)), part] = 1
            inside[part] = (products <= 0).any(axis=1)
        inside[word] = True
        found = np.concatenate([edges[edges[:, 0] == word, 1], edges[edges[:, 1] == word, 0]])
        assert sorted(found) == np.flatnonzero(~inside).tolist()


def test_pages_are_graphs_of_their_own():
    boxes = np.repeat(random_points(40), 2, axis=1)[:, [0, 2, 1, 3]]
    pages = np.repeat([0, 1, 3], [20, 19, 1])
    edges, neighbors = word_graph(boxes, pages)
    assert (pages[edges[:, 0]] == pages[edges[:, 1]]).all()
    for page in (0, 1):
        words = np.flatnonzero(pages == page)
        np.testing.assert_array_equal(edges[pages[edges[:, 0]] == page] - words[0], brute_force(boxes[words, :2]))
        assert is_connected(edges[pages[edges[:, 0]] == page] - words[0], len(words))
    assert (neighbors[39] == -1).all()


def test_tokens_first_pieces_carry_the_words_and_pieces_are_chained():
    word_ids = np.array([-1, 4, 4, 4, 5, 6, 6, -1])
    boxes = np.zeros((7, 4))
    boxes[4:] = [[0, 0, 30, 10], [40, 0, 50, 10], [0, 20, 30, 30]]
    neighbors = token_graph(word_ids, np.where(word_ids < 0, -1, 0), boxes)
    assert neighbors.shape == (8, 10)
    assert neighbors.dtype == np.int32
    words = [set(row[row >= 0].tolist()) for row in neighbors[:, :8]]
    # Words 4 and 5, 4 and 6 are linked; from 5 to 6 the circle holds 4.
    assert words == [set(), {4, 5}, set(), set(), {1}, {1}, set(), set()]
    assert neighbors[:, 8].tolist() == [-1, -1, 1, 2, -1, -1, 5, -1]
    assert neighbors[:, 9].tolist() == [-1, 2, 3, -1, -1, 6, -1, -1]


def test_a_window_without_words():
    assert (token_graph(np.array([-1, -1]), np.array([-1, -1]), np.zeros((3, 4))) == -1).all()
