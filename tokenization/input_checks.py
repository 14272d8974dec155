"""Checks of a document's words, boxes and pages, made before any computation."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class InputError(ValueError):
    """Input that cannot be used. The message is one sentence: what is wrong, where, and what to do about it."""


def check_document(
    words: Sequence[str],
    boxes: Any,
    page_ids: Any = None,
    page_sizes: Any = None,
    name: str = "the document",
) -> None:
    """
    Check the parts of one document against each other.

    Args:
        words: the words in reading order, at least one.
        boxes: one (x0, y0, x1, y1) per word, x to the right, y down, none negative; zero-sized boxes are fine.
        page_ids: the page of each word, ascending from 0; all words stand on page 0 when omitted.
        page_sizes: (width, height) of each page, in the unit of the boxes.
        name: how messages call the document.

    Raises:
        InputError: at the first fault, naming the word or page.
    """
    check_words(words, name)
    check_boxes(boxes, words, name)
    check_pages(page_ids, page_sizes, words, name)


def check_words(words: Sequence[str], name: str = "the document") -> None:
    """Raise `InputError` where there are no words, or something among them that is no string."""
    if isinstance(words, str):
        raise InputError(f"The words of {name} are one string; split it into a list of words.")
    if words is None or len(words) == 0:
        raise InputError(f"{start_sentence(name)} has no words; leave it out, or read its pages with OCR.")
    for index, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"Word {index} of {name} is {word!r}, not a string; convert it with str().")


def check_boxes(boxes: Any, words: Sequence[str], name: str = "the document") -> None:
    """
    Raise `InputError` where boxes are missing or of another count than the words, or at the first box that is no
    (x0, y0, x1, y1), not finite, negative or with swapped corners.
    """
    array = box_array(boxes, words, name)
    if ((array >= 0) & (array < np.inf)).all() and (array[:, 2:] >= array[:, :2]).all():
        return
    for faulty, fault, remedy in (
        (~np.isfinite(array).all(axis=1), "is not finite", "correct it or leave the word out"),
        ((array < 0).any(axis=1), "has a negative coordinate", "pass clip_boxes=True to move it to the page's edge"),
        (
            (array[:, 2:] < array[:, :2]).any(axis=1),
            "has swapped corners",
            "boxes are (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1",
        ),
    ):
        if faulty.any():
            index = int(faulty.argmax())
            raise InputError(
                f"The box {array[index].tolist()} of {describe_word(words, index)} of {name} {fault}; {remedy}."
            )


def box_array(boxes: Any, words: Sequence[str], name: str = "the document") -> np.ndarray:
    """The boxes as float64 `[words, 4]`; `InputError` where they are not one row of four numbers for each word."""
    if boxes is None:
        raise InputError(
            f"{start_sentence(name)} has no boxes; pass boxes=[[x0, y0, x1, y1], ...], one for each word."
        )
    if not hasattr(boxes, "__len__"):
        raise InputError(f"The boxes of {name} are {boxes!r}; pass boxes=[[x0, y0, x1, y1], ...], one for each word.")
    if len(boxes) != len(words):
        raise InputError(
            f"{start_sentence(name)} has {len(words)} words but {len(boxes)} boxes; "
            "pass exactly one box for each word."
        )
    try:
        array = np.asarray(boxes, dtype=np.float64)
        if array.shape == (len(words), 4):
            return array
    except (TypeError, ValueError):
        pass
    for index, box in enumerate(boxes):
        if not _is_box(box):
            raise InputError(
                f"The box of {describe_word(words, index)} of {name} is {box!r}; "
                "a box has four numbers (x0, y0, x1, y1)."
            )
    return np.asarray([[float(value) for value in box] for box in boxes], dtype=np.float64)


def check_pages(page_ids: Any, page_sizes: Any, words: Sequence[str], name: str = "the document") -> None:
    """Raise `InputError` where page ids and page sizes fit neither the words nor each other; both may be omitted."""
    if page_sizes is not None:
        _check_page_sizes(page_sizes, name)
    if page_ids is None:
        return
    if len(page_ids) != len(words):
        raise InputError(
            f"{start_sentence(name)} has {len(words)} words but {len(page_ids)} page ids; "
            "pass exactly one for each word."
        )
    if page_sizes is None:
        raise InputError(
            f"{start_sentence(name)} has page_ids but no page_sizes; pass page_sizes=[(width, height), ...]."
        )
    pages = np.asarray(page_ids)
    if pages.ndim != 1 or not np.issubdtype(pages.dtype, np.integer):
        index = next((i for i, page in enumerate(page_ids) if not isinstance(page, int | np.integer)), 0)
        raise InputError(
            f"The page id of {describe_word(words, index)} of {name} is {page_ids[index]!r}; "
            "page ids are whole numbers from 0."
        )
    outside = (pages < 0) | (pages >= len(page_sizes))
    if outside.any():
        index = int(outside.argmax())
        raise InputError(
            f"{start_sentence(name)} puts {describe_word(words, index)} on page {pages[index]}, but page_sizes has "
            f"{len(page_sizes)} pages (numbered from 0); correct the page id or add the page's size."
        )
    falling = np.diff(pages) < 0
    if falling.any():
        index = int(falling.argmax()) + 1
        raise InputError(
            f"The page ids of {name} fall from {pages[index - 1]} to {pages[index]} at {describe_word(words, index)}; "
            "sort the words by page."
        )


def _check_page_sizes(page_sizes: Any, name: str) -> None:
    for page, size in enumerate(page_sizes):
        if np.shape(size) != (2,) or not all(_is_number(length) and 0 < length < float("inf") for length in size):
            shown = tuple(size) if hasattr(size, "__len__") else size
            raise InputError(
                f"Page {page} of {name} has the size {shown!r}; a size is (width, height), both above zero."
            )


def _is_box(box: Any) -> bool:
    return hasattr(box, "__len__") and len(box) == 4 and all(_is_number(value) for value in box)


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and not isinstance(value, str | bytes) and hasattr(value, "__float__")


def describe_word(words: Sequence[str], index: int) -> str:
    """How a message names a word: its index and its text, shortened to 30 characters."""
    text = words[index] if len(words[index]) <= 30 else words[index][:27] + "..."
    return f"word {index} ({text!r})"


def start_sentence(name: str) -> str:
    """The name of a document with a capital letter."""
    return name[:1].upper() + name[1:]
