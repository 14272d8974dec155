"""The one schema of every dataset: words with boxes on pages, and what a task adds to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from datasets import ClassLabel, Features, List, Value

from broadsheet.tokenization.boxes import OVERHANG
from broadsheet.tokenization.boxes import clip_boxes as clip_array
from broadsheet.tokenization.input_checks import (
    InputError,
    box_array,
    check_boxes,
    check_pages,
    check_words,
    describe_word,
)


def document_features(
    labels: Sequence[str] | None = None,
    label: Sequence[str] | None = None,
    entities: bool = False,
    links: bool = False,
    questions: bool = False,
    summary: bool = False,
) -> Features:
    """
    The columns of a dataset: those of every document, and the ones that the corpus' tasks need.

    Always there: `id` (unique in the split), `words` (reading order), `boxes` ((x0, y0, x1, y1) per word, origin top
    left, in the unit of `page_sizes`), `page_ids` (per word, from 0), `page_sizes` ((width, height) per page),
    `segment_ids` (the text block of each word; null where the source knows none), `source` (the file to draw on).

    Args:
        labels: names of the word labels; adds `labels`, one per word.
        label: names of the document classes; adds `label`.
        entities: adds `entities`, each a `type`, the `word_ids` it is made of, and its `text`.
        links: adds `links`, pairs (from, to) of positions in `entities`.
        questions: adds `questions`, each a `question`, its `answers` and their `spans` (first word, last word).
        summary: adds `summary`.
    """
    features: dict[str, Any] = {
        "id": Value("string"),
        "words": List(Value("string")),
        "boxes": List(List(Value("float32"), length=4)),
        "page_ids": List(Value("int32")),
        "page_sizes": List(List(Value("float32"), length=2)),
        "segment_ids": List(Value("int32")),
        "source": Value("string"),
    }
    if labels is not None:
        features["labels"] = List(ClassLabel(names=list(labels)))
    if label is not None:
        features["label"] = ClassLabel(names=list(label))
    if entities:
        features["entities"] = List(
            {"type": Value("string"), "word_ids": List(Value("int32")), "text": Value("string")}
        )
    if links:
        features["links"] = List(List(Value("int32"), length=2))
    if questions:
        features["questions"] = List(
            {
                "question": Value("string"),
                "answers": List(Value("string")),
                "spans": List(List(Value("int32"), length=2)),
            }
        )
    if summary:
        features["summary"] = Value("string")
    return Features(features)


def check_row(row: dict[str, Any], clip: bool = False) -> int:
    """
    Check that the columns of a row fit together, and its boxes their pages.

    A box that overhangs its page by rounding, less than a thousandth of the page's side, is cut at the edge.

    Args:
        row: its `boxes` are replaced where some are cut.
        clip: cut boxes at the page's edge however far they reach.

    Returns:
        How many boxes `clip` cut.

    Raises:
        InputError: naming the document.
    """
    name = f"document {row['id']!r}"
    words, page_ids, page_sizes = row["words"], row["page_ids"], row["page_sizes"]
    check_words(words, name)
    array = box_array(row["boxes"], words, name)
    check_pages(page_ids, page_sizes, words, name)
    for column in ("segment_ids", "labels"):
        if row.get(column) is not None and len(row[column]) != len(words):
            raise InputError(
                f"D{name[1:]} has {len(words)} words but {len(row[column])} {column}; give exactly one per word."
            )
    limits = np.tile(np.asarray(page_sizes, np.float64)[np.asarray(page_ids)], 2)
    outside = np.isfinite(array) & ((array < 0) | (array >= limits * (1 + OVERHANG)))
    if outside.any() and not clip:
        index = int(outside.any(axis=1).argmax())
        raise InputError(
            f"The box {list(row['boxes'][index])} of {describe_word(words, index)} of {name} reaches beyond its page "
            f"of {tuple(page_sizes[page_ids[index]])}; correct it, or pass clip_boxes=True (--dataset_options "
            "clip_boxes=true) to cut it at the page's edge."
        )
    boxes, changed = clip_boxes(array, page_ids, page_sizes)
    check_boxes(boxes, words, name)
    if changed:
        row["boxes"] = boxes
    return changed if clip else 0


def clip_boxes(
    boxes: Sequence[Sequence[float]] | np.ndarray, page_ids: Sequence[int], page_sizes: Sequence[Sequence[float]]
) -> tuple[list[list[float]], int]:
    """The boxes cut at the edges of their pages, and how many of them were cut."""
    array, sizes = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(page_sizes, np.float64)
    clipped, changed = clip_array(array, np.asarray(page_ids, np.int64), sizes, (0, 0))
    return clipped.tolist(), changed
