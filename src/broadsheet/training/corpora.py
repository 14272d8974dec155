"""From corpora to the pages of pre-training: split by document, the same for every model."""

import hashlib
import logging
import re
from collections.abc import Callable
from typing import Any

from datasets import Dataset, concatenate_datasets

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import parse_settings
from broadsheet.training.pretraining_arguments import CorpusArguments

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "test")
_COLUMNS = ("id", "words", "boxes", "page_ids", "page_sizes")


def load_corpora(data: CorpusArguments) -> dict[str, Dataset]:
    """
    The texts to train, validate and test on: rows of `id`, `words`, `boxes`, `page_ids`, `page_sizes` and `group`, one
    for each page (or document, as `data.unit` says).

    A corpus that has validation and test splits of its own keeps them. Others are split by their documents, at random
    but always alike: what has the same words, and the pages of one paper of DocBank, are one document (`group`).

    Raises:
        InputError: corpora and folders that do not match, fractions out of range, or a split without documents.
    """
    if not data.dataset:
        raise InputError("There is no corpus; set --dataset NAME ... and --data_dir FOLDER ....")
    folders = data.data_dir or []
    names = data.dataset * len(folders) if len(data.dataset) == 1 and folders else data.dataset
    if len(names) != len(folders):
        raise InputError(
            f"There are {len(names)} corpora but {len(folders)} folders; set one --data_dir for each --dataset, in "
            "the same order, or one --dataset for all folders."
        )
    for name in ("validation_fraction", "test_fraction"):
        if not 0 <= getattr(data, name) < 1:
            raise InputError(f"{name}={getattr(data, name)} is a share; set it from 0 to below 1.")
    if data.validation_fraction + data.test_fraction >= 1:
        raise InputError("validation_fraction and test_fraction leave nothing to train on; lower one of them.")
    parts: dict[str, list[Dataset]] = {name: [] for name in SPLITS}
    for corpus, (name, folder) in enumerate(zip(names, folders, strict=True)):
        for split, rows in _load_corpus(name, folder, f"{corpus}:{name}", data).items():
            parts[split].append(rows)
    texts = {name: concatenate_datasets(rows) for name, rows in parts.items() if rows}
    if data.unit == "page":
        texts = {name: _cached(rows, _split_pages, "Taking documents apart", data) for name, rows in texts.items()}
    return texts


def _load_corpus(name: str, folder: str, key: str, data: CorpusArguments) -> dict[str, Dataset]:
    options = _own_options(name, data)
    loaded = load_dataset(name, data_dir=folder, num_proc=data.num_proc, cache_dir=data.cache_dir, **options)
    if "train" not in loaded:
        raise InputError(f"{folder} has no documents to train on: {name!r} has the splits {', '.join(loaded)} there.")
    rows = {split: loaded[split].select_columns(list(_COLUMNS)) for split in SPLITS if split in loaded}
    if data.max_documents is not None:
        rows = {split: part.select(range(min(data.max_documents, len(part)))) for split, part in rows.items()}
    groups = {split: _groups(part, name) for split, part in rows.items()}
    held_out = [split for split in ("validation", "test") if split not in rows]
    fractions = {split: getattr(data, f"{split}_fraction") for split in held_out}
    for split, chosen in split_groups(groups["train"], fractions, data.split_seed).items():
        if split == "train":
            kept = chosen
        elif chosen:
            rows[split] = rows["train"].select(chosen)
            groups[split] = [groups["train"][row] for row in chosen]
    rows["train"], groups["train"] = rows["train"].select(kept), [groups["train"][row] for row in kept]
    if not kept:
        raise InputError(f"No document of {folder} is left to train on; lower validation_fraction and test_fraction.")
    counts = ", ".join(f"{len(set(groups[split]))} {split}" for split in rows)
    logger.info("%s: documents %s.", folder, counts)
    return {
        split: part.add_column("group", [f"{key}:{group}" for group in groups[split]]) for split, part in rows.items()
    }


def _own_options(name: str, data: CorpusArguments) -> dict[str, Any]:
    """Options of one corpus: those that name no corpus, and those that name it (`docbank.subset=mix`)."""
    options = {}
    for option, value in parse_settings(data.dataset_options, "dataset_options").items():
        corpus, dot, own = option.rpartition(".")
        if dot and corpus not in (data.dataset or []):
            raise InputError(f"The option {option} is for {corpus}, which is no corpus of this run; leave it out.")
        if not dot or corpus == name:
            options[own] = value
    return options


def _groups(rows: Dataset, name: str) -> list[str]:
    """The document of each row: a paper of DocBank, or whatever has the same words."""
    if name == "docbank":
        return [re.sub(r"_\d+$", "", row) for row in rows["id"]]
    return [hashlib.blake2b("\0".join(words).encode(), digest_size=8).hexdigest() for words in rows["words"]]


def split_groups(groups: list[str], fractions: dict[str, float], seed: int) -> dict[str, list[int]]:
    """
    Rows by split, so that all rows of a group are in one.

    Args:
        groups: the group of each row.
        fractions: the share of the groups in each further split; the rest is "train". Any share above 0 gets a group.
        seed: another seed, another split. The order of the rows does not matter.

    Returns:
        The rows of "train" and of each split of `fractions`, ascending.
    """

    def place(group: str) -> str:
        return hashlib.blake2b(f"{seed}\0{group}".encode(), digest_size=16).hexdigest()

    ranked = sorted(set(groups), key=place)
    split_of = {}
    for split, fraction in fractions.items():
        count = max(1, round(fraction * len(set(groups)))) if fraction else 0
        for group in ranked[:count]:
            split_of[group] = split
        ranked = ranked[count:]
    rows: dict[str, list[int]] = {"train": [], **{split: [] for split in fractions}}
    for row, group in enumerate(groups):
        rows[split_of.get(group, "train")].append(row)
    return rows


def _split_pages(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Each page that has words, as a row of its own."""
    pages: dict[str, list[Any]] = {name: [] for name in columns}
    rows = zip(*(columns[name] for name in ("id", "words", "boxes", "page_ids", "page_sizes", "group")), strict=True)
    for name, words, boxes, page_ids, page_sizes, group in rows:
        start = 0
        for end in range(1, len(words) + 1):
            if end < len(words) and page_ids[end] == page_ids[start]:
                continue
            page = page_ids[start]
            pages["id"].append(f"{name}#{page + 1}" if len(page_sizes) > 1 else name)
            pages["words"].append(words[start:end])
            pages["boxes"].append(boxes[start:end])
            pages["page_ids"].append([0] * (end - start))
            pages["page_sizes"].append([page_sizes[page]])
            pages["group"].append(group)
            start = end
    return pages


def _cached(rows: Dataset, function: Callable[..., Any], description: str, data: CorpusArguments) -> Dataset:
    return rows.map(function, batched=True, batch_size=32, num_proc=data.num_proc, desc=description)
