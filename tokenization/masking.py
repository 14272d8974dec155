"""Masked language modelling: the family's collator that hides tokens and keeps their boxes (Skim-Attention, 4.4)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .collation import LayoutDataCollator
from .input_checks import InputError
from .layout_batch import WORD_ID_KEYS, LayoutBatch


class MaskedLMCollator(LayoutDataCollator):
    """
    Features of a processor -> a padded batch in which some tokens are hidden and `labels [B, N]` say what they were.

    Of the tokens of words, `mask_probability` are drawn; of those 80 % become the mask token, 10 % a random token of
    the vocabulary, 10 % stay. Special tokens, padding and unknown tokens are never drawn, nor put in at random. Boxes
    and every other tensor stay as they are. At least one token of each window is drawn, so that none is without a
    target. Labels are -100 where nothing is predicted.

    What is drawn for a window depends on its tokens, on `seed` and on `epoch` alone: not on its place in the batch, on
    padding, on the rank or worker that draws it, or on whether the run was interrupted. So two collators of one seed
    and epoch hide the same tokens for every model of one tokenizer (masks for evaluation), and `epoch`, counted up by
    the training loop, draws anew for each pass over the data.

    Args:
        processor: the processor that made the features; its tokenizer needs a mask token.
        mask_probability: the share of tokens that are drawn, between 0 and 1.
        whole_words: draw words, with all their tokens, rather than tokens; the features then need `token_word_ids`
            (`return_word_ids=True`).
        seed: of everything drawn.
        epoch: the pass over the data; leave it at 0 for evaluation.
        keep_word_ids: leave `token_word_ids` and their like in the batch; models do not take them.
        pad_to_multiple_of: round the length up to a multiple of it.
        return_tensors: "pt" or "np".

    Raises:
        InputError: a tokenizer without a mask token, a share outside 0..1; features with labels, or without word ids
            where whole words are wanted.
    """

    mask_share = 0.8
    random_share = 0.1

    def __init__(
        self,
        processor: Any,
        mask_probability: float = 0.15,
        whole_words: bool = False,
        seed: int = 0,
        epoch: int = 0,
        keep_word_ids: bool = False,
        pad_to_multiple_of: int | None = None,
        return_tensors: str = "pt",
    ) -> None:
        super().__init__(processor, pad_to_multiple_of=pad_to_multiple_of, return_tensors=return_tensors)
        tokenizer = processor.tokenizer
        if tokenizer.mask_token_id is None:
            raise InputError("The tokenizer has no mask token to hide words with; set tokenizer.mask_token.")
        if not 0 < mask_probability < 1:
            raise InputError(f"mask_probability={mask_probability} is a share; set it above 0 and below 1.")
        self.mask_probability = mask_probability
        self.whole_words = whole_words
        self.seed = seed
        self.epoch = epoch
        self.keep_word_ids = keep_word_ids
        special = set(tokenizer.all_special_ids)
        self._special = np.array(sorted(special), dtype=np.int64)
        self._ordinary = np.array(sorted(set(tokenizer.get_vocab().values()) - special), dtype=np.int64)
        if len(self._ordinary) == 0:
            raise InputError("The tokenizer has no tokens besides special ones; load the one of the checkpoint.")

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> LayoutBatch:
        """As of `LayoutDataCollator`, with hidden tokens in `input_ids [B, N]` and with `labels [B, N]`."""
        return super().__call__([self.mask(feature) for feature in features])

    def mask(self, feature: Mapping[str, Any]) -> dict[str, Any]:
        """One window of N tokens with some of them hidden, and its `labels [N]`."""
        if "labels" in feature:
            raise InputError("The features have labels already; make them without word_labels for masked LM.")
        input_ids = np.asarray(feature["input_ids"], dtype=np.int64)
        words = np.asarray(feature["token_word_ids"]) if "token_word_ids" in feature else None
        masked, labels = self._draw(input_ids, words, feature.get("attention_mask"))
        kept = {key: value for key, value in feature.items() if self.keep_word_ids or key not in WORD_ID_KEYS}
        return {**kept, "input_ids": masked, "labels": labels}

    def _draw(
        self, input_ids: np.ndarray, words: np.ndarray | None, attention_mask: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        candidates = ~np.isin(input_ids, self._special)
        if attention_mask is not None:
            candidates &= np.asarray(attention_mask) > 0
        labels = np.full(len(input_ids), self.label_pad_token_id, dtype=np.int64)
        places = np.flatnonzero(candidates)
        if len(places) == 0:
            return input_ids, labels
        # Places of real tokens alone, so that padding that came with the feature changes nothing.
        generator = self._generator(input_ids[places])
        units = np.arange(len(places))
        if self.whole_words:
            if words is None:
                raise InputError(
                    "Whole words cannot be hidden without token_word_ids; make the features with return_word_ids=True."
                )
            units = np.unique(words[places], return_inverse=True)[1]
        chance = generator.random(units.max() + 1)
        chosen = chance < self.mask_probability
        if not chosen.any():
            chosen[chance.argmin()] = True
        drawn = chosen[units]
        fate = generator.random(len(places))
        others = self._ordinary[generator.integers(len(self._ordinary), size=len(places))]
        hidden = np.where(
            fate < self.mask_share,
            self.processor.tokenizer.mask_token_id,
            np.where(fate < self.mask_share + self.random_share, others, input_ids[places]),
        )
        masked = input_ids.copy()
        masked[places] = np.where(drawn, hidden, input_ids[places])
        labels[places[drawn]] = input_ids[places[drawn]]
        return masked, labels

    def _generator(self, tokens: np.ndarray) -> np.random.Generator:
        digest = hashlib.blake2b(tokens.astype("<i8").tobytes(), digest_size=16).digest()
        return np.random.default_rng([self.seed, self.epoch, *np.frombuffer(digest, dtype="<u4").tolist()])
