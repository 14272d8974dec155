"""Configuration of BertWithSkimEmbeddings."""

from collections.abc import Callable
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

from .config_checks import check_activations, check_least
from .warm_start import WarmStartConfigMixin


def _from_bert(config: dict[str, Any]) -> dict[str, Any]:
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise ValueError("This BERT is a decoder; start from an encoder, as google-bert/bert-base-uncased.")
    for name in ("is_decoder", "add_cross_attention", "use_cache", "bos_token_id", "eos_token_id"):
        config.pop(name, None)
    return config


@strict
class BertWithSkimEmbeddingsConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a BERT with a Skimformer's layout embeddings (Skim-Attention, section 5.3, BERT+SkimEmbeddings).
    `from_pretrained` takes BERT's checkpoints too.

    Args:
        vocab_size: number of tokens of the vocabulary.
        hidden_size: size of the layers.
        hidden_layout_size: size of the layout embeddings, before their projection; the Skimformer's.
        num_hidden_layers: number of layers.
        num_attention_heads: heads of each layer.
        intermediate_size: size of the feed-forward networks' inner layer.
        hidden_act: activation of the feed-forward networks.
        hidden_dropout_prob: dropout of embeddings, attention outputs and feed-forward outputs.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_position_embeddings: the most tokens of an input.
        max_2d_position_embeddings: rows of the layout tables; coordinates are 0..max_2d_position_embeddings-1.
        type_vocab_size: number of token types.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: epsilon of the LayerNorms.
        pad_token_id: the padding token.
        classifier_dropout: dropout before classifiers; `hidden_dropout_prob` when None.
        tie_word_embeddings: share the word embeddings with the masked LM head.
    """

    model_type = "bert_with_skim_embeddings"
    parents: ClassVar[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {"bert": _from_bert}

    vocab_size: int = 30522
    hidden_size: int = 768
    hidden_layout_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    max_position_embeddings: int = 512
    max_2d_position_embeddings: int = 1024
    type_vocab_size: int = 2
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-12
    pad_token_id: int | None = 0
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
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate} is no dropout rate; set it to at least 0 and below 1.")


__all__ = ["BertWithSkimEmbeddingsConfig"]
