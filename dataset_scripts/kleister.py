"""
Kleister-NDA and Kleister-Charity: long PDFs with the values to extract, not where they stand (Stanisławek et al.,
2021, 2105.05796). The values are sought in the words of the PDFs' text layers (`value_alignment`).
"""

import dataclasses
import inspect
import logging
import lzma
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import datasets

from broadsheet.dataset_scripts import held_out, value_alignment, value_mentions
from broadsheet.dataset_scripts.pdf_folder import PdfFolder, PdfFolderConfig
from broadsheet.dataset_scripts.schema import document_features
from broadsheet.dataset_scripts.value_alignment import align_values, alignment_report
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import bio_labels

logger = logging.getLogger(__name__)

SPLITS = {"train": "train", "dev-0": "validation", "test-A": "test"}
"""Official folders and the names of the splits."""
NDA_KEYS = ("effective_date", "jurisdiction", "party", "term")
CHARITY_KEYS = (
    "address__post_town",
    "address__postcode",
    "address__street_line",
    "charity_name",
    "charity_number",
    "income_annually_in_british_pounds",
    "report_date",
    "spending_annually_in_british_pounds",
)


@dataclasses.dataclass
class KleisterConfig(PdfFolderConfig):
    """
    Options of Kleister.

    Attributes:
        on_error: "raise" stops at the first PDF that cannot be read (a scan without text layer, too); "skip" leaves it
            out, logs it and lists it in `skipped_files(dataset)`.
        on_empty_page: "warn", "raise" or "ignore", for pages without words.
        password: opens encrypted files.
        occurrences: "all" places that state a value are entities, or the "first" alone.
        min_similarity: below 1, a name found nowhere is taken to be the run of words most like it, if they have at
            least this share of letters in common.
        held_out: move so large a share of the training documents, at random, to a split "held_out"; the official test
            documents come without answers.
        held_out_seed: another seed, another choice.
    """

    on_empty_page: str = "ignore"
    occurrences: str = "all"
    min_similarity: float = 1.0
    held_out: float = 0.0
    held_out_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        held_out.check_share(self.held_out)
        if self.labels_from_folders:
            raise InputError("labels_from_folders=True is for dataset 'pdf_folder'; Kleister has no document classes.")
        value_alignment.check_options(self.occurrences, self.min_similarity)


