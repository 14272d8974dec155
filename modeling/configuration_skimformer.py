"""Configuration of Skimformer."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

from .config_checks import check_activations, check_least
from .warm_start import WarmStartConfigMixin


@strict
class SkimformerConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a Skimformer (Skim-Attention, section 4). The defaults are the paper's: 99,275,322 parameters with
    the masked LM head, 113,451,066 with `contextualize_layout=True`.

    Args:
        vocab_size: number of tokens of the vocabulary.
        hidden_size: size of the text layers.
        hidden_layout_size: size of the layout embeddings.
        num_hidden_layers: number of text layers.
        num_attention_heads: heads of the skim-attention and of the values in each text layer.
        skim_attention_head_size: size of a head's query and key in the skim-attention.
        attention_head_size: size of a head's value in the text layers; `hidden_size // num_attention_heads` when None.
        intermediate_size: size of the feed-forward networks' inner layer.
        hidden_act: activation of the feed-forward networks.
        hidden_dropout_prob: dropout of embeddings, attention outputs and feed-forward outputs.
        attention_probs_dropout_prob: dropout of the attention probabilities, drawn once for all text layers.
        max_2d_position_embeddings: rows of the layout tables; coordinates are 0..max_2d_position_embeddings-1.
        max_position_embeddings: positions of `skim_input="position"`; the other inputs take any length.
        type_vocab_size: number of token types.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: epsilon of the LayerNorms.
        pad_token_id: the padding token.
        skim_input: what the attention is computed from (the paper's Table 3): `"layout"`, the boxes; `"position"`, the
            token's place in the sequence; `"uniform"`, the same box for all; `"degraded"`, the centres of the boxes.
        contextualize_layout: run a small Transformer over the layout embeddings first.
        num_hidden_layers_layout_encoder: layers of that Transformer.
        num_attention_heads_layout_encoder: its heads.
        mask_layout_contextualizer: mask the padding there. False reproduces the authors' published checkpoints, in
            which padding changes the outputs of real tokens.
        skim_recompute_length: inputs of more tokens than this do not keep the attention probabilities
            `[batch, heads, length, length]` in memory; each layer computes them again, with the same results.
        classifier_dropout: dropout before classifiers; `hidden_dropout_prob` when None.
        tie_word_embeddings: share the word embeddings with the masked LM head.
    """

    model_type = "skimformer"

    vocab_size: int = 30522
    hidden_size: int = 768
    hidden_layout_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    skim_attention_head_size: int = 64
    attention_head_size: int | None = None
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    max_2d_position_embeddings: int = 1024
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-12
    pad_token_id: int | None = 0
    skim_input: Literal["layout", "position", "uniform", "degraded"] = "layout"
    contextualize_layout: bool = False
    num_hidden_layers_layout_encoder: int = 2
    num_attention_heads_layout_encoder: int = 12
    mask_layout_contextualizer: bool = True
    skim_recompute_length: int = 4096
    classifier_dropout: float | int | None = None
    tie_word_embeddings: bool = True

    @property
    def value_head_size(self) -> int:
        """The size of a head's value in the text layers."""
        return self.attention_head_size or self.hidden_size // self.num_attention_heads

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        check_activations(self, "hidden_act")
        check_least(self, num_attention_heads=1)
        if self.attention_head_size is not None:
            check_least(self, attention_head_size=1)
        if self.attention_head_size is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of num_attention_heads={self.num_attention_heads}; "
                "change one of them, or set attention_head_size."
            )
        if self.contextualize_layout:
            if self.skim_input == "position":
                raise ValueError(
                    'skim_input="position" has no layout to contextualise; set contextualize_layout=False.'
                )
            check_least(self, num_attention_heads_layout_encoder=1)
            if self.hidden_layout_size % self.num_attention_heads_layout_encoder:
                raise ValueError(
                    f"hidden_layout_size={self.hidden_layout_size} is no multiple of "
                    f"num_attention_heads_layout_encoder={self.num_attention_heads_layout_encoder}; change one."
                )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate} is no dropout rate; set it to at least 0 and below 1.")


__all__ = ["SkimformerConfig"]
