"""The models that compete. Base size is each model's own default configuration; the head labels tokens."""

from collections.abc import Callable
from typing import Any

import torch
from transformers import LayoutLMConfig, LayoutLMForTokenClassification, PreTrainedModel

from benchmarks.entry import Size
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_skimformer import SkimformerForTokenClassification

LABELS = 13  # DocBank's
TINY: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def layoutlm(size: Size) -> PreTrainedModel:
    """LayoutLM of transformers with sdpa attention, its position table raised where the input is longer."""
    config = LayoutLMConfig(  # type: ignore[call-arg]
        num_labels=LABELS,
        max_position_embeddings=max(512, size.length),
        **_dropout(size),
        **(TINY if size.tiny else {}),
    )
    config._attn_implementation = "sdpa"
    return LayoutLMForTokenClassification(config)


def skimformer(size: Size, contextualize: bool = False) -> PreTrainedModel:
    """Skimformer at the paper's size."""
    tiny: dict[str, Any] = {
        **TINY,
        "hidden_layout_size": 16,
        "skim_attention_head_size": 8,
        "num_attention_heads_layout_encoder": 2,
    }
    config = SkimformerConfig(  # type: ignore[call-arg]
        num_labels=LABELS, contextualize_layout=contextualize, **_dropout(size), **(tiny if size.tiny else {})
    )
    return SkimformerForTokenClassification(config)


def skimformer_with_contextualizer(size: Size) -> PreTrainedModel:
    """Skimformer with the paper's Transformer of two layers over the layout embeddings."""
    return skimformer(size, contextualize=True)


CONTESTANTS: dict[str, Callable[[Size], PreTrainedModel]] = {
    "layoutlm": layoutlm,
    "skimformer": skimformer,
    "skimformer+contextualizer": skimformer_with_contextualizer,
}


def make_batch(size: Size, vocab_size: int) -> dict[str, torch.Tensor]:
    """Full windows of random words in random boxes: what every contestant is given."""
    generator = torch.Generator().manual_seed(0)
    shape = (size.batch_size, size.length)
    corners = torch.randint(0, 1001, (*shape, 2, 2), generator=generator).sort(-2).values
    return {
        "input_ids": torch.randint(1, vocab_size, shape, generator=generator),
        "attention_mask": torch.ones(shape, dtype=torch.long),
        "bbox": corners.flatten(-2),
        "labels": torch.randint(0, LABELS, shape, generator=generator),
    }


def _dropout(size: Size) -> dict[str, Any]:
    return {"hidden_dropout_prob": size.dropout, "attention_probs_dropout_prob": size.dropout}
