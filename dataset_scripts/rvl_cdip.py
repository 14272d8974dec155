"""RVL-CDIP: 400,000 scanned pages in 16 classes (Harley et al., 2015), with OCR in files beside the images."""

import dataclasses
import logging
import os
from typing import Any

import datasets

from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.ocr_pages import find_ocr, read_pages
from broadsheet.dataset_scripts.schema import document_features
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

CLASSES = (
    "letter",
    "form",
    "email",
    "handwritten",
    "advertisement",
    "scientific report",
    "scientific publication",
    "specification",
    "file folder",
    "news article",
    "budget",
    "invoice",
    "presentation",
    "questionnaire",
    "resume",
    "memo",
)
SPLITS = {"train": "train", "val": "validation", "test": "test"}
"""Official label files and the names of the splits."""


@dataclasses.dataclass
class RvlCdipConfig(DocumentConfig):
    """
    Options of RVL-CDIP.

    Attributes:
        ocr_dir: folder of the OCR, laid out as `images/`; by default it lies beside the images.
        on_missing_ocr: "tesseract" reads the image; "raise" or "skip" (listed in `skipped_files`).
        on_error: "raise" or "skip" a page whose OCR cannot be read or has no words, as many scans of file folders.
        languages: the text's languages, for Tesseract.
    """

    ocr_dir: str | None = None
    on_missing_ocr: str = "tesseract"
    on_error: str = "skip"
    languages: str = "eng"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, values in (
            ("on_missing_ocr", ("tesseract", "raise", "skip")),
            ("on_error", ("raise", "skip")),
        ):
            if getattr(self, option) not in values:
                raise InputError(f"{option}={getattr(self, option)!r} is unknown; choose one of {', '.join(values)}.")


class RvlCdip(DocumentBuilder):
    """
    A row per line `path class` of `labels/train.txt`, `val.txt` and `test.txt`, with the words of its OCR and `label`.

    The label files decide; images are needed for drawing, and where there is no OCR. Pages are named by their place in
    the label files: paths of this corpus carry nothing of the class, but no model needs them either.
    """

    BUILDER_CONFIG_CLASS = RvlCdipConfig
    EXPECTED = "the official folder with labels/train.txt, labels/val.txt, labels/test.txt and images/"

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description="RVL-CDIP: scanned pages in 16 classes.",
            homepage="https://adamharley.com/rvl-cdip/",
            features=document_features(label=CLASSES),
        )

    def __init__(self, data_dir: str | os.PathLike | None = None, cache_dir: str | None = None, **options: Any):
        self._ocr_dir = options.get("ocr_dir")
        self._leave_out = options.get("on_missing_ocr") == "skip"
        super().__init__(data_dir, cache_dir, **options)

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """The OCR of each image that a label file names, or the image where there is none, in its order."""
        self._pages: dict[str, tuple[str, str, int]] = {}
        self._tables: list[str] = []
        found: dict[str, list[str]] = {}
        for name, split in SPLITS.items():
            table = os.path.join(data_dir, "labels", f"{name}.txt")
            if os.path.isfile(table):
                self._tables.append(table)
                found[split] = self._read_table(table, data_dir, split)
        return found

    def _read_table(self, table: str, data_dir: str, split: str) -> list[str]:
        files, missing = [], 0
        images = os.path.join(data_dir, "images")
        with open(table, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                path, _, label = line.strip().rpartition(" ")
                if not line.strip():
                    continue
                if not path or not label.isdigit() or int(label) >= len(CLASSES):
                    raise InputError(
                        f"Line {number} of {table} is {line.strip()!r:.80}, not 'path class' with a class of "
                        f"0..{len(CLASSES) - 1}; get a fresh copy of the label files."
                    )
                image = os.path.join(images, path)
                file = find_ocr(path, [self._ocr_dir] if self._ocr_dir else [images]) or image
                if not os.path.isfile(file):
                    if not self._leave_out:
                        raise InputError(
                            f"Line {number} of {table} names {path}, of which there is neither OCR nor image; copy "
                            "it, set ocr_dir, or pass on_missing_ocr='skip' to leave such pages out."
                        )
                    missing += 1
                    continue
                if file in self._pages:
                    raise InputError(
                        f"Line {number} of {table} names {path}, but {file} is that of an earlier line; name each "
                        "page once, in one of the label files."
                    )
                self._pages[file] = (image, f"{split}-{number:06d}", int(label))
                files.append(file)
        if missing:
            logger.warning("%d pages of %s have neither OCR nor image and are left out.", missing, table)
        return files

    def companions(self, data_dir: str) -> list[str]:
        """The label files."""
        return self._tables

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One page; None where it is skipped."""
        image, number, label = self._pages[file]
        if file == image and self.config.on_missing_ocr != "tesseract":
            sentence = f"There is no OCR of {file}; set ocr_dir, or on_missing_ocr='tesseract' to read the image."
            if self.config.on_missing_ocr == "raise":
                raise InputError(sentence)
            self.record_skipped(file, sentence)
            return None
        try:
            row = read_pages([file], self.config.languages, image)
        except InputError as error:
            if self.config.on_error == "raise":
                raise
            self.record_skipped(file, str(error))
            return None
        return {"id": number, **row, "label": CLASSES[label]}
