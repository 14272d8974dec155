"""Checks of a document's words, boxes and pages, made before any computation."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class InputError(ValueError):
    """Input that cannot be used. The message is one sentence: what is wrong, where, and what to do about it."""


def check_document(
    words: Sequence[str],
    boxes: Any,
    page_ids: Sequence[int] | None = None,
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
    if isinstance(words, str):
        raise InputError(f"The words of {name} are one string; split it into a list of words.")
    if len(words) == 0:
        raise InputError(f"{_start(name)} has no words; leave it out, or read its pages with OCR.")
    for index, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"Word {index} of {name} is {word!r}, not a string; convert it with str().")
    if boxes is None:
        raise InputError(f"{_start(name)} has no boxes; pass boxes=[[x0, y0, x1, y1], ...], one for each word.")
    if len(boxes) != len(words):
        raise InputError(
            f"{_start(name)} has {len(words)} words but {len(boxes)} boxes; pass exactly one box for each word."
        )
    check_boxes(boxes, words, name)
    if page_ids is not None:
        _check_pages(words, page_ids, page_sizes, name)
    elif page_sizes is not None:
        _check_page_sizes(page_sizes, name)


def check_boxes(boxes: Any, words: Sequence[str], name: str = "the document") -> None:
    """Raise `InputError` at the first box that is no (x0, y0, x1, y1), not finite, negative or with swapped corners."""
    try:
        array = np.asarray(boxes, dtype=np.float64).reshape(len(words), 4)
    except (TypeError, ValueError):
        for index, box in enumerate(boxes):
            if np.shape(box) != (4,) or not np.issubdtype(np.asarray(box).dtype, np.number):
                raise InputError(
                    f"The box of {_word(words, index)} of {name} is {box!r}; a box has four numbers (x0, y0, x1, y1)."
                ) from None
        raise
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
            raise InputError(f"The box {array[index].tolist()} of {_word(words, index)} of {name} {fault}; {remedy}.")


def _check_pages(words: Sequence[str], page_ids: Sequence[int], page_sizes: Any, name: str) -> None:
    if len(page_ids) != len(words):
        raise InputError(
            f"{_start(name)} has {len(words)} words but {len(page_ids)} page ids; pass exactly one for each word."
        )
    if page_sizes is None:
        raise InputError(f"{_start(name)} has page_ids but no page_sizes; pass page_sizes=[(width, height), ...].")
    _check_page_sizes(page_sizes, name)
    previous = 0
    for index, page in enumerate(page_ids):
        if not 0 <= page < len(page_sizes):
            raise InputError(
                f"{_start(name)} puts {_word(words, index)} on page {page}, but page_sizes has "
                f"{len(page_sizes)} pages (numbered from 0); correct the page id or add the page's size."
            )
        if page < previous:
            raise InputError(
                f"The page ids of {name} fall from {previous} to {page} at {_word(words, index)}; "
                "sort the words by page."
            )
        previous = page


def _check_page_sizes(page_sizes: Any, name: str) -> None:
    for page, size in enumerate(page_sizes):
        if len(size) != 2 or not all(np.isfinite(length) and length > 0 for length in size):
            raise InputError(
                f"Page {page} of {name} has the size {tuple(size)}; a size is (width, height), both above zero."
            )


def _word(words: Sequence[str], index: int) -> str:
    text = words[index] if len(words[index]) <= 30 else words[index][:27] + "..."
    return f"word {index} ({text!r})"


def _start(name: str) -> str:
    return name[:1].upper() + name[1:]