class _Kleister(PdfFolder):
    """
    A row per line of `in.tsv` (or `in.tsv.xz`), with the words of its PDF, IOB2 `labels` and `entities`.

    An entity is one place that states a value; its `text` is the official value. A value that was not found is an
    entity without `word_ids`. Where `expected.tsv` is missing (the hidden test), `labels` and `entities` are null.
    The distribution's own text columns have no boxes and are not used.
    """

    BUILDER_CONFIG_CLASS = KleisterConfig
    KEYS: ClassVar[tuple[str, ...]]
    DESCRIPTION: ClassVar[str]
    HOMEPAGE: ClassVar[str]

    def __init__(self, data_dir: str | os.PathLike | None = None, cache_dir: str | None = None, **options: Any):
        super().__init__(data_dir, cache_dir, **options)
        if self.config.held_out:
            # By name, so that the same documents are chosen wherever the files lie.
            names = [os.path.basename(file) for file in self.files.get("train", [])]
            self.files = held_out.hold_out(self.files, names, self.config.held_out, self.config.held_out_seed)

    def _info(self) -> datasets.DatasetInfo:
        features = document_features(labels=bio_labels(self.KEYS), entities=True)
        return datasets.DatasetInfo(description=self.DESCRIPTION, homepage=self.HOMEPAGE, features=features)

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """The PDFs that `in.tsv` of each split names, in its order."""
        self._values: dict[str, list[tuple[str, str]] | None] = {}
        self._tables: list[str] = []
        self._rows: list[dict[str, Any]] = []
        return {split: self._read_split(data_dir, folder) for folder, split in SPLITS.items()}

    def companions(self, data_dir: str) -> list[str]:
        """The tables."""
        return self._tables

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One PDF file with its values; None where it cannot be read and `on_error` is "skip"."""
        row = super().read_file(file)
        if row is None:
            return None
        row |= {"id": os.path.basename(file), "labels": None, "entities": None}
        values = self._values[file]
        if values is not None:
            row["labels"], row["entities"] = align_values(
                row["words"], values, self.config.occurrences, self.config.min_similarity
            )
            self._rows.append({"id": row["id"], "entities": row["entities"]})
        return row

    def log_totals(self, rows: int) -> None:
        """Say what share of the values was found, and which were not."""
        if self._rows:
            report = alignment_report(self._rows)
            logger.warning("%s: %s.", type(self).__name__, report)
            for name, key, value in report.misses:
                logger.info("%s: %s=%s was not found.", name, key, value)
        self._rows = []

    def _read_split(self, data_dir: str, folder: str) -> list[str]:
        table = _existing(os.path.join(data_dir, folder, "in.tsv"), os.path.join(data_dir, folder, "in.tsv.xz"))
        if table is None:
            return []
        names = [line.split("\t", 1)[0] for line in _lines(table)]
        self._tables.append(table)
        expected = os.path.join(data_dir, folder, "expected.tsv")
        values: Sequence[list[tuple[str, str]] | None] = [None] * len(names)
        if os.path.isfile(expected):
            self._tables.append(expected)
            values = [self._parse(line, number, expected) for number, line in enumerate(_lines(expected), start=1)]
            if len(values) != len(names):
                raise InputError(
                    f"{expected} has {len(values)} lines but {table} has {len(names)}; copy both again, they belong "
                    "together line by line."
                )
        files = []
        for number, (name, pairs) in enumerate(zip(names, values, strict=True), start=1):
            file = os.path.join(data_dir, "documents", name)
            if not name or os.path.basename(name) != name or not os.path.isfile(file):
                raise InputError(
                    f"Line {number} of {table} names the document {name!r}, which is not in "
                    f"{os.path.dirname(file)}; put it there."
                )
            if file in self._values:
                raise InputError(
                    f"Line {number} of {table} names {name!r}, which stood in an earlier line or split; keep one."
                )
            files.append(file)
            self._values[file] = pairs
        return files

    def _parse(self, line: str, number: int, path: str) -> list[tuple[str, str]]:
        pairs = []
        for pair in line.split():
            key, equals, value = pair.partition("=")
            if not equals or not value:
                raise InputError(f"Line {number} of {path} has {pair!r}, which is no key=value; correct the line.")
            if key not in self.KEYS:
                raise InputError(
                    f"Line {number} of {path} has the key {key!r}; the keys of this dataset are "
                    f"{', '.join(self.KEYS)}."
                )
            pairs.append((key, value))
        return pairs

    @classmethod
    def code_files(cls) -> list[str]:
        """Also what seeks the values."""
        own = [inspect.getfile(module) for module in (held_out, value_alignment, value_mentions)]
        return [*super().code_files(), *own]


class KleisterNda(_Kleister):
    """Kleister-NDA: non-disclosure agreements filed with the SEC, 254 train, 83 validation, 203 test (unlabelled)."""

    KEYS = NDA_KEYS
    DESCRIPTION = "Kleister-NDA: party, jurisdiction, effective date and term of non-disclosure agreements."
    HOMEPAGE = "https://github.com/applicaai/kleister-nda"
    EXPECTED = (
        "the folder with documents/*.pdf, train/in.tsv.xz and train/expected.tsv (and dev-0, test-A), as in "
        "https://github.com/applicaai/kleister-nda"
    )


class KleisterCharity(_Kleister):
    """
    Kleister-Charity: annual reports of charities, 1,729 train, 440 validation, 609 test (unlabelled).

    About half of the reports are scans. One without text layer is an error, or skipped with `on_error="skip"`: make
    it searchable by OCR first. Money is found where it is written in full pounds, not in thousands ("£'000").
    """

    KEYS = CHARITY_KEYS
    DESCRIPTION = "Kleister-Charity: name, number, address, date, income and spending from charities' reports."
    HOMEPAGE = "https://github.com/applicaai/kleister-charity"
    EXPECTED = (
        "the folder with documents/*.pdf, train/in.tsv.xz and train/expected.tsv (and dev-0, test-A), as in "
        "https://github.com/applicaai/kleister-charity"
    )


def _existing(*paths: str) -> str | None:
    return next((path for path in paths if os.path.isfile(path)), None)


def _lines(path: str) -> Iterator[str]:
    """Lines of a table, which may be compressed; quotes mean nothing in it."""
    opener = lzma.open if path.endswith(".xz") else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as table:
            for line in table:
                yield line.rstrip("\r\n")
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged ({error}); copy it again from the official distribution.") from None
