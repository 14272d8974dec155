"""Processor of LongLayoutLM."""

import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import numpy as np

from .boxes import grid_boxes
from .collation import TensorSpec
from .input_checks import InputError
from .layout_window import Window
from .neighbor_blocks import neighbor_tables
from .page_stacking import stack_pages
from .processing_layout import LayoutProcessor
from .spatial_neighbors import grid_centers, morton_order, nearest_tokens

logger = logging.getLogger(__name__)

PATTERNS = ("sliding_window", "sliding_window_random", "distance", "distance_sliding_window", "union")
SPATIAL_PATTERNS = ("distance", "distance_sliding_window", "union")
# With more pages under each other a line of type is less than a row of the 2-D tables high.
MANY_PAGES = 10
# Processors that have warned of many pages; kept here so that a warning does not change a processor's fingerprint.
_told_of_pages: WeakSet[Any] = WeakSet()


class LongLayoutLMProcessor(LayoutProcessor):
    """
    Words and boxes in, `input_ids`, `attention_mask` and `bbox` out, and what the spatial patterns need.

    `bbox [windows, length, 4]` is int64 in 0..1023 (`largest_coordinate`): the pages of the window under each other,
    each scaled to the width of the first, and the stack scaled to the tables; the box of the word for each of its
    sub-words, [0, 0, 0, 0] for special tokens and padding. Without `page_sizes` boxes must already be in that range.

    For the patterns "distance", "distance_sliding_window" and "union" also `neighbors [windows, length, M]`, int32:
    the tokens of the window nearest to each by the distance of their boxes' centres in the unscaled stack, itself
    among them, ordered by (distance, index), -1 for none; special tokens and questions have none and are none's. And
    `spatial_order [windows, length]`, int32, from which the collator makes the block tables. Padded batches of
    "distance" and "union" carry these: `block_queries`, `block_keys`, `block_members`.

    Args:
        tokenizer: Longformer's, BigBird's, or any fast tokenizer.
        subword_boxes: "word" or "split".
        only_label_first_subword: label the first sub-word of each word and ignore (-100) the others.
        id2label: index -> label of each class.
        attention_pattern: as in the model's config.
        num_neighbors: as in the model's config.
        attention_window: as in the model's config.
        page_stacking: "stack"; or "page": each page fills the 2-D tables, for documents of many pages. Neighbours are
            those of the stack either way.
        largest_coordinate: of `bbox`. 1023, all rows of the tables but one; 1000 for tables that a LayoutLM trained.
    """

    def __init__(
        self,
        tokenizer: Any,
        subword_boxes: str = "word",
        only_label_first_subword: bool = True,
        id2label: Mapping[Any, str] | None = None,
        attention_pattern: str = "sliding_window",
        num_neighbors: int = 128,
        attention_window: int = 512,
        page_stacking: str = "stack",
        largest_coordinate: int = 1023,
        **kwargs: Any,
    ) -> None:
        if attention_pattern not in PATTERNS:
            raise InputError(f"attention_pattern is {attention_pattern!r}; choose one of {', '.join(PATTERNS)}.")
        if page_stacking not in ("stack", "page"):
            raise InputError(f"page_stacking is {page_stacking!r}; choose 'stack' or 'page'.")
        if num_neighbors < 1:
            raise InputError(f"num_neighbors is {num_neighbors}; a token has at least itself, set it to 1 or more.")
        if attention_window < 2 or attention_window % 2:
            raise InputError(
                f"attention_window is {attention_window}; half of it lies before a token, set it to an even number."
            )
        if largest_coordinate < 1:
            raise InputError(
                f"largest_coordinate is {largest_coordinate}; boxes need at least 0 and 1, set it to 1000."
            )
        super().__init__(tokenizer, subword_boxes, only_label_first_subword, id2label, **kwargs)
        self.attention_pattern = attention_pattern
        self.num_neighbors = num_neighbors
        self.attention_window = attention_window
        self.page_stacking = page_stacking
        self.largest_coordinate = largest_coordinate

    def configure(self, config: Any) -> None:
        """
        Take `attention_pattern`, `num_neighbors` and `attention_window` from a `LongLayoutLMConfig`, and no larger
        coordinates than its tables have rows for.
        """
        for name in ("attention_pattern", "num_neighbors", "attention_window"):
            setattr(self, name, getattr(config, name))
        rows = config.max_2d_position_embeddings
        self.largest_coordinate = min(self.largest_coordinate, rows - 1)

    @property
    def neighbors_needed(self) -> int:
        """How many nearest tokens the pattern reads for each token; 0 where it reads none."""
        if self.attention_pattern == "distance_sliding_window":
            return self.attention_window + 1
        return self.num_neighbors if self.attention_pattern in SPATIAL_PATTERNS else 0

    @property
    def tensors(self) -> dict[str, TensorSpec]:  # type: ignore[override]
        """The form of the model's own tensors, under this pattern."""
        declared = {"bbox": TensorSpec(("length", 4), "int64", 0)}
        if self.neighbors_needed:
            declared["neighbors"] = TensorSpec(("length", self.neighbors_needed), "int32", -1, holds_positions=True)
            declared["spatial_order"] = TensorSpec(("length",), "int32", -1)
        return declared

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """`bbox` int64 `[length, 4]`; `neighbors` int32 `[length, M]`; `spatial_order` int32 `[length]`."""
        boxes, pages, sizes, largest = window.boxes, window.page_ids, window.page_sizes, self.largest_coordinate
        on_page = pages >= 0
        stacked, width, height = boxes, float(largest), float(largest)
        if sizes is not None and on_page.any():
            stacked, width, height = stack_pages(boxes, pages, sizes)
        if self.page_stacking == "stack" and sizes is not None:
            self._warn_of_many_pages(pages[on_page])
            whole = np.array([[width, height]])
            bbox = grid_boxes(stacked, np.zeros_like(pages), whole, largest)
        else:
            bbox = grid_boxes(boxes, pages, sizes, largest)
        made = {"bbox": bbox}
        if self.neighbors_needed:
            tokens = np.flatnonzero(on_page)
            centers = grid_centers(stacked[tokens], width)
            near = nearest_tokens(centers, self.neighbors_needed)
            neighbors = np.full((len(pages), self.neighbors_needed), -1, dtype=np.int32)
            # -1, for none, is the last of them.
            neighbors[tokens] = np.append(tokens, -1).astype(np.int32).take(near, mode="wrap")
            order = np.full(len(pages), -1, dtype=np.int32)
            order[tokens] = morton_order(centers)
            made |= {"neighbors": neighbors, "spatial_order": order}
        return made

    def batch_tensors(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The block tables of "distance" and "union"; none for other patterns, or without neighbours."""
        if self.attention_pattern not in ("distance", "union"):
            return {}
        if "neighbors" not in batch:
            return {}  # features whose layout was left out on purpose, to merge predictions; a model would say so
        if "spatial_order" not in batch:
            raise InputError("The features have neighbors but no spatial_order; make them with this processor.")
        mask = batch["attention_mask"] != 0
        lengths = np.where(mask.any(1), mask.shape[1] - mask[:, ::-1].argmax(1), 0)
        window = self.attention_window if self.attention_pattern == "union" else None
        return neighbor_tables(batch["neighbors"], batch["spatial_order"], lengths, window)

    def _warn_of_many_pages(self, pages: np.ndarray) -> None:
        if len(pages) and int(pages.max() - pages.min()) >= MANY_PAGES and self not in _told_of_pages:
            _told_of_pages.add(self)
            logger.warning(
                "A window spans %d pages under each other, so that a line of type is about a row of the 2-D tables "
                "high; page_stacking='page' keeps each page's own coordinates. Later windows are not reported.",
                int(pages.max() - pages.min()) + 1,
            )
