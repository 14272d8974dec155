"""
Pyramidion for the common tests of an encoder-decoder, `tests/family/test_encoder_decoder*.py`. It is none of
`MEMBERS`, whose tests are about encoders with a state for every token.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from tests.family.boxes import integer_boxes
from tests.family.spec import MODEL, SEQUENCE, Batch, disturb

from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import (
    PyramidionForConditionalGeneration,
    PyramidionForSequenceClassification,
    PyramidionModel,
)

GENERATION = "ForConditionalGeneration"
HEADS: dict[str, Any] = {
    MODEL: PyramidionModel,
    GENERATION: PyramidionForConditionalGeneration,
    SEQUENCE: PyramidionForSequenceClassification,
}
CONFIG: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "decoder_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_source_length": 32,
    "encoder_lengths": [32, 16, 4],
    "block_size": 8,
    "num_labels": 3,
}
# Documents of more tokens than every length of the encoder, of as many, of fewer, of one.
LENGTHS = (29, 4, 14, 1)
KEY_BIAS = r"\bkey\.bias$"
UNUSED_SCORER = r"pooling\.0\."


@dataclass(frozen=True)
class Variant:
    """A setting of the config; `no_gradient` are patterns of the parameters that get none, beside biases of keys."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    no_gradient: tuple[str, ...] = (UNUSED_SCORER,)


VARIANTS = (
    Variant("pyramidion"),
    Variant("vanilla", {"encoder_lengths": None, "block_size": None}, ()),
    Variant("blockwise", {"encoder_lengths": None}, ()),
    Variant("transpooler", {"encoder_lengths": [32, 32, 8], "peak": "exponential"}, (r"pooling\.[01]\.",)),
    Variant("early", {"encoder_lengths": [8, 8, 4], "sort_scores": False}, (r"pooling\.1\.",)),
    Variant("layout", {"use_layout": True, "decoder_positions": True, "preserve_order": False}),
    Variant("nonlinear", {"scorer": "nonlinear", "operator": "lapsum"}),
    Variant("hard", {"operator": "hard", "score_activation": None}, (r"pooling\.",)),
    Variant("attention", {"scorer": "attention", "operator": "hard"}, ()),
    Variant("embedding", {"scorer": "embedding", "operator": "iterative"}, ()),
    Variant("mean", {"scorer": None, "operator": "mean"}, ()),
    Variant("max", {"scorer": None, "operator": "max"}, ()),
    Variant("index", {"scorer": "index"}, ()),
    Variant("random", {"scorer": "random"}, ()),
)


@dataclass(frozen=True)
class Case:
    """A variant, with a head where the test wants one."""

    variant: Variant
    head: str = GENERATION

    def config(self, **changes: Any) -> PyramidionConfig:
        """The tiny config."""
        return PyramidionConfig(**{**CONFIG, **self.variant.config, **changes})

    def model(self, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any) -> Any:
        """A model in eval mode, every parameter away from its initial value."""
        torch.manual_seed(seed)
        return disturb(HEADS[self.head](self.config(**changes))).to(dtype).eval()

    def documents(self, lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[Batch]:
        """Documents of the given lengths and their summaries; the i-th depends on `seed` and i alone."""
        rows = []
        for place, length in enumerate(lengths):
            generator = torch.Generator().manual_seed(1000 * seed + place)
            row = {"input_ids": torch.randint(5, 60, (length,), generator=generator)}
            if self.variant.config.get("use_layout"):
                row["bbox"] = integer_boxes(length, 1001, generator)
            row["labels"] = torch.randint(3, 60, (6 + place % 2,), generator=generator)
            row["label"] = torch.randint(3, (), generator=generator)
            rows.append(row)
        return rows

    def collate(self, rows: list[Batch], pad_to: int = 0, garbage: bool = False, labels: bool = True) -> Batch:
        """Padded on the right to the longest or to `pad_to`; with `garbage` other tokens stand in the padding."""
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        length = max(int(lengths.max()), pad_to)
        batch = {"attention_mask": (torch.arange(length) < lengths[:, None]).long()}
        for name, pad in (("input_ids", 7 if garbage else 1), ("bbox", 0)):
            if name in rows[0]:
                batch[name] = torch.full((len(rows), length, *rows[0][name].shape[1:]), pad)
                for place, row in enumerate(rows):
                    batch[name][place, : len(row[name])] = row[name]
        if labels and self.head == SEQUENCE:
            batch["labels"] = torch.stack([row["label"] for row in rows])
        elif labels:
            padded = torch.nn.utils.rnn.pad_sequence([row["labels"] for row in rows], True, -100)
            name = "labels" if self.head == GENERATION else "decoder_input_ids"
            batch[name] = padded if self.head == GENERATION else padded.clamp(min=1)
        return batch

    def batch(self, lengths: tuple[int, ...] = LENGTHS, seed: int = 0, **kwargs: Any) -> Batch:
        """Inputs, and labels for the heads that have some."""
        return self.collate(self.documents(lengths, seed), **kwargs)

    def __str__(self) -> str:
        return f"pyramidion-{self.variant.name}-{self.head}"


def variants(*heads: str) -> pytest.MarkDecorator:
    """Every variant with the given heads, that which generates by default."""
    cases = [Case(variant, head) for variant in VARIANTS for head in heads or (GENERATION,)]
    return pytest.mark.parametrize("case", cases, ids=str)


def heads(*chosen: str) -> pytest.MarkDecorator:
    """The first variant with every head, or with those chosen."""
    return pytest.mark.parametrize("case", [Case(VARIANTS[0], head) for head in chosen or HEADS], ids=str)


def results(outputs: Any) -> dict[str, torch.Tensor]:
    """The tensors of a model's output, without the loss."""
    return {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor) and name != "loss"}
