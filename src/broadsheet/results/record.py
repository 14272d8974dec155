"""
A record: one file `results/NAME.json`, written by the command that measured it.

Records of every kind carry the tables that RESULTS.md shows of them, so that it is made from any of them alike.
"""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import broadsheet
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.runs import write_json


@dataclasses.dataclass
class ResultTable:
    """
    A table of a record.

    Attributes:
        caption: one sentence.
        columns: headings; the first column holds names.
        rows: cells as they are shown.
    """

    caption: str
    columns: list[str]
    rows: list[list[str]]


@dataclasses.dataclass
class Record:
    """
    What was measured, how, and on what.

    Attributes:
        name: the file's name without suffix.
        title: one line for people.
        kind: "benchmark" or "table".
        command: what measures it again.
        date: of the measurement, UTC.
        data: the data and its size; None where it is random.
        budget: steps, batch sizes, repetitions.
        seeds: of everything random.
        environment: versions and hardware (`describe_environment`).
        measurements: the numbers, as deep as needed.
        tables: what RESULTS.md shows.
        notes: sentences below the tables.
        figures: pictures beside the record, by file name.
    """

    name: str
    title: str
    kind: str
    command: str
    date: str
    data: Any
    budget: dict[str, Any]
    seeds: Any
    environment: dict[str, Any]
    measurements: dict[str, Any]
    tables: list[ResultTable]
    notes: list[str] = dataclasses.field(default_factory=list)
    figures: list[str] = dataclasses.field(default_factory=list)


def write_record(folder: Path, record: Record) -> Path:
    """Write a record, never half; returns the file."""
    if not re.fullmatch(r"[a-z0-9_.-]+", record.name):
        raise InputError(f"{record.name!r} is no name for a result; use a-z, 0-9, _, - and dots.")
    path = folder / f"{record.name}.json"
    write_json(str(path), dataclasses.asdict(record))
    return path


def read_record(path: Path) -> Record:
    """
    Read a record.

    Raises:
        InputError: where the file is none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content["tables"] = [ResultTable(**table) for table in content["tables"]]
        return Record(**content)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is no record of results ({error}); measure it again or remove it.") from None


def read_records(folder: Path) -> list[Record]:
    """All records of a folder, by name."""
    return [read_record(path) for path in sorted(folder.glob("*.json"))]


def checkout_root() -> Path | None:
    """The root of the checkout that broadsheet is imported from; None where it is installed from a wheel."""
    root = Path(broadsheet.__file__).resolve().parent.parent.parent
    return root if (root / "pyproject.toml").is_file() and (root / "benchmarks").is_dir() else None


def results_folder() -> Path:
    """`results` at the root of the checkout, or in the current folder where there is no checkout."""
    return (checkout_root() or Path.cwd()) / "results"
