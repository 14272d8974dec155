"""The average skim-attention of chosen words over a document, per word and per block."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, AutoProcessor

from broadsheet.devices import choose_device
from broadsheet.documents import Document
from broadsheet.maps.blocks import enclosing_box, text_blocks
from broadsheet.modeling.skim_attention import skim_probabilities
from broadsheet.registration import MODELS
from broadsheet.tokenization.input_checks import InputError

# Tokens of a window where the model itself has no limit.
LONGEST_WINDOW = 2048


@dataclass(frozen=True)
class BlockAttention:
    """
    A block of text.

    Attributes:
        word_ids: its words.
        page: its page, from 0.
        box: (x0, y0, x1, y1) around it, in the units of the document.
        mean: the mean of the attention of its tokens; NaN where it was in no window with the chosen words.
        total: the attention that all its tokens get together.
    """

    word_ids: list[int]
    page: int
    box: list[float]
    mean: float
    total: float


@dataclass(frozen=True)
class AttentionMap:
    """
    What the chosen words attend to.

    The attention of a token is the mean over all heads and over all chosen tokens, in every window in which both
    stand. In one window the attention of all tokens, special ones included, adds up to 1.

    Attributes:
        selected: the chosen words.
        words: `[words]`, per word the mean over its tokens; NaN for a word that was in no window with a chosen one.
        totals: `[words]`, per word the sum over its tokens.
        special: what the special tokens get together.
        blocks: the blocks of text, in reading order.
        windows: in how many windows the document was read.
        windows_averaged: in how many of them a chosen word stood.
    """

    selected: list[int]
    words: np.ndarray
    totals: np.ndarray
    special: float
    blocks: list[BlockAttention]
    windows: int
    windows_averaged: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON: NaN as None, pages from 1."""
        return {
            "selected": self.selected,
            "words": [_number(value) for value in self.words],
            "totals": [_number(value) for value in self.totals],
            "special": _number(self.special),
            "blocks": [
                {
                    "words": block.word_ids,
                    "page": block.page + 1,
                    "box": block.box,
                    "mean": _number(block.mean),
                    "total": _number(block.total),
                }
                for block in self.blocks
            ],
            "windows": self.windows,
            "windows_averaged": self.windows_averaged,
        }


