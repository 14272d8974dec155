"""The models that compete. Base size is each model's own default configuration; the head labels tokens."""

from collections.abc import Callable
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForTokenClassification,
    LayoutLMConfig,
    LayoutLMForTokenClassification,
    LongformerConfig,
    LongformerForTokenClassification,
    PreTrainedModel,
    RobertaConfig,
    RobertaForTokenClassification,
)

from benchmarks.entry import Size
from benchmarks.formnet_contestants import FORMNETS
from benchmarks.long_layoutlm_contestants import LONG_LAYOUTLMS
from benchmarks.summarizers import SUMMARIZERS
from broadsheet.modeling.configuration_lambert import LambertConfig
from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_lambert import LambertForTokenClassification
from broadsheet.modeling.modeling_long_skimformer import LongSkimformerForTokenClassification
from broadsheet.modeling.modeling_skimformer import SkimformerForTokenClassification
from broadsheet.modeling.modeling_skimming_mask import SkimmingMaskForTokenClassification

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


def bert(size: Size) -> PreTrainedModel:
    """BERT of transformers with sdpa attention, its position table raised where the input is longer."""
    config = BertConfig(  # type: ignore[call-arg]
        num_labels=LABELS,
        max_position_embeddings=max(512, size.length),
        **_dropout(size),
        **(TINY if size.tiny else {}),
    )
    config._attn_implementation = "sdpa"
    return BertForTokenClassification(config)


def longformer(size: Size) -> PreTrainedModel:
    """Longformer of transformers at its base size, with its window of 512 (four if tiny)."""
    config = LongformerConfig(  # type: ignore[call-arg]
        num_labels=LABELS,
        attention_window=4 if size.tiny else 512,
        max_position_embeddings=max(4096, size.length) + 2,
        **_dropout(size),
        **(TINY if size.tiny else {}),
    )
    return LongformerForTokenClassification(config)


def long_skimformer(size: Size, contextualize: bool = False) -> PreTrainedModel:
    """LongSkimformer at the paper's size, with the reference's window of 512 (four if tiny)."""
    tiny: dict[str, Any] = {
        **TINY,
        "hidden_layout_size": 16,
        "skim_attention_head_size": 8,
        "num_attention_heads_layout_encoder": 2,
        "attention_window": 4,
    }
    config = LongSkimformerConfig(  # type: ignore[call-arg]
        num_labels=LABELS, contextualize_layout=contextualize, **_dropout(size), **(tiny if size.tiny else {})
    )
    return LongSkimformerForTokenClassification(config)


def long_skimformer_with_contextualizer(size: Size) -> PreTrainedModel:
    """LongSkimformer with a windowed Transformer of two layers over the layout embeddings."""
    return long_skimformer(size, contextualize=True)


def skimming_mask(size: Size, contextualize: bool = False) -> PreTrainedModel:
    """The same BERT, each token attending per head to the 128 that `near` prefers (four if tiny)."""
    skim = skimformer(size, contextualize)
    near(skim.base_model)
    return SkimmingMaskForTokenClassification.from_skimformer_and_backbone(skim, bert(size), 4 if size.tiny else 128)


def skimming_mask_with_contextualizer(size: Size) -> PreTrainedModel:
    """SkimmingMask whose Skimformer has the paper's contextualizer."""
    return skimming_mask(size, contextualize=True)


@torch.no_grad()
def near(skim: Any) -> None:
    """
    Make a new Skimformer attend to what is near, as trained ones do: a random one attends anywhere, and no pattern
    would be left to skip by. Each head compares cosines of the coordinates, in a range of its own.
    """
    generator = torch.Generator().manual_seed(0)
    embeddings, attention = skim.layout_embeddings, skim.skim_attention
    rows, size = embeddings.x_position_embeddings.weight.shape
    heads, half = skim.config.num_attention_heads, attention.head_size // 2
    reach = torch.logspace(1.6, 2.6, heads).repeat_interleave(2 * half)[:size]
    frequencies = torch.randn(size, generator=generator) / reach
    phases = 2 * torch.pi * torch.rand(size, generator=generator)
    waves = torch.cos(torch.arange(rows)[:, None] * frequencies + phases)
    is_x = torch.arange(size) % (2 * half) < half
    embeddings.x_position_embeddings.weight.copy_(waves * is_x)
    embeddings.y_position_embeddings.weight.copy_(waves * ~is_x)
    for table in (embeddings.w_position_embeddings, embeddings.h_position_embeddings):
        table.weight.zero_()
    for projection in (attention.query, attention.key):
        projection.weight.copy_(torch.eye(*projection.weight.shape))
        projection.bias.zero_()


def roberta(size: Size) -> PreTrainedModel:
    """RoBERTa of transformers with sdpa attention, its position table raised where the input is longer."""
    config = RobertaConfig(  # type: ignore[call-arg]
        num_labels=LABELS,
        max_position_embeddings=max(512, size.length) + 2,
        **_dropout(size),
        **(TINY if size.tiny else {}),
    )
    config._attn_implementation = "sdpa"
    return RobertaForTokenClassification(config)


def lambert(size: Size, relative_bias: Any = "grid") -> PreTrainedModel:
    """LAMBERT with all its additions, its boxes the same in units of the page's height."""
    config = LambertConfig(  # type: ignore[call-arg]
        num_labels=LABELS,
        max_position_embeddings=max(512, size.length) + 2,
        relative_bias=relative_bias,
        bias_init="normal",
        **_dropout(size),
        **(TINY if size.tiny else {}),
    )
    model = LambertForTokenClassification(config)

    def in_page_heights(_: Any, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return arguments, {**named, "bbox": named["bbox"] / 1000}

    model.register_forward_pre_hook(in_page_heights, with_kwargs=True)
    return model


def lambert_with_log_buckets(size: Size) -> PreTrainedModel:
    """LAMBERT with the authors' bias, T5's buckets."""
    return lambert(size, "log_buckets")


CONTESTANTS: dict[str, Callable[[Size], PreTrainedModel]] = {
    "layoutlm": layoutlm,
    "skimformer": skimformer,
    "skimformer+contextualizer": skimformer_with_contextualizer,
    "longformer": longformer,
    "long-skimformer": long_skimformer,
    "long-skimformer+contextualizer": long_skimformer_with_contextualizer,
    "bert": bert,
    "bert+skimming-mask": skimming_mask,
    "bert+skimming-mask+contextualizer": skimming_mask_with_contextualizer,
    "roberta": roberta,
    "lambert": lambert,
    "lambert+log-buckets": lambert_with_log_buckets,
    **FORMNETS,
    **LONG_LAYOUTLMS,
    **SUMMARIZERS,
}


def make_batch(size: Size, vocab_size: int) -> dict[str, torch.Tensor]:
    """Full windows of random words in lines of sixteen down the page: what every contestant is given."""
    generator = torch.Generator().manual_seed(0)
    shape = (size.batch_size, size.length)
    place = torch.arange(size.length)
    lines = -(-size.length // 16)
    x0, y0 = place % 16 * 62, place // 16 * (1000 // max(lines, 1))
    boxes = torch.stack([x0, y0, x0 + 50, y0 + min(10, 1000 // max(lines, 1))], -1)
    return {
        "input_ids": torch.randint(1, vocab_size, shape, generator=generator),
        "attention_mask": torch.ones(shape, dtype=torch.long),
        "bbox": boxes.expand(*shape, 4).clone(),
        "labels": torch.randint(0, LABELS, shape, generator=generator),
    }


def _dropout(size: Size) -> dict[str, Any]:
    return {"hidden_dropout_prob": size.dropout, "attention_probs_dropout_prob": size.dropout}
