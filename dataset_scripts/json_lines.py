"""JSON lines: one's own documents, one a line, and one file for each split."""

import glob
import json
import os
from collections.abc import Iterator
from typing import Any

from broadsheet.tokenization.input_checks import InputError


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
    """The files `*.jsonl` of a folder, one a split, named by its stem."""
    return {stem(file): [file] for file in sorted(glob.glob(os.path.join(glob.escape(data_dir), "*.jsonl")))}


def stem(file: str) -> str:
    """The name of a file without folder and ending."""
    return os.path.splitext(os.path.basename(file))[0]


def document_columns(record: dict[str, Any], file: str, number: int) -> dict[str, Any]:
    """
    The columns that every document has, from one line.

    `id`, `page_ids` (on one page), `segment_ids` and `source` may be left out.
    """
    words = record["words"]
    return {
        "id": str(record.get("id", f"{stem(file)}-{number}")),
        "words": words,
        "boxes": record["boxes"],
        "page_ids": record.get("page_ids", [0] * len(words)),
        "page_sizes": record["page_sizes"],
        "segment_ids": record.get("segment_ids"),
        "source": record.get("source"),
    }
