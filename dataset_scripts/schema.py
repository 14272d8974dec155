"""The one schema of every dataset: words with boxes on pages, and what a task adds to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import ClassLabel, Features, List, Value

from broadsheet.tokenization.input_checks import InputError, check_document


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


def check_row(row: Mapping[str, Any]) -> None:
    """Raise `InputError`, naming the document, unless the columns of a row fit together and its boxes their pages."""
    name = f"document {row['id']!r}"
    words, boxes, page_ids, page_sizes = row["words"], row["boxes"], row["page_ids"], row["page_sizes"]
    check_document(words, boxes, page_ids, page_sizes, name=name)
    for column in ("segment_ids", "labels"):
        if row.get(column) is not None and len(row[column]) != len(words):
            raise InputError(
                f"D{name[1:]} has {len(words)} words but {len(row[column])} {column}; give exactly one per word."
            )
    for index, (box, page) in enumerate(zip(boxes, page_ids, strict=True)):
        if box[2] > page_sizes[page][0] or box[3] > page_sizes[page][1]:
            raise InputError(
                f"The box {list(box)} of word {index} ({words[index]!r}) of {name} reaches beyond its page of "
                f"{tuple(page_sizes[page])}; correct it, or pass clip_boxes=True to cut it at the page's edge."
            )


def clip_boxes(
    boxes: Sequence[Sequence[float]], page_ids: Sequence[int], page_sizes: Sequence[Sequence[float]]
) -> tuple[list[list[float]], int]:
    """The boxes cut at the edges of their pages, and how many of them were cut."""
    clipped = [
        [min(max(value, 0), page_sizes[page][axis % 2]) for axis, value in enumerate(box)]
        for box, page in zip(boxes, page_ids, strict=True)
    ]
    return clipped, sum(list(old) != new for old, new in zip(boxes, clipped, strict=True))
