"""
SROIE: scanned receipts with text lines and four values each (Huang et al., 2019, 2103.10213), ICDAR 2019.

The boxes are those of text lines; they are split into words by each word's share of the line's letters. The values
(company, date, address, total) say nothing of where they stand; they are sought in the words (`value_alignment`).
"""

import csv
import dataclasses
import glob
import inspect
import json
import logging
import os
from typing import Any

import datasets

from broadsheet.dataset_scripts import held_out, value_alignment, value_mentions
from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.schema import clip_boxes, document_features
from broadsheet.dataset_scripts.value_alignment import Place, align_values, alignment_report
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import bio_labels

logger = logging.getLogger(__name__)

KEYS = ("company", "date", "address", "total")
SPLITS = ("train", "test")
Box = tuple[float, float, float, float]


@dataclasses.dataclass
class SroieConfig(DocumentConfig):
    """
    Options of SROIE.

    Attributes:
        occurrences: "all" places that state a value are entities, or the "first" alone.
        min_similarity: a text found nowhere is taken to be the run of words most like it, if they have at least this
            share of letters in common (values and lines were typed apart and differ in letters); 1 for none of it.
        total_beside_its_name: of the places that state the total, keep those in a line with "total", if there are any;
            the price of a single article is often the same number.
        clip_boxes: cut boxes at the image's edge; otherwise a box beyond it is an error. The training receipts have
            none.
        held_out: move so large a share of the training receipts to a split "held_out", vendor by vendor: no vendor is
            in both (see `held_out.vendor_groups`). The official test receipts come without answers.
        held_out_seed: another seed, another choice of vendors.
    """

    occurrences: str = "all"
    min_similarity: float = 0.85
    total_beside_its_name: bool = True
    clip_boxes: bool = False
    held_out: float = 0.0
    held_out_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        held_out.check_share(self.held_out)
        value_alignment.check_options(self.occurrences, self.min_similarity)


class Sroie(DocumentBuilder):
    """
    SROIE as rows with IOB2 `labels`, `entities` (one per place that states a value) and `segment_ids`, the text lines.

    An entity's `text` is the official value; a value that was not found is an entity without `word_ids`. Where a split
    has no `entities` folder, `labels` and `entities` are null. Empty values of the key files are left out.
    """

    BUILDER_CONFIG_CLASS = SroieConfig
    EXPECTED = (
        "the folder with train/box/*.txt, train/entities/*.txt and train/img/*.jpg (and test), as the ICDAR 2019 "
        "competition's data is passed on (SROIE2019)"
    )

    def __init__(self, data_dir: str | os.PathLike | None = None, cache_dir: str | None = None, **options: Any):
        super().__init__(data_dir, cache_dir, **options)
        if self.config.held_out:
            values = [dict(_read_keys(_beside(file, "entities", ".txt"))) for file in self.files.get("train", [])]
            names, addresses = ([given.get(key, "") for given in values] for key in ("company", "address"))
            vendors = held_out.vendor_groups(names, addresses)
            self.files = held_out.hold_out(self.files, vendors, self.config.held_out, self.config.held_out_seed)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description="SROIE: company, date, address and total of scanned receipts.",
            homepage="https://rrc.cvc.uab.es/?ch=13",
            features=document_features(labels=bio_labels(KEYS), entities=True),
        )

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """Files of text lines by split."""
        self._sizes: dict[str, dict[str, tuple[float, float]]] = {}
        self._rows: list[dict[str, Any]] = []
        root = glob.escape(data_dir)
        return {split: sorted(glob.glob(os.path.join(root, split, "box", "*.txt"))) for split in SPLITS}

    def companions(self, data_dir: str) -> list[str]:
        """Key files, images and tables of image sizes that are there."""
        files = [file for files in self.files.values() for file in files]
        paths = [_beside(file, *place) for file in files for place in (("entities", ".txt"), ("img", ".jpg"))]
        paths += [os.path.join(data_dir, split, "image_sizes.tsv") for split in SPLITS]
        return [path for path in paths if os.path.isfile(path)]

    def read_file(self, file: str) -> dict[str, Any]:
        """One receipt. Raises `InputError` where a file is malformed or the image's size is unknown."""
        row: dict[str, Any] = {"id": _stem(file), "words": [], "boxes": [], "segment_ids": []}
        for number, (box, text) in enumerate(_read_lines(file)):
            for word, word_box in split_line(text, box):
                row["words"].append(word)
                row["boxes"].append(word_box)
                row["segment_ids"].append(number)
        size = self._page_size(file)
        row["page_ids"] = [0] * len(row["words"])
        row["page_sizes"] = [size]
        if self.config.clip_boxes:
            row["boxes"], _ = clip_boxes(row["boxes"], row["page_ids"], [size])
        image = _beside(file, "img", ".jpg")
        row["source"] = image if os.path.isfile(image) else file
        row["labels"] = row["entities"] = None
        keys = _beside(file, "entities", ".txt")
        if os.path.isdir(os.path.dirname(keys)):
            beside = _beside_total(row["words"], row["boxes"])

            def preferred(key: str, place: Place) -> bool:
                return key != "total" or not self.config.total_beside_its_name or place.first in beside

            row["labels"], row["entities"] = align_values(
                row["words"], _read_keys(keys), self.config.occurrences, self.config.min_similarity, preferred
            )
            self._rows.append({"id": row["id"], "entities": row["entities"]})
        return row

    def log_totals(self, rows: int) -> None:
        """Say what share of the values was found, and which were not."""
        if self._rows:
            report = alignment_report(self._rows)
            logger.warning("SROIE: %s.", report)
            for name, key, value in report.misses:
                logger.info("%s: %s %r was not found.", name, key, value)
        self._rows = []

    def _page_size(self, file: str) -> tuple[float, float]:
        image = _beside(file, "img", ".jpg")
        if os.path.isfile(image):
            return _image_size(image)
        folder = os.path.dirname(os.path.dirname(file))
        table = os.path.join(folder, "image_sizes.tsv")
        if folder not in self._sizes:
            self._sizes[folder] = _read_sizes(table) if os.path.isfile(table) else {}
        size = self._sizes[folder].get(_stem(file))
        if size is None:
            raise InputError(
                f"The image size of {file} is unknown; put the image at {image}, or a line for it into {table} "
                "(tab-separated: document, width, height)."
            )
        return size

    @classmethod
    def code_files(cls) -> list[str]:
        """Also what seeks the values."""
        return [
            *super().code_files(),
            *(inspect.getfile(module) for module in (held_out, value_alignment, value_mentions)),
        ]


