"""From a dataset's documents to the windows a model reads."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import DataArguments, parse_settings
from broadsheet.training.fingerprints import encoding_fingerprint

logger = logging.getLogger(__name__)

BATCH_OF_DOCUMENTS = 32


def load_splits(data: DataArguments, seed: int, answers: str | None = None) -> dict[str, Dataset]:
    """
    The documents to train, validate and test on, under "train", "validation" and "test"; the last two where there are.

    Args:
        data: the dataset and its splits.
        seed: of what is held out.
        answers: the column to learn and measure by. A validation or test split without is left out, with a warning.

    Raises:
        InputError: an unknown dataset or split, or nothing to learn from.
    """
    dataset = load_all(data)
    if data.train_split not in dataset:
        raise InputError(
            f"Dataset {data.dataset!r} has no split {data.train_split!r} to train on; its splits are "
            f"{', '.join(dataset)}."
        )
    splits = {"train": dataset[data.train_split]}
    if not has_answers(splits["train"], answers):
        raise InputError(
            f"Split {data.train_split!r} of dataset {data.dataset!r} comes without labels; set --train_split to one "
            "that has them."
        )
    for part, split, share in (
        ("test", data.test_split, data.test_fraction),
        ("validation", data.validation_split, data.validation_fraction),
    ):
        if split and split in dataset and has_answers(dataset[split], answers):
            splits[part] = dataset[split]
            continue
        if split and split in dataset:
            logger.warning(
                "Split %r of dataset %r comes without labels and is left out; to measure on a share of the training "
                "documents, set --dataset_options held_out=0.2 --test_split held_out.",
                split,
                data.dataset,
            )
        if share:
            splits |= _hold_out(splits["train"], part, share, seed)
    if data.max_documents is not None:
        splits = {name: part.select(range(min(data.max_documents, len(part)))) for name, part in splits.items()}
    return splits


def has_answers(documents: Dataset, column: str | None) -> bool:
    """Whether no document's value of the column is null; True where there is no such column."""
    if column not in documents.column_names:
        return True
    return documents.select_columns(column).with_format("arrow")[:].column(0).null_count == 0


def _hold_out(train: Dataset, part: str, share: float, seed: int) -> dict[str, Dataset]:
    if not 0 < share < 1:
        raise InputError(f"{part}_fraction={share} is a share; set it from 0 to below 1.")
    if len(train) < 2:
        raise InputError(f"One document is too little to hold out {part} data; set {part}_fraction to 0.")
    parts = train.train_test_split(test_size=max(1, round(share * len(train))), seed=seed)
    return {"train": parts["train"], part: parts["test"]}


def load_all(data: Any) -> DatasetDict:
    """Every split of the dataset that the arguments name."""
    return load_dataset(_name(data), **_load_options(data))


def load_split(data: Any, split: str) -> Dataset:
    """One split of the dataset that the arguments name."""
    return load_dataset(_name(data), split=split, **_load_options(data))


def _name(data: Any) -> str:
    if data.dataset is None:
        raise InputError("There is no dataset; set --dataset NAME and --data_dir FOLDER.")
    return data.dataset


def _load_options(data: Any) -> dict[str, Any]:
    options = parse_settings(data.dataset_options, "dataset_options")
    return {"data_dir": data.data_dir, "num_proc": data.num_proc, "cache_dir": data.cache_dir, **options}


def segment_boxes(
    boxes: Sequence[Sequence[float]], segment_ids: Sequence[int], page_ids: Sequence[int]
) -> list[list[float]]:
    """
    The box of each word's segment: the union of the boxes of its words on the same page.

    Args:
        boxes: `[words, 4]`, (x0, y0, x1, y1).
        segment_ids: `[words]`.
        page_ids: `[words]`.
    """
    unions: dict[tuple[int, int], list[float]] = {}
    keys = list(zip(segment_ids, page_ids, strict=True))
    for key, (x0, y0, x1, y1) in zip(keys, boxes, strict=True):
        union = unions.setdefault(key, [x0, y0, x1, y1])
        union[:] = [min(union[0], x0), min(union[1], y0), max(union[2], x1), max(union[3], y1)]
    return [unions[key] for key in keys]


def with_box_level(columns: dict[str, list[Any]], box_level: str) -> dict[str, list[Any]]:
    """Columns of a batch of documents, with the boxes that the model is to see."""
    if box_level == "word":
        return columns
    if columns.get("segment_ids") is None or any(ids is None for ids in columns["segment_ids"]):
        raise InputError("The dataset does not say which segment a word belongs to; set box_level to word.")
    boxes = map(segment_boxes, columns["boxes"], columns["segment_ids"], columns["page_ids"])
    return {**columns, "boxes": list(boxes)}


def encode(
    documents: Dataset, processor: Any, word_labels: list[str] | None, label: list[int] | None, options: dict[str, Any]
) -> Dataset:
    """
    The windows of all documents, with what the model takes and `token_word_ids` and `document` (its row).

    Args:
        documents: rows of the dataset schema.
        processor: the model's processor.
        word_labels: the names behind the ids of the column `labels`, where words are labelled; the processor's
            `id2label` then gives the model's ids.
        label: the model's class of each id in the column `label`, where documents are classified.
        options: `box_level`, `max_length`, `stride`, `clip_boxes`, `num_proc`.
    """
    arguments = {
        "processor": processor,
        "word_labels": word_labels,
        "label": label,
        "box_level": options["box_level"],
        "settings": {name: options[name] for name in ("max_length", "stride", "clip_boxes")},
    }
    encoded = documents.map(
        _encode_batch,
        with_indices=True,
        batched=True,
        batch_size=BATCH_OF_DOCUMENTS,
        num_proc=options["num_proc"] if (options["num_proc"] or 1) < len(documents) else None,
        remove_columns=documents.column_names,
        fn_kwargs=arguments,
        new_fingerprint=encoding_fingerprint(documents, arguments, __file__),
        desc="Cutting documents into windows",
    )
    logger.info("%d documents became %d windows.", len(documents), len(encoded))
    return encoded


def _encode_batch(
    columns: dict[str, list[Any]],
    rows: list[int],
    processor: Any,
    word_labels: list[str] | None,
    label: list[int] | None,
    box_level: str,
    settings: dict[str, Any],
) -> dict[str, Any]:
    columns = with_box_level(columns, box_level)
    names = None if word_labels is None else [[word_labels[i] for i in labels] for labels in columns["labels"]]
    try:
        windows = processor(
            documents=columns, word_labels=names, truncation=True, return_overflowing_tokens=True,
            return_word_ids=True, **settings,
        )  # fmt: skip
    except InputError as error:
        raise InputError(with_ids(str(error), columns["id"])) from None
    documents = list(windows.pop("overflow_to_sample_mapping"))
    features = window_columns(windows, processor)
    features["document"] = [rows[document] for document in documents]
    if label is not None:
        features["labels"] = [label[columns["label"][document]] for document in documents]
    return features


def window_columns(windows: Any, processor: Any) -> dict[str, list[Any]]:
    """What a processor returned as columns, in the types that it declares; without the pages of tokens."""
    dtypes = {name: spec.dtype for name, spec in getattr(processor, "tensors", {}).items()}
    return {
        name: [np.asarray(row, dtypes.get(name)) for row in values]
        for name, values in windows.items()
        if name != "token_page_ids"
    }


def with_ids(message: str, ids: Sequence[str]) -> str:
    """Name documents by their ids rather than by their places in a batch."""
    for index in reversed(range(len(ids))):
        for start in ("document", "Document"):
            message = message.replace(f"{start} {index} ", f"{start} {ids[index]!r} ")
    return message