class SkimMapper:
    """
    Computes maps with a model that has a skim-attention: Skimformer, LongSkimformer or SkimmingMask.

    Args:
        model: the base model, or one with a head.
        processor: its processor.
        max_length: tokens of a window; when None the model's limit, or 2,048 where it has none.
        stride: tokens that neighbouring windows share; a quarter of `max_length` when None.
        device: where to run; a GPU if there is one, when None.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        max_length: int | None = None,
        stride: int | None = None,
        device: str | None = None,
    ):
        self.model = model.base_model.eval()
        if not hasattr(self.model, "skim_attention") and not hasattr(self.model, "skim"):
            raise InputError(
                f"A '{model.config.model_type}' has no skim-attention to draw; take a skimformer, a long_skimformer "
                "or a skimming_mask."
            )
        self.processor = processor
        limit = _token_limit(self.model)
        self.max_length = limit or LONGEST_WINDOW if max_length is None else max_length
        if max_length is not None and max_length < 1:
            raise InputError(f"max_length is {max_length}; pass the most tokens of a window, at least one.")
        if limit is not None and self.max_length > limit:
            raise InputError(f"max_length={self.max_length} is more than the {limit} tokens that the model takes.")
        self.stride = self.max_length // 4 if stride is None else stride
        self.device = choose_device(device)
        self.model.to(self.device)

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], **kwargs: Any) -> "SkimMapper":
        """
        Load model and processor from a folder or a repository of the Hub.

        Raises:
            InputError: there is no model, or none with a skim-attention.
        """
        try:
            config = AutoConfig.from_pretrained(path)
            if config.model_type == "formnet":
                raise InputError(
                    f"{path} is a 'formnet', whose heads are drawn one by one: use broadsheet graph FILE --model "
                    f"{path} with --select TEXT or --word NUMBER."
                )
            if config.model_type not in ("skimformer", "long_skimformer", "skimming_mask"):
                raise InputError(
                    f"{path} is a '{config.model_type}', which has no skim-attention; take a skimformer or its like."
                )
            # With the head that was saved, so that no part of the checkpoint is missing or left over.
            classes = MODELS[config.model_type].models.values()
            named = [each for each in classes if each.__name__ in (config.architectures or [])]
            model = (named[0] if named else AutoModel).from_pretrained(path)  # type: ignore[attr-defined]
            processor = AutoProcessor.from_pretrained(path)
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"The model {path} cannot be loaded: {error}") from error
        if not hasattr(processor, "post_process_token_classification"):
            raise InputError(
                f"{path} holds a model but no processor_config.json; save the processor beside it with "
                "processor.save_pretrained."
            )
        return cls(model, processor, **kwargs)

    @torch.inference_mode()
    def __call__(self, document: Document, selected: Sequence[int]) -> AttentionMap:
        """
        The map of the chosen words, numbered as in the document.

        Raises:
            InputError: no word is chosen, or one that the document does not have.
        """
        chosen = sorted(set(selected))
        if not chosen:
            raise InputError("No words are chosen; choose at least one whose attention is to be drawn.")
        outside = [index for index in chosen if not 0 <= index < len(document)]
        if outside:
            raise InputError(f"There is no word {outside[0]} in a document of {len(document)} words.")
        batch = self.processor(
            documents=document,
            truncation=True,
            max_length=self.max_length,
            stride=self.stride,
            padding=True,
            return_overflowing_tokens=True,
            return_word_ids=True,
            clip_boxes=True,
            return_tensors="pt",
        )
        word_ids = batch["token_word_ids"].numpy()
        is_chosen = np.isin(word_ids, chosen)
        # Sums over pairs of a chosen token and a token, and how many pairs there were.
        sums, pairs = np.zeros(len(document)), np.zeros(len(document))
        special, rows = 0.0, 0
        tokens_of_word = np.zeros(len(document))
        averaged = np.flatnonzero(is_chosen.any(1))
        for window in averaged:
            inputs = {name: tensor[window : window + 1].to(self.device) for name, tensor in batch.model_inputs.items()}
            queries = np.flatnonzero(is_chosen[window])
            attention = self._attention(inputs)[0].mean(0)[torch.as_tensor(queries)].sum(0).cpu().numpy()
            ids = word_ids[window]
            real = batch["attention_mask"][window].numpy().astype(bool)
            for token in np.flatnonzero(real & (ids >= 0)):
                sums[ids[token]] += attention[token]
                pairs[ids[token]] += len(queries)
            counted = np.bincount(ids[real & (ids >= 0)], minlength=len(document))
            tokens_of_word = np.maximum(tokens_of_word, counted)
            special += float(attention[real & (ids < 0)].sum())
            rows += len(queries)
        words = np.divide(sums, pairs, out=np.full(len(document), np.nan), where=pairs > 0)
        totals = words * tokens_of_word
        blocks = [self._block(document, block, words, totals, tokens_of_word) for block in text_blocks(document)]
        return AttentionMap(chosen, words, totals, special / rows, blocks, len(word_ids), len(averaged))

    def _attention(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The probabilities `[1, heads, length, length]`, without dropout."""
        if hasattr(self.model, "skim"):
            mask = inputs["attention_mask"]
            query, key = self.model.skim(inputs.get("bbox"), mask, mask.shape)
            return skim_probabilities(query, key, mask.bool()[:, None, None])
        return self.model(**inputs, output_attentions=True).attentions[0].float()

    @staticmethod
    def _block(
        document: Document, word_ids: list[int], words: np.ndarray, totals: np.ndarray, tokens: np.ndarray
    ) -> BlockAttention:
        seen = [index for index in word_ids if np.isfinite(words[index])]
        count = float(tokens[seen].sum())
        total = float(totals[seen].sum())
        return BlockAttention(
            word_ids,
            document.page_ids[word_ids[0]],
            enclosing_box([document.boxes[index] for index in word_ids]),
            total / count if count else float("nan"),
            total if count else float("nan"),
        )


def _token_limit(model: Any) -> int | None:
    config = model.config
    if config.model_type == "skimming_mask":
        return config.skim_config.max_position_embeddings if config.skim_config.skim_input == "position" else None
    return config.max_position_embeddings if config.skim_input == "position" else None


def _number(value: float) -> float | None:
    return None if not np.isfinite(value) else round(float(value), 8)
