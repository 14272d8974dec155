"""Configuration of FormNet."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

from .config_checks import check_activations, check_least
from .warm_start import WarmStartConfigMixin

# Hidden size and heads of the paper's family (section 4.2).
PRESETS = {"A1": (512, 8), "A2": (768, 12), "A3": (1024, 16)}


@strict
class FormNetConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a FormNet: super-tokens from graph convolutions, ETC with Rich Attention. The defaults are the
    paper's A1; `FormNetConfig.from_preset("A2")` has the others. `use_super_tokens` and `use_rich_attention` make the
    four rows of the paper's ablation.

    Args:
        vocab_size: number of tokens of the vocabulary; BERT-multilingual's.
        hidden_size: size of the layers.
        num_hidden_layers: number of ETC layers.
        num_graph_layers: number of graph convolutions before them.
        num_attention_heads: heads of the attention.
        intermediate_size: size of the feed-forward networks' inner layer; four times `hidden_size` when None.
        hidden_act: activation of the feed-forward networks and of the messages.
        hidden_dropout_prob: dropout of embeddings, messages, attention outputs and feed-forward outputs.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        type_vocab_size: number of token types, as of a question and a document.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: epsilon of the LayerNorms.
        pad_token_id: the padding token.
        use_super_tokens: make super-tokens on the graph of the page.
        use_rich_attention: use Rich Attention, which replaces position embeddings.
        use_sequence_axis: give Rich Attention the place in the sequence as a third axis beside x and y.
        initial_theta: theta of Rich Attention at the start, how much a missed log-distance costs.
        relative_position_clip: without Rich Attention, the largest offset in the sequence that the relative positions
            tell apart; 0 for no positions at all.
        local_radius: how far tokens attend to tokens, in the order of the sequence.
        num_global_tokens: global tokens that stand for the document, attend to all and are attended to by all.
        classifier_dropout: dropout before classifiers; `hidden_dropout_prob` when None.
        tie_word_embeddings: share the word embeddings with the masked LM head.
    """

    model_type = "formnet"

    vocab_size: int = 119547
    hidden_size: int = 512
    num_hidden_layers: int = 12
    num_graph_layers: int = 12
    num_attention_heads: int = 8
    intermediate_size: int | None = None
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    type_vocab_size: int = 2
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-12
    pad_token_id: int | None = 0
    use_super_tokens: bool = True
    use_rich_attention: bool = True
    use_sequence_axis: bool = False
    initial_theta: float | int = 0.5
    relative_position_clip: int = 12
    local_radius: int = 84
    num_global_tokens: int = 1
    classifier_dropout: float | int | None = None
    tie_word_embeddings: bool = True

    @classmethod
    def from_preset(cls, name: str, **settings: Any) -> "FormNetConfig":
        """
        The configuration of A1, A2 or A3, with further settings.

        Raises:
            ValueError: there is no such preset.
        """
        if name not in PRESETS:
            raise ValueError(f"There is no FormNet {name!r}; choose one of {', '.join(PRESETS)}.")
        size, heads = PRESETS[name]
        return cls(**{"hidden_size": size, "num_attention_heads": heads, **settings})

    @property
    def feed_forward_size(self) -> int:
        """The size of the feed-forward networks' inner layer."""
        return self.intermediate_size or 4 * self.hidden_size

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        check_activations(self, "hidden_act")
        check_least(
            self,
            num_attention_heads=1,
            local_radius=1,
            num_global_tokens=1,
            relative_position_clip=0,
            num_graph_layers=1,
        )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of num_attention_heads={self.num_attention_heads}; "
                "change one of them."
            )
        if self.use_sequence_axis and not self.use_rich_attention:
            raise ValueError(
                "use_sequence_axis gives Rich Attention an axis; set use_rich_attention=True, or leave it out."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate} is no dropout rate; set it to at least 0 and below 1.")


__all__ = ["FormNetConfig"]
