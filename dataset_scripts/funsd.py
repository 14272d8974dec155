"""
FUNSD: 199 noisy scanned forms with questions, answers, headers and their links (Jaume et al., 2019, 1905.13538).

The official distribution has one JSON file per form: blocks ("entities") of words with boxes in pixels of the page
image. The JSON lacks the size of the page, so that it is read from the image's header.
"""

import csv
import dataclasses
import glob
import json
import logging
import os
import struct
from typing import Any

import datasets

from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.schema import clip_boxes, document_features
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import bio_labels

logger = logging.getLogger(__name__)

LABELS = bio_labels(("HEADER", "QUESTION", "ANSWER"))
ALL_LABELS = [*LABELS, "B-OTHER", "I-OTHER"]
ENTITY_TYPES = ("header", "question", "answer", "other")
FOLDERS = {"train": "training_data", "test": "testing_data"}


@dataclasses.dataclass
class FunsdConfig(DocumentConfig):
    """
    Options of FUNSD.

    Attributes:
        funsd_labels: how many types of blocks `labels` tell: 3, or 4 with "other", as FormNet counts them.
        keep_empty_words: keep the words whose text is empty (890 of 31,485); the field drops them.
        clip_boxes: cut boxes at the page's edge; otherwise a box beyond it is an error. The official files have none.
        questions: add `questions`: the text of each block of type question that is linked to answers asks for them.
    """

    funsd_labels: int = 3
    keep_empty_words: bool = False
    clip_boxes: bool = False
    questions: bool = False


class Funsd(DocumentBuilder):
    """
    FUNSD as rows with IOB2 `labels` (blocks of type "other" are O, unless `funsd_labels=4`), `entities`, `links` and
    `segment_ids`.

    `entities` keeps every block of the form, in the file's order, with `word_ids` counted after empty words were
    dropped (a block of empty words alone has none); `segment_ids` gives each word's position in it.
    """

    BUILDER_CONFIG_CLASS = FunsdConfig
    EXPECTED = (
        "the folder with dataset/training_data/annotations/*.json and dataset/testing_data/annotations/*.json, as in "
        "dataset.zip of https://guillaumejaume.github.io/FUNSD/"
    )

    def _info(self) -> datasets.DatasetInfo:
        if self.config.funsd_labels not in (3, 4):
            raise InputError(
                f"funsd_labels is {self.config.funsd_labels}; set it to 3, or to 4 for the type other too."
            )
        return datasets.DatasetInfo(
            description="FUNSD: form understanding in noisy scanned documents.",
            homepage="https://guillaumejaume.github.io/FUNSD/",
            license="non-commercial, research and educational purposes only",
            features=document_features(
                labels=self._labels(), entities=True, links=True, questions=self.config.questions
            ),
        )

    def _labels(self) -> list[str]:
        return ALL_LABELS if self.config.funsd_labels == 4 else LABELS

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """Annotation files by split; `data_dir` is the unpacked archive or its `dataset` folder."""
        self._sizes: dict[tuple[str, str], tuple[float, float]] | None = None
        self._words = self._dropped = self._clipped = 0
        inner = os.path.join(data_dir, "dataset")
        root = inner if os.path.isdir(inner) else data_dir
        return {
            split: sorted(glob.glob(os.path.join(glob.escape(root), folder, "annotations", "*.json")))
            for split, folder in FOLDERS.items()
        }

    def companions(self, data_dir: str) -> list[str]:
        """The page images and tables of page sizes that are there."""
        images = [_image_of(file) for files in self.files.values() for file in files]
        return [path for path in [*images, *_size_tables(data_dir)] if os.path.isfile(path)]

    def read_file(self, file: str) -> dict[str, Any]:
        """One form. Raises `InputError` where it is no FUNSD file or its page size is unknown."""
        blocks = _read_form(file)
        row: dict[str, Any] = {key: [] for key in ("words", "boxes", "segment_ids", "labels", "entities")}
        links = set()
        for position, block in enumerate(blocks):
            kept = [word for word in block["words"] if self.config.keep_empty_words or word["text"].strip()]
            self._words += len(block["words"])
            self._dropped += len(block["words"]) - len(kept)
            label = block["label"]
            is_outside = f"B-{label.upper()}" not in self._labels()
            for index, word in enumerate(kept):
                row["words"].append(word["text"])
                row["boxes"].append(word["box"])
                row["segment_ids"].append(position)
                row["labels"].append("O" if is_outside else f"{'I' if index else 'B'}-{label.upper()}")
            first = len(row["words"]) - len(kept)
            row["entities"].append(
                {"type": label, "word_ids": list(range(first, len(row["words"]))), "text": block["text"]}
            )
            links.update(block["links"])
        size = self._page_size(file)
        page_ids = [0] * len(row["words"])
        if self.config.clip_boxes:
            row["boxes"], clipped = clip_boxes(row["boxes"], page_ids, [size])
            self._clipped += clipped
        image = _image_of(file)
        return {
            "id": _stem(file),
            **row,
            "page_ids": page_ids,
            "page_sizes": [size],
            "source": image if os.path.isfile(image) else file,
            "links": sorted(links),
            **({"questions": _questions(row["entities"], sorted(links))} if self.config.questions else {}),
        }

    def log_totals(self, rows: int) -> None:
        """Say how many empty words were dropped and boxes clipped."""
        if self._dropped:
            logger.warning(
                "FUNSD: %d of %d words in %d forms are empty strings: dropped, unless keep_empty_words=True.",
                self._dropped,
                self._words,
                rows,
            )
        if self._clipped:
            logger.warning("FUNSD: %d boxes reached beyond their page and were clipped.", self._clipped)
        self._words = self._dropped = self._clipped = 0

    def _page_size(self, file: str) -> tuple[float, float]:
        image = _image_of(file)
        if os.path.isfile(image):
            return png_size(image)
        if self._sizes is None:
            self._sizes = _read_size_tables(_size_tables(self.config.data_dir))
        folder = os.path.basename(os.path.dirname(os.path.dirname(file)))
        size = self._sizes.get((folder, _stem(file)))
        if size is None:
            raise InputError(
                f"The page size of {file} is unknown, because FUNSD's JSON has none; put the page image at {image} "
                f"(it is in the official dataset.zip), or a line for it into {_size_tables(self.config.data_dir)[0]} "
                "(tab-separated: split, document, width, height)."
            )
        return size


