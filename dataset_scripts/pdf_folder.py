"""A folder of PDF files as a dataset, optionally with the names of its sub-folders as document classes."""

import dataclasses
import glob
import inspect
import os
from importlib import metadata
from typing import Any

import datasets

from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.schema import document_features
from broadsheet.tokenization.input_checks import InputError


@dataclasses.dataclass
class PdfFolderConfig(DocumentConfig):
    """
    Options of a folder of PDF files.

    Attributes:
        labels_from_folders: the first sub-folder of a file is its class (column `label`).
        on_error: "raise" stops at the first file that cannot be read; "skip" leaves it out, logs it and lists it in
            `skipped_files(dataset)`.
        on_empty_page: "warn", "raise" or "ignore", for pages without words (scans without a text layer).
        password: opens encrypted files.
    """

    labels_from_folders: bool = False
    on_error: str = "raise"
    on_empty_page: str = "warn"
    password: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, values in (("on_error", ("raise", "skip")), ("on_empty_page", ("warn", "raise", "ignore"))):
            if getattr(self, option) not in values:
                raise InputError(f"{option}={getattr(self, option)!r} is unknown; choose one of {', '.join(values)}.")
        if self.password is not None:
            # A recipe's `password: 1234` is a number to YAML.
            self.password = str(self.password)


class PdfFolder(DocumentBuilder):
    """
    Every PDF under `data_dir`, at any depth, sorted by path; one split, "train".

    The file's path stands in `id` (relative) and `source` (absolute) alone: names often give the class away.
    """

    BUILDER_CONFIG_CLASS = PdfFolderConfig
    EXPECTED = "a folder with PDF files, in sub-folders of any depth"

    def _info(self) -> datasets.DatasetInfo:
        label = None
        if self.config.labels_from_folders:
            label = sorted({self._label(file) for file in self.files["train"]})
        return datasets.DatasetInfo(description="PDF files of one folder.", features=document_features(label=label))

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """All PDF files, sorted by their path under `data_dir`."""
        found = glob.glob(os.path.join(glob.escape(data_dir), "**", "*"), recursive=True)
        files = [path for path in found if path.lower().endswith(".pdf") and os.path.isfile(path)]
        return {"train": sorted(files, key=lambda path: os.path.relpath(path, data_dir).split(os.sep))}

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One PDF file; None where it cannot be read and `on_error` is "skip"."""
        from broadsheet.documents import read_pdf

        try:
            document = read_pdf(file, on_empty_page=self.config.on_empty_page, password=self.config.password)
        except (InputError, OSError, RuntimeError) as error:
            if self.config.on_error == "raise":
                raise
            self.record_skipped(file, str(error))
            return None
        row = {
            "id": os.path.relpath(file, self.config.data_dir).replace(os.sep, "/"),
            "words": document.words,
            "boxes": document.boxes,
            "page_ids": document.page_ids,
            "page_sizes": document.page_sizes,
            "segment_ids": document.segment_ids,
            "source": file,
        }
        if self.config.labels_from_folders:
            row["label"] = self._label(file)
        return row

    def _label(self, file: str) -> str:
        parts = os.path.relpath(file, self.config.data_dir).split(os.sep)
        if len(parts) < 2:
            raise InputError(
                f"{file} lies in no sub-folder of {self.config.data_dir}; with labels_from_folders=True each file "
                "lies in the folder of its class."
            )
        return parts[0]

    @classmethod
    def code_files(cls) -> list[str]:
        """Also the PDF reader."""
        import broadsheet.documents

        folder = os.path.dirname(inspect.getfile(broadsheet.documents))
        return [*super().code_files(), *sorted(glob.glob(os.path.join(glob.escape(folder), "*.py")))]

    @classmethod
    def _code_digest(cls) -> str:
        return f"{super()._code_digest()}-pypdfium2-{metadata.version('pypdfium2')}"
