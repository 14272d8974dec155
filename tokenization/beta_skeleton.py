"""
The beta-skeleton of points with beta = 1, that is the Gabriel graph: the ball-of-sight graph of FormNet (section 3.3).

Two points are linked where no other lies inside or on the circle whose diameter is the line between them. On distinct
points that graph is connected, and holds their minimum spanning trees; it is a part of the Delaunay triangulation,
through which it is found in O(n log n). The repair of connectivity and the cap of neighbours are functions of their
own.
"""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import Delaunay, QhullError, cKDTree

# The cosine below which an angle counts as right: the four corners of a square given in decimals lie on one circle.
RIGHT_ANGLE = 1e-9
# Points whose distance from a line is a smaller share of their extent lie on it.
FLAT = 1e-9


def beta_skeleton(centers: np.ndarray) -> np.ndarray:
    """
    The Gabriel graph of points, by the closed-ball test.

    Args:
        centers: `[N, 2]`, finite, in any unit that is the same for x and y.

    Returns:
        int64 `[E, 2]`, each edge (i, j) once, i < j, in ascending order. Points that coincide count as one: the first
        of them has its edges, and each of the others is linked to the one before it.
    """
    centers = np.asarray(centers, dtype=np.float64).reshape(-1, 2)
    if len(centers) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    distinct, inverse = np.unique(centers, axis=0, return_inverse=True)
    # The points in order of their place, those of one place in their own order.
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    firsts = order[starts]
    repeated = np.setdiff1d(np.arange(1, len(order)), starts, assume_unique=True)
    links = np.stack([order[repeated - 1], order[repeated]], axis=1)
    return _sorted(np.concatenate([links, firsts[_gabriel_graph(distinct)]]))


def _gabriel_graph(points: np.ndarray) -> np.ndarray:
    """The edges `[E, 2]` of distinct points `[N, 2]`."""
    if len(points) < 3:
        return np.arange(len(points))[None] if len(points) == 2 else np.zeros((0, 2), dtype=np.int64)
    points = points - points.mean(axis=0)
    along = _line_order(points)
    if along is not None:
        return np.stack([along[:-1], along[1:]], axis=1)
    try:
        triangulation = Delaunay(points)
    except QhullError:
        # Flatter than Qhull can work with, though not flat: a line after all.
        along = np.lexsort(points.T[np.argsort(np.ptp(points, axis=0))])
        return np.stack([along[:-1], along[1:]], axis=1)
    triangles = triangulation.simplices
    edges, opposite = [], []
    for corner in range(3):
        edges.append(triangles[:, [(corner + 1) % 3, (corner + 2) % 3]])
        opposite.append(triangles[:, corner])
    pairs, third = np.concatenate(edges), np.concatenate(opposite)
    # An edge of the triangulation is one of the graph where neither triangle at it has a right or blunt angle there.
    first, second = points[pairs[:, 0]] - points[third], points[pairs[:, 1]] - points[third]
    cosine = (first * second).sum(axis=1)
    sharp = cosine > RIGHT_ANGLE * np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    keys, inverse = np.unique(pairs[:, 0] * len(points) + pairs[:, 1], return_inverse=True)
    stands = np.ones(len(keys), dtype=bool)
    stands[inverse[~sharp]] = False
    found = np.stack(np.divmod(keys[stands], len(points)), axis=1)
    # Points nearer to another than Qhull tells apart are left out of the triangulation: they belong to that other.
    dropped = triangulation.coplanar[:, [0, 2]].astype(np.int64)
    return np.concatenate([found, dropped]) if len(dropped) else found


def _line_order(points: np.ndarray) -> np.ndarray | None:
    """The order of centred points `[N, 2]` along the line that they lie on; None where they lie on none."""
    farthest = points[np.argmax((points**2).sum(axis=1))]
    extent = np.hypot(*farthest)
    across = points @ np.array([-farthest[1], farthest[0]]) / extent
    return np.argsort(points @ farthest, kind="stable") if np.abs(across).max() <= FLAT * extent else None


def connect_components(edges: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """
    Add the shortest links between parts that are not connected.

    Args:
        edges: int64 `[E, 2]`.
        centers: `[N, 2]`.

    Returns:
        The edges `[E', 2]` of a connected graph, as `beta_skeleton` returns them; the same where it was connected.
    """
    centers = np.asarray(centers, dtype=np.float64).reshape(-1, 2)
    while True:
        count, part = connected_components(_matrix(edges, np.ones(len(edges)), len(centers)), directed=False)
        if count < 2:
            return edges
        smallest = part == np.bincount(part).argmin()
        inside, outside = np.flatnonzero(smallest), np.flatnonzero(~smallest)
        distance, nearest = cKDTree(centers[outside]).query(centers[inside])
        closest = int(distance.argmin())
        link = sorted((int(inside[closest]), int(outside[nearest[closest]])))
        edges = _sorted(np.concatenate([edges, [link]]))


def limit_neighbors(edges: np.ndarray, centers: np.ndarray, limit: int = 8) -> np.ndarray:
    """
    The neighbours of each point, at most `limit` of them.

    What a point keeps first: links to points that coincide with it, then edges of the minimum spanning tree, then the
    shortest. An edge may be kept by one end alone. A tree has at most six edges at a point and a chain of coinciding
    points two, so that with eight or more both ends keep all of these, and what was connected stays connected.

    Args:
        edges: int64 `[E, 2]`, of a connected graph.
        centers: `[N, 2]`.
        limit: the most neighbours of a point.

    Returns:
        int64 `[N, limit]`, -1 for none, in the order in which they are kept.
    """
    centers = np.asarray(centers, dtype=np.float64).reshape(-1, 2)
    neighbors = np.full((len(centers), limit), -1, dtype=np.int64)
    if len(edges) == 0:
        return neighbors
    length = np.hypot(*(centers[edges[:, 0]] - centers[edges[:, 1]]).T)
    apart = length > 0
    tree = minimum_spanning_tree(_matrix(edges[apart], length[apart], len(centers))).tocoo()
    in_tree = np.isin(_keys(edges, len(centers)), _keys(np.stack([tree.row, tree.col], axis=1), len(centers)))
    rank = np.where(apart, np.where(in_tree, 1, 2), 0)
    source, target = np.concatenate([edges, edges[:, ::-1]]).T
    order = np.lexsort((target, np.tile(length, 2), np.tile(rank, 2), source))
    source, target = source[order], target[order]
    slot = np.arange(len(source)) - np.searchsorted(source, source)
    kept = slot < limit
    neighbors[source[kept], slot[kept]] = target[kept]
    return neighbors


def _matrix(edges: np.ndarray, weights: np.ndarray, size: int) -> coo_array:
    # Indices of 32 bits: what csgraph works with without a copy.
    rows, columns = np.asarray(edges, dtype=np.int32).reshape(-1, 2).T
    return coo_array((weights, (rows, columns)), shape=(size, size)).tocsr()


def _keys(edges: np.ndarray, size: int) -> np.ndarray:
    edges = np.sort(np.asarray(edges, dtype=np.int64).reshape(-1, 2), axis=1)
    return edges[:, 0] * size + edges[:, 1]


def _sorted(edges: np.ndarray) -> np.ndarray:
    """Each edge once, the smaller index first, in ascending order."""
    if len(edges) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    return np.unique(np.sort(edges.astype(np.int64), axis=1), axis=0)
