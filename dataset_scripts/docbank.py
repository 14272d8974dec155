"""
DocBank: 500,000 pages of arXiv papers whose words are labelled with their semantic structure (Li et al., 2020).

One text file a page, one word a line, ten columns with tabs between them: word, x0, y0, x1, y1 (0..1000 of the page's
width and height), red, green, blue, font, label. Lines and figures of the page stand among the words as `##LTLine##`
and `##LTFigure##`. The order of the words is by their height on the page, so that it jumps between columns.
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

import datasets

from broadsheet.dataset_scripts import docbank_index
from broadsheet.dataset_scripts.builder import DocumentBuilder, DocumentConfig
from broadsheet.dataset_scripts.schema import check_row, clip_boxes, document_features
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

LABELS = (
    "abstract",
    "author",
    "caption",
    "date",
    "equation",
    "figure",
    "footer",
    "list",
    "paragraph",
    "reference",
    "section",
    "table",
    "title",
)
MARKS = ("##LTLine##", "##LTFigure##")
COLUMNS = ("token", "x0", "y0", "x1", "y1", "R", "G", "B", "font", "label")
PAGE_SIZE = (1000.0, 1000.0)

_CHOICES = {
    "segments": ("lines", "units"),
    "subset": (None, *docbank_index.SUBSETS),
    "on_error": ("raise", "skip", "drop_line"),
    "on_missing": ("raise", "skip"),
}


@dataclasses.dataclass
class DocBankConfig(DocumentConfig):
    """
    Options of DocBank.

    Attributes:
        subset: "la" for DocBank-LA (8,000 / 1,000 / 1,000 pages), "mix" for DocBank's part of MIX (20,000 / 2,500 /
            2,500), all pages when None. See `docbank_index.choose_pages`: the two have no page in common, and stand
            in for the lists that the authors of Skim-Attention did not publish.
        subset_seed: draws other subsets of the same sizes.
        pages: a text file with the names of the pages to load, one a line, for a list of one's own.
        keep_marks: keep the words that mark lines and figures; without them no word has the label "figure".
        segments: what `segment_ids` count. "lines" are made from the boxes alone: words that follow each other on one
            line, with gaps of at most one and a half times its height. "units" are the semantic structures: words that
            follow each other with the same label. Units tell the labels: for analysis, never as a model's input.
        on_error: for a line that is malformed, "raise" stops, "skip" leaves out the page and lists it in
            `skipped_files(dataset)`, "drop_line" leaves out the line (as DocBank's own loader does) and counts it.
        on_missing: for a page that the index names and the folder lacks, "raise" or "skip" (counted).
        clip_boxes: cut boxes at the page's edge; otherwise a page with a box beyond it is an error, or left out with
            `on_error="skip"`.
    """

    subset: str | None = None
    subset_seed: int = 0
    pages: str | None = None
    keep_marks: bool = False
    segments: str = "lines"
    on_error: str = "raise"
    on_missing: str = "raise"
    clip_boxes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, values in _CHOICES.items():
            if getattr(self, option) not in values:
                names = ", ".join(str(value) for value in values)
                raise InputError(f"{option}={getattr(self, option)!r} is unknown; choose one of {names}.")
        if self.pages is not None and self.subset is not None:
            raise InputError("pages and subset both choose pages of DocBank; pass one of them.")


class DocBank(DocumentBuilder):
    """
    DocBank as rows of one page each, with plain word labels (no B- and I-), thirteen classes.

    With the official lists beside the pages the splits are train, validation and test, in the lists' order; without
    (DocBank_samples) all pages are "train", sorted by name. A page without words, once marks and empty words are
    dropped, is left out and listed in `skipped_files(dataset)`.
    """

    BUILDER_CONFIG_CLASS = DocBankConfig
    EXPECTED = (
        "the folder with DocBank_500K_txt/*.txt and, for the splits, indexed_files/500K_train.txt, 500K_dev.txt, "
        "500K_test.txt (or MSCOCO_Format_Annotation/*.json), as in https://doc-analysis.github.io/docbank-page and "
        "https://github.com/doc-analysis/DocBank, or with DocBank_samples"
    )

    def __init__(self, data_dir: str | os.PathLike | None = None, cache_dir: str | None = None, **options: Any):
        # The pages are chosen before there is a config.
        self._options = options
        super().__init__(data_dir=data_dir, cache_dir=cache_dir, **options)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description="DocBank: semantic structures of the pages of arXiv papers.",
            homepage="https://doc-analysis.github.io/docbank-page",
            license="Apache-2.0 (annotations)",
            features=document_features(labels=LABELS),
        )

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """Pages by split, of the lists, the subset or the `pages` asked for."""
        self._reset_counts()
        self._lists: list[str] = []
        config = DocBankConfig(**self._options)
        folder, present = docbank_index.page_folder(data_dir)
        if not present:
            return {}
        self._image_folders = [folder, *docbank_index.image_folders(data_dir)]
        lists = docbank_index.find_lists(data_dir)
        self._lists = list(lists.values())
        splits = {split: docbank_index.read_list(path) for split, path in lists.items()}
        if config.subset is not None:
            docbank_index.check_lists(splits, data_dir, config.subset)
            splits = {
                split: docbank_index.choose_pages(pages, split, config.subset, config.subset_seed)
                for split, pages in splits.items()
            }
        splits = splits or {"train": sorted(present)}
        if config.pages is not None:
            path = os.path.abspath(os.path.expanduser(config.pages))
            self._lists.append(path)
            splits = docbank_index.select_listed(splits, docbank_index.read_list(path), path)
        found = {}
        for split, pages in splits.items():
            missing = [page for page in pages if page not in present]
            if missing and config.on_missing == "raise":
                raise InputError(
                    f"Of the {len(pages)} pages of split {split!r}, {len(missing)} are not in {folder}, the first "
                    f"{missing[0]}.txt; unpack all of DocBank_500K_txt.zip, or pass on_missing='skip'."
                )
            if missing:
                logger.warning("DocBank: %d of %d pages of %s are not in %s.", len(missing), len(pages), split, folder)
            found[split] = [os.path.join(folder, f"{page}.txt") for page in pages if page in present]
        return found

    def companions(self, data_dir: str) -> list[str]:
        """The lists that made the splits."""
        return self._lists

    @classmethod
    def code_files(cls) -> list[str]:
        """Also the choice of pages."""
        return [*super().code_files(), docbank_index.__file__]

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One page; None where it has no words, or is malformed and `on_error` is "skip"."""
        try:
            return self._row(file)
        except InputError as error:
            if self.config.on_error != "skip":
                raise
            self.record_skipped(file, str(error))
            return None

    def _row(self, file: str) -> dict[str, Any] | None:
        words, boxes, labels = [], [], []
        marks = empty = 0
        for word, box, label in self._read_lines(file):
            if word in MARKS and not self.config.keep_marks:
                marks += 1
            elif not word.strip():
                empty += 1
            else:
                words.append(word)
                boxes.append(box)
                labels.append(label)
        self._counts["marks"] += marks
        self._counts["empty"] += empty
        if not words:
            self.record_skipped(
                file, f"{file} has no words beside {marks} marks of lines and figures and {empty} empty words."
            )
            return None
        page_ids = [0] * len(words)
        if self.config.clip_boxes:
            boxes, clipped = clip_boxes(boxes, page_ids, [PAGE_SIZE])
            self._counts["clipped"] += clipped
        page = os.path.splitext(os.path.basename(file))[0]
        row = {
            "id": page,
            "words": words,
            "boxes": boxes,
            "page_ids": page_ids,
            "page_sizes": [PAGE_SIZE],
            "segment_ids": line_segments(words, boxes) if self.config.segments == "lines" else unit_segments(labels),
            "source": self._source(file, page),
            "labels": labels,
        }
        # Here already, so that on_error rules over boxes as well.
        check_row(row)
        self._counts["words"] += len(words)
        return row

    def _read_lines(self, file: str) -> list[tuple[str, list[float], str]]:
        try:
            # Not splitlines(): words hold other characters that it takes for line ends.
            with open(file, encoding="utf-8", newline="") as page:
                lines = page.read().split("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is not UTF-8 (byte {error.start}); copy it again.") from None
        found = []
        for number, line in enumerate(lines, start=1):
            if not line.rstrip("\r"):
                continue
            try:
                found.append(_parse(line.rstrip("\r"), number, file))
            except InputError:
                if self.config.on_error != "drop_line":
                    raise
                self._counts["lines"] += 1
        return found

    def _source(self, file: str, page: str) -> str:
        """The picture of the page, where it lies as distributed; else the text file."""
        images = [os.path.join(folder, f"{page}_ori.jpg") for folder in self._image_folders]
        return next((image for image in images if os.path.isfile(image)), file)

    def log_totals(self, rows: int) -> None:
        """Say how many marks, empty words and lines were dropped and boxes clipped."""
        counts = self._counts
        if counts["marks"] or counts["empty"]:
            logger.warning(
                "DocBank: dropped %d marks of lines and figures (unless keep_marks=True) and %d empty words; kept %d "
                "words of %d pages.",
                counts["marks"],
                counts["empty"],
                counts["words"],
                rows,
            )
        if counts["lines"]:
            logger.warning("DocBank: dropped %d malformed lines.", counts["lines"])
        if counts["clipped"]:
            logger.warning("DocBank: %d boxes reached beyond their page and were clipped.", counts["clipped"])
        self._reset_counts()

    def _reset_counts(self) -> None:
        self._counts = dict.fromkeys(("words", "marks", "empty", "lines", "clipped"), 0)


def line_segments(words: Sequence[str], boxes: Sequence[Sequence[float]]) -> list[int]:
    """
    The line of each word, counted from 0, from boxes alone.

    A word goes on with the line of the word before it when they overlap by half the height of the lower one, and it
    begins at most half a height left and one and a half right of that word's end. Marks are lines of their own.
    """
    segments: list[int] = []
    for index, (word, box) in enumerate(zip(words, boxes, strict=True)):
        goes_on = False
        if index and word not in MARKS and words[index - 1] not in MARKS:
            before = boxes[index - 1]
            height = min(before[3] - before[1], box[3] - box[1])
            overlap = min(before[3], box[3]) - max(before[1], box[1])
            goes_on = overlap >= 0.5 * height and -0.5 * height <= box[0] - before[2] <= 1.5 * height
        segments.append((segments[-1] + (not goes_on)) if index else 0)
    return segments


def unit_segments(labels: Sequence[str]) -> list[int]:
    """The run of equal labels of each word, counted from 0."""
    segments: list[int] = []
    for index, label in enumerate(labels):
        segments.append((segments[-1] + (label != labels[index - 1])) if index else 0)
    return segments


def _parse(line: str, number: int, file: str) -> tuple[str, list[float], str]:
    where = f"Line {number} of {file}"
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        raise InputError(
            f"{where} has {len(columns)} columns, not the {len(COLUMNS)} of DocBank ({', '.join(COLUMNS)}); copy the "
            "file again, or pass on_error='drop_line' or 'skip'."
        )
    try:
        box = [float(value) for value in columns[1:5]]
    except ValueError:
        raise InputError(
            f"{where} has the box {columns[1:5]}, which is no four numbers; copy the file again, or pass "
            "on_error='drop_line' or 'skip'."
        ) from None
    label = columns[9].strip()
    if label not in LABELS:
        raise InputError(
            f"{where} has the label {label!r}; the labels of DocBank are {', '.join(LABELS)}. Correct the line, or "
            "pass on_error='drop_line' or 'skip'."
        )
    return columns[0], box, label
