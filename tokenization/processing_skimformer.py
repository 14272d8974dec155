"""Processor of Skimformer."""

from typing import ClassVar

import numpy as np

from .boxes import grid_boxes
from .collation import TensorSpec
from .layout_window import Window
from .processing_layout import LayoutProcessor


class SkimformerProcessor(LayoutProcessor):
    """
    Words and boxes in, `input_ids`, `attention_mask`, `token_type_ids` and `bbox` out.

    `bbox [windows, length, 4]` is int64 in 0..1000: floor(1000 * x / page width), floor(1000 * y / page height), the
    box of the word for each of its sub-words (`subword_boxes="split"`: its share), [0, 0, 0, 0] for special tokens and
    padding. Without `page_sizes` boxes must already be in 0..1000.
    """

    tensors: ClassVar[dict[str, TensorSpec]] = {"bbox": TensorSpec(("length", 4), "int64", 0)}
    largest_coordinate: int = 1000

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """`bbox`: int64 `[length, 4]`, 0..1000."""
        return {"bbox": grid_boxes(window.boxes, window.page_ids, window.page_sizes, self.largest_coordinate)}
