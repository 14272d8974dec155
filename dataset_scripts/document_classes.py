"""
Multi-page documents of four kinds, to classify by what stands in them: agreements (Kleister-NDA), papers (DocBank's
PDFs), FARA amendments and FCC ad buys (VRDU). Real PDFs with text layers, in the folders of their corpora.
"""

import dataclasses
import glob
import hashlib
import os
from typing import Any

import datasets

from broadsheet.dataset_scripts.pdf_folder import PdfFolder, PdfFolderConfig
from broadsheet.dataset_scripts.schema import document_features
from broadsheet.tokenization.input_checks import InputError

CLASSES = {
    "agreement": "kleister-nda",
    "paper": "docbank",
    "fara_amendment": "vrdu-pdfs/fara_amendment",
    "fcc_ad_buy": "vrdu-pdfs/fcc_ad_buy",
}
"""The classes, and the folder of each under `data_dir`."""


@dataclasses.dataclass
class DocumentClassesConfig(PdfFolderConfig):
    """
    Options of the classification set.

    Attributes:
        validation: share of each class for validation.
        test: share of each class for the test.
        max_per_class: use at most so many documents of a class.
        min_words: leave documents of fewer words out: what is long is the point.
        split_seed: another seed, other documents in each split.
        on_error, on_empty_page, password: as of dataset "pdf_folder".
    """

    on_error: str = "skip"
    on_empty_page: str = "ignore"
    validation: float = 0.15
    test: float = 0.25
    max_per_class: int | None = None
    min_words: int = 0
    split_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels_from_folders:
            raise InputError("labels_from_folders=True is for dataset 'pdf_folder'; the classes here are known.")
        if not (0 <= self.validation < 1 and 0 <= self.test < 1 and self.validation + self.test < 1):
            raise InputError(
                f"validation={self.validation!r} and test={self.test!r} are shares of each class that leave some for "
                "training; set both from 0 and their sum below 1."
            )


class DocumentClasses(PdfFolder):
    """
    A row per PDF with `label`. Each class is split by itself, at random.

    File names of two of these corpora say the class: rows carry them in `source` alone, and `id` is a digest.
    """

    BUILDER_CONFIG_CLASS = DocumentClassesConfig
    EXPECTED = f"a folder with the corpora {', '.join(CLASSES.values())}"

    def __init__(self, data_dir: str | os.PathLike | None = None, cache_dir: str | None = None, **options: Any):
        super().__init__(data_dir, cache_dir, **options)
        self.files = self._split()

    def _info(self) -> datasets.DatasetInfo:
        features = document_features(label=list(CLASSES))
        return datasets.DatasetInfo(description="Multi-page PDFs of four kinds.", features=features)

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """All PDFs, class by class; the splits are made when the options are known."""
        self._label_of: dict[str, str] = {}
        for label, folder in CLASSES.items():
            found = glob.glob(os.path.join(glob.escape(data_dir), *folder.split("/"), "**", "*.pdf"), recursive=True)
            self._label_of |= dict.fromkeys(sorted(found), label)
        return {"train": list(self._label_of)}

    def _split(self) -> dict[str, list[str]]:
        splits: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        for label in CLASSES:
            files = [file for file, own in self._label_of.items() if own == label]
            files = sorted(files, key=lambda file: _digest(f"{self.config.split_seed}\0{os.path.basename(file)}"))
            files = files[: self.config.max_per_class]
            tests = round(self.config.test * len(files))
            validations = round(self.config.validation * len(files))
            splits["test"] += files[:tests]
            splits["validation"] += files[tests : tests + validations]
            splits["train"] += files[tests + validations :]
        return {split: files for split, files in splits.items() if files}

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One PDF; None where it cannot be read or has too few words."""
        row = super().read_file(file)
        if row is None:
            return None
        if len(row["words"]) < self.config.min_words:
            self.record_skipped(file, f"It has {len(row['words'])} words, fewer than {self.config.min_words}.")
            return None
        return row | {"id": _digest(os.path.basename(file)), "label": self._label_of[file]}


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
