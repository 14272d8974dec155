"""The interchange type of the toolkit: a document as words, boxes and pages."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from broadsheet.tokenization.input_checks import InputError, check_document


@dataclass
class Document:
    """
    A document as its reader found it: words in the source's reading order, each with its box on its page.

    Args:
        words: the words, at least one; each without white space.
        boxes: one (x0, y0, x1, y1) per word in the unit of `page_sizes`, origin top left, y downwards.
        page_ids: the page of each word, numbered from 0, ascending. Pages without words are allowed.
        page_sizes: (width, height) of each page as it is displayed; readers of PDF give points of 1/72 inch.
        segment_ids: the text line or block of each word, or `None` where the source tells none.
        source: the path of the file the document was read from, for drawing on the page itself.

    Raises:
        InputError: one sentence naming the faulty word, box or page.
    """

    words: list[str]
    boxes: list[list[float]]
    page_ids: list[int]
    page_sizes: list[tuple[float, float]]
    segment_ids: list[int] | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        name = f"document {self.source}" if self.source else "the document"
        check_document(self.words, self.boxes, self.page_ids, self.page_sizes, name)
        if self.segment_ids is not None and len(self.segment_ids) != len(self.words):
            raise InputError(
                f"{name[:1].upper() + name[1:]} has {len(self.words)} words but {len(self.segment_ids)} segment ids; "
                "pass exactly one for each word, or none at all."
            )

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    @property
    def num_pages(self) -> int:
        """The number of pages, those without words included."""
        return len(self.page_sizes)

    def word_ids_of_page(self, page: int) -> list[int]:
        """The positions in `words` of the words on page `page` (numbered from 0), in reading order."""
        return [index for index, page_id in enumerate(self.page_ids) if page_id == page]

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dictionary, ready for JSON or a dataset's row."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> "Document":
        """Build a document from a dictionary that has its fields among its keys; other keys are ignored."""
        missing = [key for key in ("words", "boxes", "page_ids", "page_sizes") if key not in row]
        if missing:
            raise InputError(
                f"A document needs words, boxes, page_ids and page_sizes, but {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing; add {'it' if len(missing) == 1 else 'them'}."
            )
        return cls(
            words=list(row["words"]),
            boxes=[[float(edge) for edge in box] for box in row["boxes"]],
            page_ids=list(row["page_ids"]),
            page_sizes=[_as_size(size) for size in row["page_sizes"]],
            segment_ids=list(row["segment_ids"]) if row.get("segment_ids") is not None else None,
            source=row.get("source"),
        )


def _as_size(size: Sequence[float]) -> tuple[float, float]:
    width, height = size
    return float(width), float(height)
