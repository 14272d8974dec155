"""The five masks of one document, each word taken as one token."""

from typing import NamedTuple

import numpy as np
import torch

from broadsheet.documents import Document
from broadsheet.modeling.random_blocks import dense_blocks, draw_random_blocks, random_blocks
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.page_stacking import stack_pages
from broadsheet.tokenization.spatial_neighbors import grid_centers, nearest_tokens

PATTERNS = {
    "sliding_window": "SW",
    "sliding_window_random": "SW+RAND",
    "distance": "DISTANCE",
    "distance_sliding_window": "DISTANCE+SW",
    "union": "union",
}
"""The patterns, and what the paper calls them."""


class PatternMask(NamedTuple):
    """
    Who attends to whom.

    Attributes:
        pattern: a key of `PATTERNS`.
        scores: bool `[words, words]`, row i marks the words whose keys word i's query meets.
        values: bool `[words, words]`, the words whose values it reads; the same but under DISTANCE+SW.
    """

    pattern: str
    scores: np.ndarray
    values: np.ndarray


def pattern_masks(
    document: Document,
    neighbors: int = 128,
    window: int = 512,
    length: int = 2048,
    block_size: int = 64,
    blocks: int = 3,
    seed: int = 0,
) -> list[PatternMask]:
    """
    The masks of all patterns.

    Args:
        document: of which the first `length` words are shown.
        neighbors: nearest words of a word, itself included.
        window: words around a word, half before and half after it; even.
        length: words at most.
        block_size: words of a block of SW+RAND.
        blocks: random blocks of each block; those of the first head are shown.
        seed: what these are drawn from.

    Raises:
        InputError: a number that no pattern can have.
    """
    for name, number, least in (
        ("neighbors", neighbors, 1),
        ("window", window, 2),
        ("length", length, 1),
        ("block_size", block_size, 1),
        ("blocks", blocks, 0),
    ):
        if number < least or (name == "window" and number % 2):
            even = "an even number " if name == "window" else ""
            raise InputError(f"{name} is {number}; pass {even}from {least} up.")
    count = min(length, len(document))
    boxes = np.asarray(document.boxes[:count], dtype=np.float64)
    pages = np.asarray(document.page_ids[:count])
    stacked, width, _ = stack_pages(boxes, pages, np.asarray(document.page_sizes, dtype=np.float64))
    centers = grid_centers(stacked, width)
    place = np.arange(count)
    sliding = np.abs(place[:, None] - place) <= window // 2
    drawn = draw_random_blocks(-(-count // block_size), 1, blocks, seed)
    pattern = random_blocks(torch.tensor([count]), count, block_size, [drawn])
    near = _mark(nearest_tokens(centers, neighbors), count)
    # The k-th score meets the k-th value: slots outside the document have no part in either.
    slots = place[:, None] + np.arange(window + 1) - window // 2
    inside = (slots >= 0) & (slots < count)
    crossed = np.where(inside, nearest_tokens(centers, window + 1), -1)
    masks = {
        "sliding_window": (sliding, sliding),
        "sliding_window_random": (dense_blocks(pattern, count)[0, 0].numpy() > 0,) * 2,
        "distance": (near, near),
        "distance_sliding_window": (_mark(crossed, count), _mark(np.where(crossed >= 0, slots, -1), count)),
        "union": (near | sliding,) * 2,
    }
    return [PatternMask(name, *masks[name]) for name in PATTERNS]


def _mark(index: np.ndarray, count: int) -> np.ndarray:
    """`[words, n]`, -1 for none -> bool `[words, words]`."""
    mask = np.zeros((count, count + 1), dtype=bool)
    mask[np.arange(count)[:, None], index] = True
    return mask[:, :count]
