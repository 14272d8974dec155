"""
CORD: receipts with 30 kinds of fields (Park et al., 2019), version 2, as JSON files or as Parquet; and CORD-r, the
same receipts with segments of an OCR system and fields that may be scattered (Zhang et al., 2023, 2310.11016).

In CORD a field is a line of words ("valid_line") of one category. In CORD-r it is a sequence of characters, which may
stand in several segments, in another order than they are written.
"""

import dataclasses
import glob
import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import datasets

from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.schema import check_row, clip_boxes, document_features
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import bio_labels

logger = logging.getLogger(__name__)

CATEGORIES = (
    "menu.nm", "menu.num", "menu.unitprice", "menu.cnt", "menu.discountprice", "menu.price", "menu.itemsubtotal",
    "menu.vatyn", "menu.etc", "menu.sub_nm", "menu.sub_unitprice", "menu.sub_cnt", "menu.sub_price", "menu.sub_etc",
    "void_menu.nm", "void_menu.price", "sub_total.subtotal_price", "sub_total.discount_price",
    "sub_total.service_price", "sub_total.othersvc_price", "sub_total.tax_price", "sub_total.etc",
    "total.total_price", "total.total_etc", "total.cashprice", "total.changeprice", "total.creditcardprice",
    "total.emoneyprice", "total.menutype_cnt", "total.menuqty_cnt",
)  # fmt: skip
OTHER = "other"
"""Words of no category, in some releases."""
JSON_FOLDERS = {"train": "train", "dev": "validation", "test": "test"}
PARQUET_SPLITS = ("train", "validation", "test")
CORD_R_LISTS = {"train": "train", "val": "validation", "test": "test"}
Box = list[float]


@dataclasses.dataclass
class CordConfig(DocumentConfig):
    """
    Options of CORD.

    Attributes:
        clip_boxes: cut boxes at the image's edge; otherwise a box beyond it is an error.
    """

    clip_boxes: bool = False


