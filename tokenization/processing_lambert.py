"""Processor of LAMBERT."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .collation import TensorSpec
from .document_input import DocumentInput
from .input_checks import InputError, describe_word
from .layout_window import Window
from .page_stacking import stack_pages
from .processing_layout import LayoutProcessor

# Boxes that come without page sizes are in units of the page's height; x reaches further on a landscape page.
LARGEST_ASPECT = 10
# The end of a stack of pages, as the model takes it: larger numbers are pixels or points.
LARGEST_HEIGHT = 100


class LambertProcessor(LayoutProcessor):
    """
    Words and boxes in, `input_ids`, `attention_mask` and `bbox` out.

    `bbox [windows, length, 4]` is float32, all coordinates divided by the height of the page, so that a page is
    (0, 0, width / height, 1): the box of the word for each of its sub-words, [0, 0, 0, 0] for special tokens and
    padding. Keep it in float32 under half precision too. Without `page_sizes` boxes must already be in this unit.

    Args:
        tokenizer: RoBERTa's, or any fast tokenizer.
        subword_boxes: "word" or "split".
        only_label_first_subword: label the first sub-word of each word and ignore (-100) the others.
        id2label: index -> label of each class.
        page_stacking: "page": each page by its own height, its top at 0; "stack": the pages of the window under each
            other, scaled to one width, in units of the first page's height.
    """

    tensors: ClassVar[dict[str, TensorSpec]] = {"bbox": TensorSpec(("length", 4), "float32", 0.0)}
    largest_coordinate: int = 1
    integer_boxes: ClassVar[bool] = False

    def __init__(
        self,
        tokenizer: Any,
        subword_boxes: str = "word",
        only_label_first_subword: bool = True,
        id2label: Mapping[Any, str] | None = None,
        page_stacking: str = "page",
        **kwargs: Any,
    ) -> None:
        if page_stacking not in ("page", "stack"):
            raise InputError(f"page_stacking is {page_stacking!r}; choose 'page' or 'stack'.")
        super().__init__(tokenizer, subword_boxes, only_label_first_subword, id2label, **kwargs)
        self.page_stacking = page_stacking

    @property
    def largest_corner(self) -> tuple[float, float]:
        """Without page sizes the page's width is not known."""
        return LARGEST_ASPECT, 1

    def check_boxes(self, document: DocumentInput) -> None:
        """As for all processors, within `largest_corner` where there are no page sizes."""
        if document.page_sizes is None:
            outside = (document.boxes > 2 * self.largest_corner).any(axis=1)
            if outside.any():
                index = int(outside.argmax())
                raise InputError(
                    f"The box {document.boxes[index].tolist()} of {describe_word(document.words, index)} of "
                    f"{document.name} is outside the model's range, 0..1 page heights down and 0..{LARGEST_ASPECT} "
                    "across; pass page_sizes=[(width, height), ...] so that boxes are normalised."
                )
        else:
            super().check_boxes(document)

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """`bbox`: float32 `[length, 4]`, in units of the page's height."""
        boxes, page_ids, page_sizes = window.boxes, window.page_ids, window.page_sizes
        if page_sizes is not None and self.page_stacking == "stack":
            boxes, _, _ = stack_pages(boxes, page_ids, page_sizes)
            seen = page_ids[page_ids >= 0]
            boxes = boxes / (page_sizes[seen.min(), 1] if len(seen) else 1.0)
            if boxes.max(initial=0) > LARGEST_HEIGHT:
                raise InputError(
                    f"Pages {seen.min()} to {seen.max()} of {window.document.name} make a stack of more than "
                    f"{LARGEST_HEIGHT} heights of its first page, the most that the model takes; set "
                    "page_stacking='page', or max_length lower so that windows have fewer pages."
                )
        elif page_sizes is not None:
            boxes = boxes / page_sizes[np.maximum(page_ids, 0), 1][:, None]
        return {"bbox": boxes.astype(np.float32)}
