"""JSON lines: one's own documents, one a line, and one file for each split."""

import dataclasses
import glob
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from broadsheet.dataset_scripts.builder import DocumentConfig
from broadsheet.tokenization.input_checks import InputError, check_words

logger = logging.getLogger(__name__)

_SPLIT = re.compile(r"\w+(\.\w+)*")


@dataclasses.dataclass
class JsonLinesConfig(DocumentConfig):
    """
    Options of JSON lines.

    Attributes:
        clip_boxes: cut boxes at the page's edge, and log how many; otherwise a box beyond it is an error, unless it
            is by rounding.
    """

    clip_boxes: bool = False


def json_records(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers, from 1, and the objects of a file of JSON lines; empty lines are left out."""
    # A file saved on Windows may begin with a byte order mark.
    with open(file, encoding="utf-8-sig") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _record(line, f"Line {number} of {file}")
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is no text in UTF-8 ({error}); save it in that encoding.") from None


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not valid JSON ({error}); correct the line.") from None
    if not isinstance(record, dict):
        raise InputError(f"{where} is no JSON object; write one document a line.")
    return record


def split_files(data_dir: str) -> dict[str, list[str]]:
    """
    The files `*.jsonl` of a folder, one a split, named by its stem, where a split's name allows only letters, digits,
    _ and dots between them: of "train-2024.jsonl" the split is "train_2024".

    Raises:
        InputError: for a stem that makes no name, or one that another file has.
    """
    splits: dict[str, list[str]] = {}
    for file in sorted(glob.glob(os.path.join(glob.escape(data_dir), "*.jsonl"))):
        name = stem(file)
        split = name if _SPLIT.fullmatch(name) else re.sub(r"\W+", "_", name).strip("_")
        if split in ("", "all"):
            raise InputError(f"{file} cannot name a split; rename it, for example to train.jsonl.")
        if split in splits:
            raise InputError(f"{splits[split][0]} and {file} both name the split {split!r}; rename one of them.")
        splits[split] = [file]
    return splits


def stem(file: str) -> str:
    """The name of a file without folder and ending."""
    return os.path.splitext(os.path.basename(file))[0]


def document_columns(record: dict[str, Any], file: str, number: int) -> dict[str, Any]:
    """
    The columns that every document has, from one line.

    `id`, `page_ids` (on one page), `segment_ids` and `source` may be left out, or null.

    Raises:
        InputError: words that are none, another column that is no list, or several pages without `page_ids`.
    """
    words = record["words"]
    check_words(words, f"line {number} of {file}")
    for column in ("page_ids", "page_sizes", "segment_ids"):
        value = record.get(column)
        if value is not None and not isinstance(value, list):
            raise InputError(f"Line {number} of {file} has the {column} {value!r}; write a list.")
    page_ids, sizes = record.get("page_ids"), record.get("page_sizes")
    if page_ids is None and sizes is not None and len(sizes) > 1:
        raise InputError(
            f"Line {number} of {file} has {len(sizes)} page_sizes but no page_ids; give the page of each word, from 0."
        )
    return {
        "id": document_id(record, file, number),
        "words": words,
        "boxes": record.get("boxes"),
        "page_ids": [0] * len(words) if page_ids is None else page_ids,
        "page_sizes": sizes,
        "segment_ids": record.get("segment_ids"),
        "source": record.get("source"),
    }


def document_id(record: dict[str, Any], file: str, number: int) -> str:
    """The `id` of a line, or one made of file and line where it has none."""
    given = record.get("id")
    return f"{stem(file)}-{number}" if given is None else str(given)


def log_clipped(boxes: int) -> None:
    """Say how many boxes were cut on request."""
    if boxes:
        logger.warning("%d boxes reached beyond their page and were clipped.", boxes)
