"""What the readers of OCR formats share: pages and lines of words gathered into a document, and what to report."""

import logging
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from broadsheet.documents.document import Document
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

Box = tuple[float, float, float, float]
OnEmptyPage = Literal["warn", "raise", "ignore"]

# A word that loses this share of its width or height at the page's edge is reported; a trifle is no news.
CLIPPED_SHARE = 0.1


class Piece(NamedTuple):
    """A piece of a line: a word as the file marks it (now and then two), or text that it marks as nothing."""

    text: str
    box: Box | None  # None where the file tells none
    line_number: int  # of the file, for messages


class NoWordsError(InputError):
    """
    A file without a word and without text that could not be placed.

    Attributes:
        page_sizes: of its pages, as those of `Document`.
    """

    def __init__(self, message: str, page_sizes: Sequence[tuple[float, float]] = ()) -> None:
        super().__init__(message)
        self.page_sizes = list(page_sizes)


@dataclass
class _Page:
    size: tuple[float, float] | None
    words: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    segment_ids: list[int] = field(default_factory=list)
    num_estimated: int = 0
    num_clipped: int = 0
    num_unread: int = 0
    has_guessed_size: bool = False


class DocumentBuilder:
    """
    Gathers the words of a file, page by page and line by line in the file's order, into a `Document`.

    Boxes that a file leaves out are estimated from the line's box by counting characters; boxes that reach over the
    page's edge are clipped to it. Both are counted and reported by one warning each.

    Args:
        path: the file, for messages.
        on_empty_page: what to do about a page without words: log a warning, raise `InputError`, or nothing.
    """

    def __init__(self, path: Path, on_empty_page: OnEmptyPage = "warn") -> None:
        if on_empty_page not in ("warn", "raise", "ignore"):
            raise InputError(f"on_empty_page is {on_empty_page!r}; it can be 'warn', 'raise' or 'ignore'.")
        self.path = path
        self.on_empty_page = on_empty_page
        self.num_empty_words = 0
        self._pages: list[_Page] = []
        self._num_segments = 0

    @property
    def num_pages(self) -> int:
        """How many pages were started."""
        return len(self._pages)

    def start_page(self, size: tuple[float, float] | None = None) -> None:
        """Begin the next page; without a size it is as large as its words need, and a warning says so."""
        self._pages.append(_Page(size))

    def set_page_size(self, size: tuple[float, float]) -> None:
        """Set the size of the page begun last, where the file tells it after the page's words began."""
        self._pages[-1].size = size

    @property
    def page_size(self) -> tuple[float, float] | None:
        """The size of the page begun last, as far as it is known."""
        return self._pages[-1].size

    def add_segment(self, pieces: Iterable[Piece], box: Box | None = None) -> None:
        """
        Add a line of words to the page begun last.

        Args:
            pieces: the line's words. One with white space within becomes several words, which share its box by their
                characters; one without a box gets its characters' share of the line's box.
            box: the line's box, needed where a piece has none.

        Raises:
            InputError: a box is missing, not finite, or has swapped corners.
        """
        page = self._pages[-1]
        texts, marked = [], []
        for piece in pieces:
            words = piece.text.split()
            if not words:
                self.num_empty_words += 1
                continue
            texts.append(words)
            marked.append(piece)
        if not marked:
            return
        shares: list[Box] = []
        if any(piece.box is None for piece in marked):
            if box is None:
                piece = next(piece for piece in marked if piece.box is None)
                raise InputError(
                    f"Line {piece.line_number} of {self.path} has the text {shorten(piece.text)!r} without a box, and "
                    "around it no line that has one; run the OCR again with word boxes."
                )
            self._check_box(box, marked[0])
            shares = share_box([" ".join(words) for words in texts], box)
        for index, (words, piece) in enumerate(zip(texts, marked, strict=True)):
            if piece.box is None:
                word_box = shares[index]
                page.num_estimated += len(words)
            else:
                word_box = piece.box
                self._check_box(word_box, piece)
                page.num_estimated += len(words) if len(words) > 1 else 0
            page.words += words
            page.boxes += share_box(words, word_box) if len(words) > 1 else [word_box]
            page.segment_ids += [self._num_segments] * len(words)
        self._num_segments += 1

    def count_unread(self, text: str) -> None:
        """Count text of the page begun last that stands outside of all lines and words, to report it."""
        self._pages[-1].num_unread += len(text.split())

    def build(self, source: str | None = None, segments: bool = True) -> Document:
        """
        The document, after reporting what was clipped, estimated or empty.

        Args:
            source: the document's `source`; the file's path when None.
            segments: whether the document has segment ids.

        Raises:
            NoWordsError: there are no words.
            InputError: there are pages of text without places, or a page's words lie outside of it.
        """
        num_pages = count(len(self._pages), "page")
        if not self._pages:
            raise InputError(f"{self.path} has no pages; check that the OCR ran on the right file.")
        if not any(page.words for page in self._pages):
            unread = sum(page.num_unread for page in self._pages)
            if unread:
                raise InputError(
                    f"{self.path} has text on its {num_pages}, but marks no words or lines in it, so that their "
                    "places are unknown; run the OCR again with word boxes."
                )
            raise NoWordsError(
                f"{self.path} has no words on any of its {num_pages}; run the OCR again on a better scan.",
                self._sizes(),
            )
        empty = [index + 1 for index, page in enumerate(self._pages) if not page.words]
        if empty and self.on_empty_page == "raise":
            raise InputError(f"{self.path} has no words on {name_pages(empty)}; leave these out or run the OCR again.")
        for index, page in enumerate(self._pages):
            self._fit(page, index)
        self._report(empty)
        return Document(
            words=[word for page in self._pages for word in page.words],
            boxes=[list(box) for page in self._pages for box in page.boxes],
            page_ids=[index for index, page in enumerate(self._pages) for _ in page.words],
            page_sizes=self._sizes(),
            segment_ids=[id_ for page in self._pages for id_ in page.segment_ids] if segments else None,
            source=source if source is not None else str(self.path),
        )

    def _sizes(self) -> list[tuple[float, float]]:
        return [page.size or (1.0, 1.0) for page in self._pages]

    def _check_box(self, box: Box, piece: Piece) -> None:
        x0, y0, x1, y1 = box
        if not np.isfinite(box).all():
            fault = "is not finite"
        elif x1 < x0 or y1 < y0:
            fault = "has swapped corners"
        else:
            return
        shown = ", ".join(f"{edge:g}" for edge in box)
        raise InputError(
            f"The box ({shown}) of {shorten(piece.text)!r} in line {piece.line_number} of {self.path} {fault}; "
            "correct it or leave the word out."
        )

    def _fit(self, page: _Page, index: int) -> None:
        """Give the page a size where it has none, and clip its boxes to it."""
        if not page.words:
            page.has_guessed_size = page.size is None
            return
        boxes = np.asarray(page.boxes, dtype=np.float64)
        if page.size is None:
            # A page of nothing but zeros has no extent; one unit is as good as any size.
            page.size = tuple(np.maximum(boxes[:, 2:].max(axis=0), 1.0).tolist())
            page.has_guessed_size = True
        width, height = page.size
        outside = (boxes[:, 0] >= width) | (boxes[:, 1] >= height) | (boxes[:, 2] < 0) | (boxes[:, 3] < 0)
        if 2 * outside.sum() > len(boxes):
            raise InputError(
                f"Page {index + 1} of {self.path} is {width:g} wide and {height:g} high, but {outside.sum()} of its "
                f"{len(boxes)} words lie outside of it; its size and boxes seem to be in different units, "
                "so correct the one or the other."
            )
        clipped = np.clip(boxes, 0, np.array([width, height, width, height]))
        extent = boxes[:, 2:] - boxes[:, :2]
        lost = extent - (clipped[:, 2:] - clipped[:, :2])
        page.num_clipped = int(((lost > CLIPPED_SHARE * extent).any(axis=1) | outside).sum())
        page.boxes = [(x0, y0, x1, y1) for x0, y0, x1, y1 in clipped.tolist()]

    def _report(self, empty: list[int]) -> None:
        if empty and self.on_empty_page == "warn":
            logger.warning(
                "%s has no words on %s of %d; if there is text to be seen, run the OCR again.",
                self.path,
                name_pages(empty),
                len(self._pages),
            )
        for attribute, message in (
            ("num_clipped", "%s has %s reaching over the page's edge on %s; their boxes were clipped to it."),
            (
                "num_estimated",
                "%s tells no boxes of their own for %s on %s; they were estimated by counting the line's characters.",
            ),
            ("num_unread", "%s has %s outside of all lines on %s, whose places are unknown; they were left out."),
        ):
            counts = [getattr(page, attribute) for page in self._pages]
            if any(counts):
                pages = [index + 1 for index, number in enumerate(counts) if number]
                logger.warning(message, self.path, count(sum(counts), "word"), name_pages(pages))
        guessed = [index + 1 for index, page in enumerate(self._pages) if page.has_guessed_size]
        if guessed:
            logger.warning(
                "%s does not tell the size of %s; it was taken to end where the last words do: put the page's image "
                "beside the file, under the name that the file gives it, to have the true size.",
                self.path,
                name_pages(guessed),
            )
        if self.num_empty_words:
            logger.info(
                "%s marks %s without text; they were passed over.", self.path, count(self.num_empty_words, "word")
            )


