"""Processor of FormNet."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from .bioes import BioesTags, bioes_tags
from .collation import TensorSpec
from .layout_window import Window
from .processing_layout import LayoutProcessor
from .token_graph import CHAIN_LINKS, WORD_NEIGHBORS, token_graph


class FormNetProcessor(LayoutProcessor):
    """
    Words and boxes in, `input_ids`, `attention_mask`, `bbox` and `graph_neighbors` out.

    `bbox [windows, length, 4]` is float32 in 0..1000, x in thousandths of the page's width, y of its height: for each
    sub-word its share of the word's box (`subword_boxes="word"`: the word's own), [0, 0, 0, 0] for questions and
    padding. Keep it in float32 under half precision too. Without `page_sizes` boxes must already be in this range.

    `graph_neighbors [windows, length, 10]` is int32, places of tokens in the window, -1 for none: up to eight edges of
    the beta-skeleton over the centres of the window's words, page by page and in the unit of the page, at the first
    piece of each word; then the piece before and the piece after. Windows carry no special tokens: the model's global
    token stands for the document.

    Args:
        tokenizer: BERT-multilingual's, or any fast tokenizer.
        subword_boxes: "split" or "word".
        only_label_first_subword: label the first sub-word of each word and ignore (-100) the others.
        id2label: index -> label of each class.
    """

    tensors: ClassVar[dict[str, TensorSpec]] = {
        "bbox": TensorSpec(("length", 4), "float32", 0.0),
        "graph_neighbors": TensorSpec(("length", WORD_NEIGHBORS + CHAIN_LINKS), "int32", -1, holds_positions=True),
    }
    largest_coordinate: int = 1000
    add_special_tokens: ClassVar[bool] = False

    def __init__(
        self,
        tokenizer: Any,
        subword_boxes: str = "split",
        only_label_first_subword: bool = True,
        id2label: Mapping[Any, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, subword_boxes, only_label_first_subword, id2label, **kwargs)

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """`bbox`: float32 `[length, 4]`, 0..1000; `graph_neighbors`: int32 `[length, 10]`."""
        boxes = window.boxes
        if window.page_sizes is not None:
            sizes = window.page_sizes[np.maximum(window.page_ids, 0)]
            boxes = self.largest_coordinate * boxes / np.concatenate([sizes, sizes], axis=1)
        return {
            # A box that overhangs its page by rounding lies on the page's edge.
            "bbox": np.minimum(boxes, self.largest_coordinate).astype(np.float32),
            "graph_neighbors": token_graph(window.word_ids, window.page_ids, window.document.boxes),
        }

    def bioes_labels(self, entities: Iterable[Mapping[str, Any]], num_words: int) -> BioesTags:
        """
        The BIOES label of each word of a document from its entities (`type`, `word_ids`), and a count of what BIOES
        cannot carry; see `bioes_tags`. The labels go into `word_labels`.
        """
        return bioes_tags([(entity["type"], entity["word_ids"]) for entity in entities], num_words)
