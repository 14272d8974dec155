"""
The summarisers that compete: Pyramidions of the paper's sizes, transformers' LED of the same size, and the sparse
baselines of the paper's Table 2.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers import LEDConfig, LEDForConditionalGeneration, PreTrainedModel

from benchmarks.entry import Size
from benchmarks.sparse_baselines import as_funnel, power_config, with_sparse_attention
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration

# Tokens of a summary, in training and, forced, in generation (the paper's time tables).
TARGET = 512
TINY: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "decoder_layers": 2,
    "block_size": 8,
}


class _Summarizer(PyramidionForConditionalGeneration):
    """Takes the benchmarks' labels, one for each token of the document, as those of a summary of 512."""

    def forward(self, labels: torch.Tensor | None = None, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().forward(labels=None if labels is None else labels[:, :TARGET], **kwargs)


class _Led(LEDForConditionalGeneration):
    """LED by the benchmarks' names."""

    def forward(self, labels: torch.Tensor | None = None, bbox: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().forward(labels=None if labels is None else labels[:, :TARGET], **kwargs)


def _pyramidion(preset: str) -> Callable[[Size], PreTrainedModel]:
    def make(size: Size) -> PreTrainedModel:
        settings: dict[str, Any] = {
            "hidden_dropout_prob": size.dropout, "attention_probs_dropout_prob": size.dropout,
        }  # fmt: skip
        config = getattr(PyramidionConfig, preset)()
        lengths = config.encoder_lengths
        if size.tiny:
            settings |= TINY
            lengths = None if lengths is None else [config.max_source_length, min(lengths)]
        if lengths is not None and (size.tiny or size.length < min(lengths)):
            # The same ratios for a shorter document.
            ratios = [config.max_source_length // length for length in lengths]
            settings["max_source_length"] = source = max(ratios) * max(1, size.length // max(ratios))
            lengths = [source // ratio for ratio in ratios]
        return _Summarizer(getattr(PyramidionConfig, preset)(**{**settings, "encoder_lengths": lengths}))

    return make


def led(size: Size) -> PreTrainedModel:
    """LED with the layers of the deep models, window 512, global attention on none: the fastest it can be."""
    heads, hidden, inner, layers = (2, 16, 32, 2) if size.tiny else (8, 768, 3072, 6)
    config = LEDConfig(  # type: ignore[call-arg]
        vocab_size=100 if size.tiny else 32000,
        d_model=hidden,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        attention_window=8 if size.tiny else 512,
        max_encoder_position_embeddings=max(1024, size.length),
        max_decoder_position_embeddings=1024,
        dropout=size.dropout,
        attention_dropout=size.dropout,
        activation_function="relu",
    )
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = size.dropout
    return _Led(config)


def _baseline(kind: str) -> Callable[[Size], PreTrainedModel]:
    def make(size: Size) -> PreTrainedModel:
        settings: dict[str, Any] = {
            "hidden_dropout_prob": size.dropout, "attention_probs_dropout_prob": size.dropout,
        }  # fmt: skip
        if size.tiny:  # two of the heads are local
            settings |= {**TINY, "num_attention_heads": 4}
        if kind == "funnel":  # 8,192 to 512 between the encoder's layers, 8,192 for the decoder
            return as_funnel(_Summarizer(PyramidionConfig.blockwise(**settings)), stride=2 if size.tiny else 16)
        if kind == "power":
            lengths, source = ([4, 2], 8) if size.tiny else ([2048, 512], 8192)
            return _Summarizer(power_config(lengths, **settings, max_source_length=source))
        return with_sparse_attention(_Summarizer(PyramidionConfig.vanilla(**{**settings, "block_size": None})), kind)

    return make


SUMMARIZERS: dict[str, Callable[[Size], PreTrainedModel]] = {
    "blockwise-6+6": _pyramidion("deep_blockwise"),
    "deep-pyramidion": _pyramidion("deep_pyramidion"),
    "deep-pyramidion-early": _pyramidion("deep_pyramidion_early"),
    "led": led,
    "blockwise-2+2": _pyramidion("blockwise"),
    "transpooler-2+2": _pyramidion("transpooler"),
    **{f"{kind}-2+2": _baseline(kind) for kind in ("lsh", "efficient", "power", "funnel")},
}