def share_box(texts: Sequence[str], box: Box) -> list[Box]:
    """
    Divide the box of a line between its words by their characters, one of which stands for each space.

    The line runs downwards where it has several characters and is higher than wide, and leftwards where most of its
    letters are of a right-to-left script.
    """
    x0, y0, x1, y1 = box
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    total = lengths.sum() + len(texts) - 1
    starts = np.concatenate([[0.0], np.cumsum(lengths + 1)[:-1]]) / total
    ends = starts + lengths / total
    downwards = total > 2 and y1 - y0 > x1 - x0
    if not downwards and _is_right_to_left("".join(texts)):
        starts, ends = 1 - ends, 1 - starts
    shares = zip(starts.tolist(), ends.tolist(), strict=True)
    if downwards:
        return [(x0, y0 + start * (y1 - y0), x1, y0 + end * (y1 - y0)) for start, end in shares]
    return [(x0 + start * (x1 - x0), y0, x0 + end * (x1 - x0), y1) for start, end in shares]


def _is_right_to_left(text: str) -> bool:
    directions = [unicodedata.bidirectional(character) for character in text]
    return sum(direction in ("R", "AL") for direction in directions) > directions.count("L")


def shorten(text: str) -> str:
    """A text for messages: 30 characters at most, white space as single spaces."""
    text = " ".join(text.split())
    return text if len(text) <= 30 else text[:27] + "..."


def count(number: int, noun: str) -> str:
    """`1 word`, `2 words`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def name_pages(numbers: list[int]) -> str:
    """`page 3`, or `pages 3, 4, 7`, of many pages only the first ten."""
    shown = ", ".join(map(str, numbers[:10]))
    if len(numbers) > 10:
        shown += f" and {len(numbers) - 10} more"
    return f"page {shown}" if len(numbers) == 1 else f"pages {shown}"