class Cord(DocumentBuilder):
    """
    CORD v2 as rows with IOB2 `labels`, `entities` (the lines that have a category, in the file's order) and
    `segment_ids` (the lines). Empty words are dropped. Of a Parquet file only the column `ground_truth` is read.
    """

    BUILDER_CONFIG_CLASS = CordConfig
    EXPECTED = (
        "the folder with train/json/*.json (and dev, test), or data/train-*.parquet (and validation, test), as in "
        "https://github.com/clovaai/cord and https://huggingface.co/datasets/naver-clova-ix/cord-v2"
    )

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description="CORD: receipts with menu items, sub-totals and totals.",
            homepage="https://github.com/clovaai/cord",
            license="CC BY 4.0",
            features=document_features(labels=bio_labels(CATEGORIES), entities=True),
        )

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """JSON files, one receipt each, or Parquet files of many, by split."""
        for root in (data_dir, os.path.join(data_dir, "CORD")):
            found = {
                split: sorted(glob.glob(os.path.join(glob.escape(root), folder, "json", "*.json")))
                for folder, split in JSON_FOLDERS.items()
            }
            if any(found.values()):
                return found
        return {
            split: sorted(
                glob.glob(os.path.join(glob.escape(data_dir), f"{split}-*.parquet"))
                + glob.glob(os.path.join(glob.escape(data_dir), "data", f"{split}-*.parquet"))
            )
            for split in PARQUET_SPLITS
        }

    def _generate_examples(self, files: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        for file in files:
            for name, where, truth in _receipts(file):
                row = self._row(name, where, file, truth)
                check_row(row)
                yield row["id"], row

    def _row(self, name: str, where: str, file: str, truth: Any) -> dict[str, Any]:
        row: dict[str, Any] = {key: [] for key in ("words", "boxes", "segment_ids", "labels", "entities")}
        try:
            size = truth["meta"]["image_size"]
            page = (float(size["width"]), float(size["height"]))
            lines = [
                (line["category"], [(str(word["text"]).strip(), _rectangle(word["quad"])) for word in line["words"]])
                for line in truth["valid_line"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{where} is no receipt of CORD ({type(error).__name__}: {error}); it has 'meta' with 'image_size', "
                "and 'valid_line' with 'category' and 'words' of 'text' and 'quad'."
            ) from None
        for number, (category, line_words) in enumerate(lines):
            _check_category(category, where)
            first = len(row["words"])
            for text, box in line_words:
                if text:
                    row["words"].append(text)
                    row["boxes"].append(box)
                    row["segment_ids"].append(number)
            word_ids = list(range(first, len(row["words"])))
            row["labels"] += _tags(category, [word_ids], row["words"])[first:]
            if word_ids and category != OTHER:
                text = " ".join(row["words"][first:])
                row["entities"].append({"type": category, "word_ids": word_ids, "text": text})
        return _finish(row, name, file, page, self.config.clip_boxes)


@dataclasses.dataclass
class CordRConfig(DocumentConfig):
    """
    Options of CORD-r.

    Attributes:
        split_at_entities: cut a word where one field ends and another begins ("1x15,000" is a count and a price), as
            the annotation does by characters. Otherwise words are what stands between spaces, each belongs to the
            field that has most of its letters, and 2 % of the fields have no word left.
        clip_boxes: cut boxes at the image's edge; otherwise a box beyond it is an error. The official files have none.
    """

    split_at_entities: bool = True
    clip_boxes: bool = False


class CordR(DocumentBuilder):
    """
    CORD-r as rows with IOB2 `labels`, `entities` and `segment_ids`.

    The words of an entity are in its own order, which may not be that of the words in the row, and need not follow
    each other; its `labels` show each run of its words as an entity. The names of the categories are CORD's
    ("menu.sub_nm", which CORD-r writes "menu.sub.nm").
    """

    BUILDER_CONFIG_CLASS = CordRConfig
    EXPECTED = (
        "the folder CORD-r with data.train.txt, data.val.txt, data.test.txt and jsons/*.json, as in "
        "https://github.com/chongzhangFDU/Token-Path-Prediction-Datasets"
    )

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description="CORD-r: receipts with fields that may be scattered over segments.",
            homepage="https://github.com/chongzhangFDU/Token-Path-Prediction-Datasets",
            license="CC BY 4.0",
            features=document_features(labels=bio_labels(CATEGORIES), entities=True),
        )

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """The JSON files that the lists of the splits name, in their order."""
        self._lost = 0
        inner = os.path.join(data_dir, "CORD-r")
        root = inner if os.path.isdir(inner) else data_dir
        self._lists = [os.path.join(root, f"data.{name}.txt") for name in CORD_R_LISTS]
        self._lists = [path for path in self._lists if os.path.isfile(path)]
        return {split: _listed(root, os.path.join(root, f"data.{name}.txt")) for name, split in CORD_R_LISTS.items()}

    def companions(self, data_dir: str) -> list[str]:
        """The lists of the splits."""
        return self._lists

    def read_file(self, file: str) -> dict[str, Any]:
        """One receipt. Raises `InputError` where it is no receipt of CORD-r."""
        truth = _read_json(file)
        try:
            page = (float(truth["img"]["width"]), float(truth["img"]["height"]))
            segments = [
                [
                    (int(part["id"]), str(part["text"]), [float(edge) for edge in part["box"]])
                    for part in block["words"]
                ]
                for block in truth["document"]
            ]
            fields = [
                (str(field["label"]).replace("menu.sub.", "menu.sub_"), [int(index) for index in field["word_idx"]])
                for field in truth["label_entities"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{file} is no receipt of CORD-r ({type(error).__name__}: {error}); it has 'img' with width and "
                "height, 'document' with segments of characters, and 'label_entities' with 'label' and 'word_idx'."
            ) from None
        owner = _owners(fields, {index for segment in segments for index, _, _ in segment}, file)
        row: dict[str, Any] = {key: [] for key in ("words", "boxes", "segment_ids", "entities")}
        words_of: list[list[int]] = []
        for number, segment in enumerate(segments):
            for characters in _words(segment, owner if self.config.split_at_entities else {}):
                row["words"].append("".join(text for _, text, _ in characters))
                row["boxes"].append(_union([box for _, _, box in characters]))
                row["segment_ids"].append(number)
                words_of.append([index for index, _, _ in characters])
        field_of = [_majority([owner.get(index) for index in characters]) for characters in words_of]
        word_of = {index: word for word, characters in enumerate(words_of) for index in characters}
        labels = ["O"] * len(row["words"])
        for number, (category, indices) in enumerate(fields):
            _check_category(category, file)
            in_order = dict.fromkeys(word_of[index] for index in indices if index in word_of)
            word_ids = [word for word in in_order if field_of[word] == number]
            if not word_ids:
                self._lost += 1
                continue
            for word, tag in enumerate(_tags(category, _runs(word_ids), labels)):
                labels[word] = tag if tag != "O" else labels[word]
            text = " ".join(row["words"][word] for word in word_ids)
            row["entities"].append({"type": category, "word_ids": word_ids, "text": text})
        row["labels"] = labels
        return _finish(row, os.path.splitext(os.path.basename(file))[0], file, page, self.config.clip_boxes)

    def log_totals(self, rows: int) -> None:
        """Say how many fields have no word of their own."""
        if self._lost:
            logger.warning("CORD-r: %d fields have no word of their own and are left out.", self._lost)
        self._lost = 0


def _receipts(file: str) -> Iterator[tuple[str, str, Any]]:
    """Name, place for messages, and annotation of each receipt of a file."""
    stem = os.path.splitext(os.path.basename(file))[0]
    if not file.endswith(".parquet"):
        yield stem, file, _read_json(file)
        return
    import pyarrow
    from pyarrow import parquet

    split = stem.split("-")[0]
    try:
        column = parquet.read_table(file, columns=["ground_truth"])["ground_truth"].to_pylist()
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{file} cannot be read ({reason}); it needs the column ground_truth, copy it again."
        ) from None
    for number, text in enumerate(column):
        where = f"Row {number} of {file}"
        try:
            truth = json.loads(text)
        except (json.JSONDecodeError, TypeError) as error:
            raise InputError(f"{where} has no valid JSON in ground_truth ({error}); copy the file again.") from None
        meta = truth.get("meta") if isinstance(truth, dict) else None
        image_id = meta.get("image_id", number) if isinstance(meta, dict) else number
        yield f"{split}_{image_id}", where, truth


def _read_json(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not valid JSON ({error}); copy it again.") from None


def _listed(root: str, path: str) -> list[str]:
    """The JSON files of a list, whose lines are "images/NAME.png jsons/NAME.json"."""
    if not os.path.isfile(path):
        return []
    files = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            name = line.split()[-1]
            file = os.path.join(root, *name.split("/"))
            if not name.endswith(".json") or not os.path.isfile(file):
                raise InputError(f"Line {number} of {path} names {name!r}, which is not in {root}; put it there.")
            files.append(file)
    return files


def _check_category(category: Any, where: str) -> None:
    if category not in (*CATEGORIES, OTHER):
        raise InputError(f"{where} has the category {category!r}; the categories of CORD are {', '.join(CATEGORIES)}.")


def _owners(fields: list[tuple[str, list[int]]], known: set[int], file: str) -> dict[int, int]:
    """The field of each character that has one."""
    owner: dict[int, int] = {}
    for number, (category, indices) in enumerate(fields):
        for index in indices:
            if index not in known or index in owner:
                fault = "which the document does not have" if index not in known else "which another field has too"
                raise InputError(f"Field {number} ({category}) of {file} has the character {index}, {fault}.")
            owner[index] = number
    return owner


def _words(segment: list[tuple[int, str, Box]], owner: dict[int, int]) -> Iterator[list[tuple[int, str, Box]]]:
    """The characters of each word: between spaces, and of one field where owners are given."""
    word: list[tuple[int, str, Box]] = []
    for character in segment:
        ends = not character[1].strip()
        if word and (ends or owner.get(character[0]) != owner.get(word[-1][0])):
            yield word
            word = []
        if not ends:
            word.append(character)
    if word:
        yield word


def _majority(owners: list[int | None]) -> int | None:
    """The most frequent one; of equal ones the first."""
    return max(dict.fromkeys(owners), key=owners.count)


def _runs(word_ids: list[int]) -> list[list[int]]:
    """Words that follow each other."""
    runs: list[list[int]] = []
    for word in sorted(word_ids):
        if runs and word == runs[-1][-1] + 1:
            runs[-1].append(word)
        else:
            runs.append([word])
    return runs


def _tags(category: str, runs: list[list[int]], words: Sequence[Any]) -> list[str]:
    """IOB2 labels of all words, those outside the runs O."""
    tags = ["O"] * len(words)
    for run in runs if category != OTHER else []:
        for word in run:
            tags[word] = f"{'B' if word == run[0] else 'I'}-{category}"
    return tags


def _rectangle(quad: dict[str, Any]) -> Box:
    xs, ys = ([float(quad[f"{axis}{corner}"]) for corner in (1, 2, 3, 4)] for axis in "xy")
    return [min(xs), min(ys), max(xs), max(ys)]


def _union(boxes: list[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return [min(lefts), min(tops), max(rights), max(bottoms)]


def _finish(row: dict[str, Any], name: str, file: str, page: tuple[float, float], clip: bool) -> dict[str, Any]:
    page_ids = [0] * len(row["words"])
    if clip:
        row["boxes"], _ = clip_boxes(row["boxes"], page_ids, [page])
    return {"id": name, **row, "page_ids": page_ids, "page_sizes": [page], "source": file}
