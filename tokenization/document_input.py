"""What a processor is called with, in all its forms, as one list of checked documents."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .boxes import clip_boxes
from .input_checks import InputError, box_array, check_boxes, check_pages, check_words, start_sentence

logger = logging.getLogger(__name__)

IGNORED_LABEL = -100


@dataclass
class DocumentInput:
    """
    One document as a processor works on it, checked.

    Attributes:
        name: how messages call it: "the document", or "document 3" of a batch.
        words: the words in reading order.
        boxes: float64 `[words, 4]`, in the unit of `page_sizes`, or in the model's range without them.
        page_ids: int64 `[words]`, from 0.
        page_sizes: float64 `[pages, 2]` of (width, height), or None.
        labels: int64 `[words]`, -100 for none, or None.
        question: asked about the document, or None.
        has_boxes: False where there were none and none were required; `boxes` are zero then.
    """

    name: str
    words: list[str]
    boxes: np.ndarray
    page_ids: np.ndarray
    page_sizes: np.ndarray | None
    labels: np.ndarray | None = None
    question: str | None = None
    has_boxes: bool = True


def read_input(
    text: Any = None,
    text_pair: Any = None,
    boxes: Any = None,
    page_ids: Any = None,
    page_sizes: Any = None,
    word_labels: Any = None,
    documents: Any = None,
    clip_to: tuple[float, float] | None = None,
    id2label: Mapping[int, str] | None = None,
    boxes_required: bool = True,
) -> tuple[list[DocumentInput], bool]:
    """
    Read the arguments of a processor's call.

    Args:
        text, text_pair, boxes, page_ids, page_sizes, word_labels, documents: as of `LayoutProcessor.__call__`.
        clip_to: None to leave boxes alone; else they are clipped to their page, or without page sizes to one of this
            (width, height).
        id2label: the known labels, to check `word_labels` against and to read labels given as strings.
        boxes_required: refuse documents without boxes.

    Returns:
        The documents, and whether the call was for a batch.

    Raises:
        InputError: at the first fault, naming the document of a batch by its index.
    """
    if documents is not None:
        given = {"text_pair": text_pair, "boxes": boxes, "page_ids": page_ids, "page_sizes": page_sizes}
        for argument, value in given.items():
            if value is not None:
                raise InputError(f"Both documents and {argument} are given; documents bring their own, leave it out.")
        rows, batched = document_list(documents)
        columns = {key: [_field(row, key) for row in rows] for key in ("words", "boxes", "page_ids", "page_sizes")}
        questions = _questions(text, len(rows), batched, "documents")
    else:
        words, questions, batched = _words_and_questions(text, text_pair)
        columns = {"words": words}
        for key, value in (("boxes", boxes), ("page_ids", page_ids), ("page_sizes", page_sizes)):
            columns[key] = _column(value, len(words), batched, key)
    labels = _column(word_labels, len(columns["words"]), batched, "word_labels")
    label_ids = {label: index for index, label in id2label.items()} if id2label else None

    read, clipped = [], 0
    for index, words in enumerate(columns["words"]):
        name = f"document {index}" if batched else "the document"
        own_boxes, own_ids, own_sizes = (columns[key][index] for key in ("boxes", "page_ids", "page_sizes"))
        has_boxes = boxes_required or own_boxes is not None
        if not has_boxes:
            check_words(words, name)
            own_boxes = np.zeros((len(words), 4))
        document, changed = _read_document(name, words, own_boxes, own_ids, own_sizes, clip_to)
        document.has_boxes = has_boxes
        clipped += changed
        document.question = questions[index]
        if labels[index] is not None:
            document.labels = _read_labels(labels[index], document, label_ids)
        read.append(document)
    if clipped:
        total = sum(len(document.words) for document in read)
        logger.warning("Clipped %d of %d boxes to the edge of their page.", clipped, total)
    return read, batched


def document_list(documents: Any) -> tuple[list[Any], bool]:
    """
    Documents as a list, and whether they came as a batch.

    A document has `words`, `boxes`, `page_ids` and `page_sizes` (the last two may be missing) as attributes or keys.
    Accepted: one of them, a sequence of them, or the dict of columns that `datasets.Dataset.map(batched=True)` passes.
    """
    if isinstance(documents, Mapping):
        if "words" not in documents:
            raise InputError(f"The document has the keys {sorted(map(str, documents))} but no 'words'; add them.")
        words = documents["words"]
        if len(words) and not isinstance(words[0], str) and isinstance(words[0], Sequence | np.ndarray):
            keys = [key for key in ("words", "boxes", "page_ids", "page_sizes") if documents.get(key) is not None]
            return [{key: documents[key][index] for key in keys} for index in range(len(words))], True
        return [documents], False
    if hasattr(documents, "words"):
        return [documents], False
    if isinstance(documents, str) or not hasattr(documents, "__iter__"):
        raise InputError(
            f"documents is {documents!r}; pass a Document, a dict with words and boxes, or a list of them."
        )
    rows = list(documents)
    if not rows:
        raise InputError("documents is empty; pass at least one document.")
    for index, row in enumerate(rows):
        if not ("words" in row if isinstance(row, Mapping) else hasattr(row, "words")):
            raise InputError(
                f"Document {index} is a {type(row).__name__} without words; pass a Document or a dict with words and "
                "boxes."
            )
    return rows, True


def _field(row: Any, key: str) -> Any:
    return row.get(key) if isinstance(row, Mapping) else getattr(row, key, None)


def _words_and_questions(text: Any, text_pair: Any) -> tuple[list[Any], list[str | None], bool]:
    if text is None:
        raise InputError("There is neither text nor documents; pass text=words with boxes=boxes, or documents=.")
    if not hasattr(text, "__len__"):
        raise InputError(f"text is of type {type(text).__name__}; pass the words as a list of strings.")
    if text_pair is None:
        if isinstance(text, str):
            raise InputError(
                "text is one string; split it into a list of words, or pass it as a question with text_pair=words."
            )
        batched = len(text) > 0 and not isinstance(text[0], str) and hasattr(text[0], "__len__")
        words = list(text) if batched else [text]
        return words, [None] * len(words), batched
    if isinstance(text_pair, str):
        raise InputError("text_pair is one string; pass the words of the document as a list.")
    batched = not isinstance(text, str)
    words = list(text_pair) if batched else [text_pair]
    return words, _questions(text, len(words), batched, "text_pair"), batched


def _questions(text: Any, count: int, batched: bool, others: str) -> list[Any]:
    if text is None:
        return [None] * count
    if isinstance(text, str):
        if batched:
            raise InputError(f"text is one question but {others} is a list of {count}; pass a list of questions.")
        return [text]
    questions = list(text)
    if not batched:
        raise InputError(f"text is a list but {others} is one document; pass one question as a string.")
    if len(questions) != count:
        raise InputError(f"There are {len(questions)} questions for {count} documents; pass one for each document.")
    for index, question in enumerate(questions):
        if not isinstance(question, str):
            raise InputError(f"The question of document {index} is {question!r}; pass it as a string.")
    return questions


def _column(value: Any, count: int, batched: bool, argument: str) -> list[Any]:
    if value is None:
        return [None] * count
    if not batched:
        return [value]
    if not hasattr(value, "__len__") or len(value) != count:
        number = len(value) if hasattr(value, "__len__") else "one"
        raise InputError(f"There are {count} documents but {number} {argument}; pass {argument} for each document.")
    return list(value)


def _read_document(
    name: str, words: Any, boxes: Any, page_ids: Any, page_sizes: Any, clip_to: tuple[float, float] | None
) -> tuple[DocumentInput, int]:
    words = words if isinstance(words, list | str) or words is None else list(words)
    check_words(words, name)
    array = box_array(boxes, words, name)
    check_pages(page_ids, page_sizes, words, name)
    if page_sizes is not None and len(page_sizes) == 0:
        raise InputError(f"{start_sentence(name)} has an empty page_sizes; pass page_sizes=[(width, height), ...].")
    sizes = None if page_sizes is None else np.asarray(page_sizes, dtype=np.float64).reshape(-1, 2)
    pages = np.zeros(len(words), np.int64) if page_ids is None else np.asarray(page_ids, dtype=np.int64)
    if page_ids is None and sizes is not None and len(sizes) > 1:
        raise InputError(
            f"{start_sentence(name)} has {len(sizes)} page sizes but no page_ids; pass the page of each word."
        )
    changed = 0
    if clip_to is not None:
        array, changed = clip_boxes(array, pages, sizes, clip_to)
    check_boxes(array, words, name)
    return DocumentInput(name, words, array, pages, sizes), changed


def _read_labels(labels: Any, document: DocumentInput, label_ids: dict[str, int] | None) -> np.ndarray:
    name = document.name
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise InputError(f"The labels of {name} are {labels!r}; pass one label for each word.")
    if len(labels) != len(document.words):
        raise InputError(
            f"{start_sentence(name)} has {len(document.words)} words but {len(labels)} labels; "
            "pass exactly one label for each word."
        )
    values = []
    for index, label in enumerate(labels):
        if isinstance(label, str):
            if label_ids is None:
                raise InputError(
                    f"Label {index} of {name} is the string {label!r}, but the processor knows no labels; "
                    "set processor.id2label, or pass whole numbers."
                )
            if label not in label_ids:
                known = ", ".join(label_ids)
                raise InputError(f"Label {index} of {name} is {label!r}, which is none of the known labels: {known}.")
            values.append(label_ids[label])
        else:
            values.append(label)
    array = np.asarray(values)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        index = next((i for i, value in enumerate(values) if not isinstance(value, int | np.integer)), 0)
        raise InputError(
            f"Label {index} of {name} is {values[index]!r}; labels are whole numbers, or strings from id2label."
        )
    known_ids = None if label_ids is None else np.array(sorted(label_ids.values()))
    wrong = array < 0 if known_ids is None else ~np.isin(array, known_ids)
    wrong &= array != IGNORED_LABEL
    if wrong.any():
        index = int(wrong.argmax())
        remedy = f"labels run from 0 to {len(label_ids) - 1}" if label_ids is not None else "labels are counted from 0"
        raise InputError(f"Label {index} of {name} is {array[index]}; {remedy}, and -100 marks a word without one.")
    return array.astype(np.int64)
