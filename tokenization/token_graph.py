"""The graph that FormNet's super-tokens are made on: words by their beta-skeleton, the pieces of a word as a chain."""

import numpy as np

from .beta_skeleton import beta_skeleton, connect_components, limit_neighbors

WORD_NEIGHBORS, CHAIN_LINKS = 8, 2


def word_graph(boxes: np.ndarray, page_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    The beta-skeleton of the words' centres on each page, connected on each page as an undirected graph.

    Args:
        boxes: `[W, 4]`, in a unit that is the same for x and y.
        page_ids: int `[W]`.

    Returns:
        The edges int64 `[E, 2]`, and the neighbours int64 `[W, 8]` that `limit_neighbors` leaves, -1 for none.
    """
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    neighbors = np.full((len(boxes), WORD_NEIGHBORS), -1, dtype=np.int64)
    found = [np.zeros((0, 2), dtype=np.int64)]
    for page in np.unique(page_ids):
        words = np.flatnonzero(np.asarray(page_ids) == page)
        edges = connect_components(beta_skeleton(centers[words]), centers[words])
        kept = limit_neighbors(edges, centers[words], WORD_NEIGHBORS)
        neighbors[words] = np.where(kept >= 0, words[kept], -1)
        found.append(words[edges])
    return np.concatenate(found), neighbors


def token_graph(word_ids: np.ndarray, page_ids: np.ndarray, word_boxes: np.ndarray) -> np.ndarray:
    """
    The neighbours of the tokens of a window: the word's edges at its first piece, and the pieces before and after.

    Args:
        word_ids: int `[N]`, the word of each token, ascending; -1 for tokens of no word, which have no neighbours.
        page_ids: int `[N]`.
        word_boxes: `[words, 4]` of all words of the document, in a unit that is the same for x and y.

    Returns:
        int32 `[N, 10]`, places of tokens, -1 for none: eight for the edges of words, then the piece before and the one
        after. Only words of the window are linked.
    """
    neighbors = np.full((len(word_ids), WORD_NEIGHBORS + CHAIN_LINKS), -1, dtype=np.int32)
    tokens = np.flatnonzero(word_ids >= 0)
    if len(tokens) == 0:
        return neighbors
    words = word_ids[tokens]
    is_first = np.diff(words, prepend=-1) != 0
    firsts = tokens[is_first]
    _, kept = word_graph(word_boxes[word_ids[firsts]], page_ids[firsts])
    neighbors[firsts, :WORD_NEIGHBORS] = np.where(kept >= 0, firsts[kept], -1)
    later = np.flatnonzero(~is_first)
    neighbors[tokens[later], WORD_NEIGHBORS] = tokens[later - 1]
    neighbors[tokens[later - 1], WORD_NEIGHBORS + 1] = tokens[later]
    return neighbors