def split_line(text: str, box: Box) -> list[tuple[str, Box]]:
    """The words of a text line, each with the part of its box (x0, y0, x1, y1) that its letters' share gives it."""
    x0, y0, x1, y1 = box
    text = text.strip()
    words = []
    position = 0
    for word in text.split():
        start = text.index(word, position)
        position = start + len(word)
        left, right = (x0 + (x1 - x0) * offset / len(text) for offset in (start, position))
        words.append((word, (left, y0, right, y1)))
    return words


def _beside_total(words: list[str], boxes: list[Box]) -> set[int]:
    """Words whose middle is at the height of a word with "total" in it."""
    named = [box for word, box in zip(words, boxes, strict=True) if "total" in word.casefold()]
    return {
        index
        for index, box in enumerate(boxes)
        if any(total[1] <= (box[1] + box[3]) / 2 <= total[3] for total in named)
    }


def _stem(file: str) -> str:
    return os.path.splitext(os.path.basename(file))[0]


def _beside(file: str, folder: str, suffix: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(file)), folder, _stem(file) + suffix)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as stream:
            return stream.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); put the receipt's file there.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}); convert it, or copy it again.") from None


def _read_lines(file: str) -> list[tuple[Box, str]]:
    """Boxes (the rectangle around the four corners) and texts of the lines."""
    lines = []
    for number, line in enumerate(_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        parts = line.rstrip("\r").split(",", 8)
        try:
            corners = [float(part) for part in parts[:8]]
        except ValueError:
            corners = []
        if len(parts) < 9 or len(corners) < 8:
            raise InputError(
                f"Line {number} of {file} is {line!r}; a text line is eight numbers (four corners) and its text, "
                "separated by commas."
            )
        xs, ys = corners[::2], corners[1::2]
        lines.append(((min(xs), min(ys), max(xs), max(ys)), parts[8]))
    if not any(text.strip() for _, text in lines):
        raise InputError(f"{file} has no text lines; copy it again.")
    return lines


def _read_keys(path: str) -> list[tuple[str, str]]:
    """The values that are given, as pairs (key, value)."""
    try:
        values = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not valid JSON ({error}); copy it again.") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} is no JSON object with the keys {', '.join(KEYS)}; copy it again.")
    for key, value in values.items():
        if key not in KEYS or not isinstance(value, str):
            raise InputError(f"{path} gives {key!r} as {value!r}; it has texts for the keys {', '.join(KEYS)}.")
    return [(key, values[key]) for key in KEYS if values.get(key, "").strip()]


def _image_size(path: str) -> tuple[float, float]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return float(image.width), float(image.height)
    except (UnidentifiedImageError, OSError):
        raise InputError(f"The image {path} is damaged or no image; copy it again.") from None


def _read_sizes(path: str) -> dict[str, tuple[float, float]]:
    sizes = {}
    with open(path, encoding="utf-8", newline="") as table:
        for number, line in enumerate(csv.DictReader(table, delimiter="\t"), start=2):
            try:
                sizes[line["document"]] = (float(line["width"]), float(line["height"]))
            except (KeyError, TypeError, ValueError):
                raise InputError(
                    f"Line {number} of {path} is no image size; its columns are document, width, height."
                ) from None
    return sizes
