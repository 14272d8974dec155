"""Configuration of LAMBERT."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

from .config_checks import check_activations, check_least
from .warm_start import WarmStartConfigMixin


def from_roberta(config: dict[str, Any]) -> dict[str, Any]:
    """RoBERTa's config as LAMBERT's: what is there has the same names; what makes a decoder of it is left out."""
    dropped = ("is_decoder", "add_cross_attention", "use_cache", "position_embedding_type")
    return {name: value for name, value in config.items() if name not in dropped}


@strict
class LambertConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a LAMBERT: RoBERTa with layout embeddings and relative attention bias, and nothing else. RoBERTa's
    checkpoints load as they are (`from_pretrained`), and the model then equals RoBERTa until it is trained.

    Args:
        vocab_size: number of tokens of the vocabulary.
        hidden_size: size of the layers, a multiple of 8.
        num_hidden_layers: number of layers.
        num_attention_heads: heads of the attention.
        intermediate_size: size of the feed-forward networks' inner layer.
        hidden_act: activation of the feed-forward networks.
        hidden_dropout_prob: dropout of embeddings, attention outputs and feed-forward outputs.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_position_embeddings: rows of the sequential position table; the first `pad_token_id + 1` are not used.
        type_vocab_size: number of token types.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: epsilon of the LayerNorms.
        pad_token_id: the padding token.
        bos_token_id: the token at the start.
        eos_token_id: the token at the end.
        use_layout_embeddings: add the adapted sinusoidal embedding of the boxes.
        adapter_init: "zeros", the model equals RoBERTa at the start; or "normal", as the authors do.
        use_sequential_embeddings: keep RoBERTa's 1-D position embeddings; without them inputs have any length.
        relative_bias: "grid", differences on an integer grid, or "log_buckets", T5's buckets.
        use_sequential_bias: the bias of the distance in the text.
        use_horizontal_bias: the bias of the horizontal distance on the page.
        use_vertical_bias: the bias of the vertical distance on the page.
        max_sequential_distance: the largest distance in the text that the grid form tells apart.
        bias_init: "zeros", the model equals RoBERTa at the start; or "normal", N(0, 1), as the authors do.
        classifier_dropout: dropout before classifiers; `hidden_dropout_prob` when None.
        tie_word_embeddings: share the word embeddings with the masked LM head.
    """

    model_type = "lambert"
    parents = {"roberta": from_roberta}

    vocab_size: int = 50265
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    max_position_embeddings: int = 514
    type_vocab_size: int = 1
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-5
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    use_layout_embeddings: bool = True
    adapter_init: Literal["zeros", "normal"] = "zeros"
    use_sequential_embeddings: bool = True
    relative_bias: Literal["grid", "log_buckets"] = "grid"
    use_sequential_bias: bool = True
    use_horizontal_bias: bool = True
    use_vertical_bias: bool = True
    max_sequential_distance: int = 512
    bias_init: Literal["zeros", "normal"] = "zeros"
    classifier_dropout: float | int | None = None
    tie_word_embeddings: bool = True

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        check_activations(self, "hidden_act")
        check_least(self, num_attention_heads=1)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of num_attention_heads={self.num_attention_heads}; "
                "change one of them."
            )
        if self.use_layout_embeddings and self.hidden_size % 8:
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of 8, which the layout embedding needs; change it, or "
                "set use_layout_embeddings=False."
            )
        if self.use_sequential_embeddings and self.pad_token_id is None:
            raise ValueError("Positions are counted from pad_token_id + 1; set pad_token_id.")
        if self.max_sequential_distance < 1:
            raise ValueError(
                f"max_sequential_distance={self.max_sequential_distance} is no distance; set it to 1 or more."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate} is no dropout rate; set it to at least 0 and below 1.")


__all__ = ["LambertConfig"]