def _questions(entities: list[dict[str, Any]], links: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """The blocks of type question, with the answers that they are linked to; blocks without words ask nothing."""
    answers: dict[int, list[dict[str, Any]]] = {}
    for source, target in links:
        pair = entities[source], entities[target]
        if (
            (pair[0]["type"], pair[1]["type"]) == ("question", "answer")
            and pair[0]["word_ids"]
            and pair[1]["word_ids"]
        ):
            answers.setdefault(source, []).append(pair[1])
    return [
        {
            "question": entities[source]["text"],
            "answers": [answer["text"] for answer in found],
            "spans": [[answer["word_ids"][0], answer["word_ids"][-1]] for answer in found],
        }
        for source, found in answers.items()
    ]


def png_size(path: str) -> tuple[float, float]:
    """Width and height in pixels from the first 24 bytes of a PNG file."""
    with open(path, "rb") as image:
        header = image.read(24)
    if len(header) < 24 or header[:8] != b"\x89PNG\r\n\x1a\n" or header[12:16] != b"IHDR":
        raise InputError(f"The page image {path} is not a PNG file or is cut short; copy it again.")
    width, height = struct.unpack(">II", header[16:24])
    return float(width), float(height)


def _stem(file: str) -> str:
    return os.path.splitext(os.path.basename(file))[0]


def _image_of(file: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(file)), "images", _stem(file) + ".png")


def _size_tables(data_dir: str) -> list[str]:
    folders = [data_dir, os.path.dirname(data_dir)] if os.path.basename(data_dir) == "dataset" else [data_dir]
    return [os.path.join(folder, "image_sizes.tsv") for folder in folders]


def _read_size_tables(paths: list[str]) -> dict[tuple[str, str], tuple[float, float]]:
    sizes = {}
    for path in paths:
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", newline="") as table:
            for number, line in enumerate(csv.DictReader(table, delimiter="\t"), start=2):
                try:
                    sizes[line["split"], line["document"]] = (float(line["width"]), float(line["height"]))
                except (KeyError, TypeError, ValueError):
                    raise InputError(
                        f"Line {number} of {path} is not a page size; its columns are split, document, width, height."
                    ) from None
    return sizes


def _read_form(file: str) -> list[dict[str, Any]]:
    """The blocks of a form: label, text, words (text, box), links as pairs of positions."""
    try:
        with open(file, encoding="utf-8") as stream:
            form = json.load(stream)["form"]
        position = {block["id"]: index for index, block in enumerate(form)}
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} is not valid JSON ({error}); copy it again from the official distribution."
        ) from None
    except (KeyError, TypeError):
        raise InputError(f"{file} is not a FUNSD annotation; it must hold a list 'form' of blocks with ids.") from None
    blocks = []
    for block in form:
        where = f"Block {block['id']} of {file}"
        if block.get("label") not in ENTITY_TYPES:
            raise InputError(
                f"{where} has the label {block.get('label')!r}; the labels of FUNSD are {', '.join(ENTITY_TYPES)}."
            )
        try:
            words = [{"text": str(word["text"]), "box": [float(x) for x in word["box"]]} for word in block["words"]]
            links = [(position[source], position[target]) for source, target in block["linking"]]
            blocks.append({"label": block["label"], "text": block["text"], "words": words, "links": links})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{where} is malformed ({type(error).__name__}: {error}); a block has 'text', 'label', 'words' with "
                "'text' and 'box', and 'linking' with pairs of block ids."
            ) from None
    return blocks
