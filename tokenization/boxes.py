"""
Geometry of word boxes: checks of their range, clipping, integer grids, and the boxes of sub-words.

Boxes are float64 arrays `[N, 4]` of (x0, y0, x1, y1): origin at the page's upper left, x to the right, y down, in the
unit of the page sizes `[pages, 2]` of (width, height). A page id of -1 marks a token that stands on no page (special
tokens, padding, a question); its box is [0, 0, 0, 0].
"""

import logging
from collections.abc import Sequence

import numpy as np

from .input_checks import InputError, describe_word

logger = logging.getLogger(__name__)

# How far a box may overhang its page and still count as rounding: less than a thousandth of the page's side.
OVERHANG = 1e-3


def check_within_pages(
    boxes: np.ndarray,
    page_ids: np.ndarray,
    page_sizes: np.ndarray,
    words: Sequence[str],
    name: str = "the document",
) -> None:
    """
    Raise `InputError` at the first box that overhangs its page by a thousandth of the page's side or more.

    Args:
        boxes: `[N, 4]`, in the unit of `page_sizes`.
        page_ids: `[N]`, from 0.
        page_sizes: `[pages, 2]`, (width, height).
        words: the N words, for the message.
        name: how the message calls the document.
    """
    sizes = page_sizes[page_ids]
    outside = (boxes[:, 2:] >= sizes * (1 + OVERHANG)).any(axis=1)
    if outside.any():
        index = int(outside.argmax())
        page = int(page_ids[index])
        width, height = page_sizes[page].tolist()
        raise InputError(
            f"The box {boxes[index].tolist()} of {describe_word(words, index)} of {name} reaches beyond its page "
            f"{page} of width {width:g} and height {height:g}; correct the box or the page's size, or pass "
            "clip_boxes=True to move it to the page's edge."
        )


def check_in_range(
    boxes: np.ndarray, largest: int, words: Sequence[str], name: str = "the document", integer: bool = True
) -> None:
    """
    Raise `InputError` at the first box outside 0..`largest`, the range of boxes given without page sizes; also where
    a grid of whole numbers is wanted (`integer`) and all boxes are fractions between 0 and 1.
    """
    outside = (boxes > largest).any(axis=1)
    if outside.any():
        index = int(outside.argmax())
        raise InputError(
            f"The box {boxes[index].tolist()} of {describe_word(words, index)} of {name} is outside the model's "
            f"range 0..{largest}; pass page_sizes=[(width, height), ...] so that boxes are normalised."
        )
    if integer and boxes.size and boxes.max() <= 1 and (boxes != np.floor(boxes)).any():
        index = int((boxes != np.floor(boxes)).any(axis=1).argmax())
        raise InputError(
            f"The box {boxes[index].tolist()} of {describe_word(words, index)} of {name} is a fraction of the page, "
            f"but the model's range is 0..{largest}; pass page_sizes=[(1, 1), ...] so that boxes are normalised."
        )


def clip_boxes(
    boxes: np.ndarray, page_ids: np.ndarray, page_sizes: np.ndarray | None, largest: tuple[float, float]
) -> tuple[np.ndarray, int]:
    """
    Move coordinates outside the page to its edge.

    Args:
        boxes: `[N, 4]`; what is not finite stays as it is, so that the checks find it.
        page_ids: `[N]`.
        page_sizes: `[pages, 2]`, or None.
        largest: (width, height) of the page where there are no page sizes.

    Returns:
        The clipped boxes `[N, 4]` and how many of them were changed.
    """
    limits = np.full((len(boxes), 2), largest, dtype=np.float64) if page_sizes is None else page_sizes[page_ids]
    limits = np.concatenate([limits, limits], axis=1)
    clipped = np.where(np.isfinite(boxes), np.clip(boxes, 0, limits), boxes)
    changed = int(((clipped != boxes) & np.isfinite(boxes)).any(axis=1).sum())
    return clipped, changed


def grid_boxes(boxes: np.ndarray, page_ids: np.ndarray, page_sizes: np.ndarray | None, largest: int) -> np.ndarray:
    """
    Boxes on the integer grid 0..`largest` of their page: floor(largest * x / width), floor(largest * y / height).

    Args:
        boxes: `[N, 4]`, in the unit of `page_sizes`, or already on the grid when there are none.
        page_ids: `[N]`, -1 for tokens on no page.
        page_sizes: `[pages, 2]` or None.
        largest: the largest coordinate, 1000 or 1023.

    Returns:
        int64 `[N, 4]`; a box that overhangs its page by rounding lies on the page's edge.
    """
    if page_sizes is not None:
        sizes = page_sizes[np.maximum(page_ids, 0)]
        boxes = largest * boxes / np.concatenate([sizes, sizes], axis=1)
    return np.minimum(np.floor(boxes), largest).astype(np.int64)


def split_boxes(
    boxes: np.ndarray, starts: np.ndarray, word_starts: np.ndarray, word_lengths: np.ndarray
) -> np.ndarray:
    """
    Give each sub-word its share of the word's box along the line, by the characters it covers.

    The pieces of a word tile its box from left to right: a piece begins at its first character and ends where the next
    piece begins, characters that the tokenizer dropped included. Pieces that begin at the same character (bytes of one
    character, empty intervals) share one box, at least one character wide.

    Args:
        boxes: `[T, 4]`, the box of the word each sub-word belongs to.
        starts: `[T]`, the first character of each sub-word in its word.
        word_starts: `[T]` bool, True at the first sub-word of each word.
        word_lengths: `[T]`, the characters of the word each sub-word belongs to.

    Returns:
        float64 `[T, 4]`.
    """
    if len(boxes) == 0:
        return boxes
    lengths = np.maximum(word_lengths, 1)
    word = np.cumsum(word_starts) - 1
    begin = np.where(word_starts, 0, np.clip(starts, 0, lengths - 1))
    # A running maximum within each word: normalisation may reorder characters, boxes may not run backwards.
    room = int(lengths.max()) + 1
    begin = np.maximum.accumulate(begin + word * room) - word * room
    group_starts = word_starts | np.concatenate([[True], begin[1:] != begin[:-1]])
    group = np.cumsum(group_starts) - 1
    firsts = np.flatnonzero(group_starts)
    last_of_word = np.append(word_starts[firsts[1:]], True)
    ends = np.where(last_of_word, lengths[firsts], np.append(begin[firsts[1:]], 0))
    left, right = begin / lengths, ends[group] / lengths
    width = boxes[:, 2] - boxes[:, 0]
    split = boxes.copy()
    split[:, 0] = boxes[:, 0] + left * width
    # The last piece ends exactly where the word does.
    split[:, 2] = np.where(ends[group] == lengths, boxes[:, 2], boxes[:, 0] + right * width)
    return split
