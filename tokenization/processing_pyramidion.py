"""Processor of Pyramidion."""

from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np

from .boxes import grid_boxes
from .collation import TensorSpec, pad_features
from .document_input import IGNORED_LABEL
from .input_checks import InputError
from .layout_batch import LayoutBatch
from .layout_window import Window
from .processing_layout import LayoutProcessor


class PyramidionProcessor(LayoutProcessor):
    """
    Words in, with boxes or without, `input_ids`, `attention_mask` and, with boxes, `bbox` out; summaries as `labels`.

        batch = processor(text=article, text_target=summary, truncation=True, max_length=8192, return_tensors="pt")
        texts = processor.post_process_summaries(model.generate(**processor(text=article, return_tensors="pt")))

    `bbox [windows, length, 4]` is int64 in 0..1000: floor(1000 * x / page width), floor(1000 * y / page height), for
    models with `use_layout=True`; [0, 0, 0, 0] for special tokens and padding. Documents without boxes have none.
    """

    tensors: ClassVar[dict[str, TensorSpec]] = {"bbox": TensorSpec(("length", 4), "int64", 0)}
    largest_coordinate: int = 1000
    boxes_required: ClassVar[bool] = False

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """`bbox`: int64 `[length, 4]`, 0..1000; nothing for documents without boxes."""
        if not window.document.has_boxes:
            return {}
        return {"bbox": grid_boxes(window.boxes, window.page_ids, window.page_sizes, self.largest_coordinate)}

    def __call__(  # type: ignore[override]
        self,
        text: Any = None,
        text_pair: Any = None,
        *args: Any,
        text_target: Any = None,
        max_target_length: int | None = None,
        **kwargs: Any,
    ) -> LayoutBatch:
        """
        As every processor of the family, and:

        Args:
            text: a document may be one string too, which is split at white space.
            text_target: the summary of the document, a string, or one for each document of a batch; adds `labels`
                `[documents, target length]`, the summary's tokens and the token that ends it, -100 for padding.
            max_target_length: the most tokens of a summary, that last one included; longer ones are cut.

        Raises:
            InputError: for input that cannot be used, naming document and word.
        """
        if isinstance(text, str) and text_pair is None and kwargs.get("documents") is None:
            text = text.split()
        if text_target is None:
            return super().__call__(text, text_pair, *args, **kwargs)
        if not isinstance(text_target, Collection) or not len(text_target):
            raise InputError(f"text_target is {text_target!r}; pass a summary, or a list of one for each document.")
        if max_target_length is not None and max_target_length < 1:
            raise InputError(f"max_target_length={max_target_length} leaves no room for a token; set it to 1 or more.")
        return_tensors, padding = kwargs.pop("return_tensors", None), kwargs.get("padding", False)
        batch = super().__call__(text, text_pair, *args, **{**kwargs, "padding": False, "return_tensors": None})
        summaries = [text_target] if isinstance(text_target, str) else list(text_target)
        rows = self._rows(batch, kwargs)
        labels = self.target_ids(summaries, max_target_length)
        if len(labels) != len(rows):
            raise InputError(
                f"There are {len(rows)} documents but {len(labels)} summaries; pass one text_target for each "
                "document, and leave return_overflowing_tokens out."
            )
        for row, ids in zip(rows, labels, strict=True):
            row["labels"] = ids
        if not padding and return_tensors is None:
            return LayoutBatch(
                rows[0] if isinstance(text_target, str) else {name: [row[name] for row in rows] for name in rows[0]}
            )
        length = kwargs.get("max_length") if padding == "max_length" else None
        specs = self.tensor_specs()
        targets = pad_features(
            [{"input_ids": row.pop("labels")} for row in rows], {"input_ids": TensorSpec(pad_value=IGNORED_LABEL)}
        )
        if not padding and len({len(row["input_ids"]) for row in rows}) > 1:
            raise InputError("The documents differ in length and make no tensor; pass padding=True.")
        arrays = pad_features(
            rows, specs, self.tokenizer.padding_side, kwargs.get("pad_to_multiple_of") if padding else None, length
        )
        arrays["labels"] = targets["input_ids"]
        return LayoutBatch(arrays, tensor_type=return_tensors)

    def _rows(self, batch: LayoutBatch, kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        if batch["input_ids"] and not isinstance(batch["input_ids"][0], list):
            return [dict(batch)]
        return [{name: values[row] for name, values in batch.items()} for row in range(len(batch["input_ids"]))]

    def target_ids(self, summaries: list[str], max_length: int | None = None) -> list[list[int]]:
        """The tokens of each summary and the one that ends it; at most `max_length` of them."""
        end = self.tokenizer.eos_token_id
        end = self.tokenizer.sep_token_id if end is None else end
        if end is None:
            raise InputError(
                f"{type(self.tokenizer).__name__} has no token that ends a summary; set tokenizer.eos_token."
            )
        for place, summary in enumerate(summaries):
            if not isinstance(summary, str) or not summary.strip():
                raise InputError(f"The summary of document {place} is {summary!r}; pass a text with at least a word.")
        # Lines and double spaces are the source's layout, not the summary's.
        texts = [" ".join(summary.split()) for summary in summaries]
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        room = None if max_length is None else max(max_length - 1, 0)
        return [[*ids[:room], end] for ids in encoded]

    def post_process_summaries(self, outputs: Any) -> list[str]:
        """
        Generated tokens as texts.

        Args:
            outputs: what `model.generate` returned, int `[documents, length]`; -100 and special tokens are left out.
        """
        outputs = getattr(outputs, "sequences", outputs)
        pad = self.tokenizer.pad_token_id or 0
        rows = [[pad if token < 0 else int(token) for token in row] for row in outputs]
        return [text.strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]
