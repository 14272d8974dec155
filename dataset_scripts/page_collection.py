"""Collections of scanned pages in the manner of IIT-CDIP: a folder for each document, a file for each page."""

import dataclasses
import glob
import os
from typing import Any

import datasets

from broadsheet.dataset_scripts import ocr_pages
from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.ocr_pages import (
    IMAGE_SUFFIXES,
    OCR_SUFFIXES,
    find_ocr,
    first_formats,
    natural_order,
    page_name,
    read_pages,
)
from broadsheet.dataset_scripts.schema import document_features
from broadsheet.tokenization.input_checks import InputError


@dataclasses.dataclass
class PageCollectionConfig(DocumentConfig):
    """
    Options of a collection of pages.

    Attributes:
        ocr: "files", pages are their OCR files, images without are left out; or "missing", Tesseract reads these.
        on_error: "raise" or "skip" a document that cannot be read (listed in `skipped_files`).
        languages: the text's languages, for Tesseract.
    """

    ocr: str = "files"
    on_error: str = "skip"
    languages: str = "eng"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, values in (("ocr", ("files", "missing")), ("on_error", ("raise", "skip"))):
            if getattr(self, option) not in values:
                raise InputError(f"{option}={getattr(self, option)!r} is unknown; choose one of {', '.join(values)}.")


class PageCollection(DocumentBuilder):
    """
    A row for each folder with OCR files (hOCR, ALTO, Tesseract's TSV; one or several pages each) or images directly in
    it, at any depth: its files in the order of the numbers in their names are the pages; of a page that was read in
    several formats, one counts. One split, "train".

    A file that lies in `data_dir` itself is a document of its own.
    """

    BUILDER_CONFIG_CLASS = PageCollectionConfig
    EXPECTED = "a folder with a sub-folder of OCR files (hOCR, ALTO, TSV) for each document"

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(description="Scanned documents, page by page.", features=document_features())

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """The first page of each document; `read_file` finds the others."""
        suffixes = OCR_SUFFIXES + IMAGE_SUFFIXES
        found = glob.glob(os.path.join(glob.escape(data_dir), "**", "*"), recursive=True)
        self._pages: dict[str, list[str]] = {}
        documents: dict[str, list[str]] = {}
        for path in natural_order(path for path in found if path.lower().endswith(suffixes) and os.path.isfile(path)):
            folder = os.path.dirname(path)
            documents.setdefault(page_name(path) if folder == data_dir else folder, []).append(path)
        for files in documents.values():
            self._pages[files[0]] = files
        return {"train": list(self._pages)}

    def companions(self, data_dir: str) -> list[str]:
        """The further pages."""
        return [page for pages in self._pages.values() for page in pages[1:]]

    @classmethod
    def code_files(cls) -> list[str]:
        """Also what joins the pages."""
        return [*super().code_files(), ocr_pages.__file__]

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One document; None where it is skipped."""
        files = self._pages[file]
        pages = first_formats(path for path in files if path.lower().endswith(OCR_SUFFIXES))
        if self.config.ocr == "missing":
            images = [path for path in files if path.lower().endswith(IMAGE_SUFFIXES) and find_ocr(path) is None]
            pages = natural_order(pages + images)
        folder = os.path.dirname(file)
        name = os.path.relpath(folder if folder != self.config.data_dir else file, self.config.data_dir)
        try:
            if not pages:
                raise InputError(f"{name} has images but no OCR; pass ocr='missing' to read them with Tesseract.")
            row = read_pages(pages, self.config.languages, file)
        except InputError as error:
            if self.config.on_error == "raise":
                raise
            self.record_skipped(file, str(error))
            return None
        return {"id": name.replace(os.sep, "/"), **row}
