"""Configuration of Pyramidion."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

from .config_checks import check_activations, check_least
from .warm_start import WarmStartConfigMixin


@strict
class PyramidionConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a Pyramidion, an encoder-decoder that pools its representations as it encodes. The paper's models
    are class methods: `vanilla()`, `blockwise()`, `transpooler()`, `pyramidion()`, `deep_pyramidion()` (123,818,502
    parameters) and `deep_pyramidion_early()`; they take overrides, as in `deep_pyramidion(vocab_size=8000)`.

    Args:
        vocab_size: number of tokens of the vocabulary.
        hidden_size: size of the layers.
        num_hidden_layers: layers of the encoder.
        decoder_layers: layers of the decoder.
        num_attention_heads: heads of every attention.
        intermediate_size: size of the feed-forward networks' inner layer.
        hidden_act: activation of the feed-forward networks.
        hidden_dropout_prob: dropout of embeddings, attention outputs and feed-forward outputs.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_source_length: the input length that `encoder_lengths` starts from. Longer and shorter inputs are read too:
            there is no table of positions. Compiled models pad their input to it, or to its double and so on; exported
            ones take no longer input than it, if their example was none.
        encoder_lengths: the length after each encoder layer, none longer than the one before; where it falls, the
            representations are pooled. None for no pooling. An input of fewer tokens is pooled less or not at all.
        block_size: tokens of the encoder's attention blocks; None for full attention.
        scorer: what scores the tokens: "linear", "nonlinear", "attention" (received; with operator "hard"),
            "embedding" (one coordinate), "index", "random"; None with operators that read no scores.
        operator: what reduces them: "successive_halving", "hard", "iterative", "lapsum", "mean", "max", "index",
            "random".
        score_activation: "sigmoid", or None for the raw scores.
        peak: weights of a pair, see `successive_halving_topk`: "power", or "exponential" as in Appendix B.
        peak_base: base of the power form.
        sort_scores: sort by score in each round of the tournament.
        preserve_order: keep the survivors in the order of the text.
        mask_padding: False lets padding take part in encoder, pooling and cross-attention, as the authors' code does;
            for their published checkpoints alone.
        decoder_positions: add sinusoidal positions in the decoder too, as the authors' code does.
        position_offset: the position of the first token.
        use_layout: add the family's embeddings of boxes, `bbox`, to the encoder's input.
        max_2d_position_embeddings: rows of the layout tables; coordinates are 0..max_2d_position_embeddings-1.
        layer_norm_eps: epsilon of the LayerNorms.
        pad_token_id: the padding token.
        bos_token_id: the token at the start.
        eos_token_id: the token at the end.
        decoder_start_token_id: what the decoder reads first.
        classifier_dropout: dropout before classifiers; `hidden_dropout_prob` when None.
        use_cache: keep keys and values in generation.
        is_encoder_decoder: always True.
        tie_word_embeddings: the output shares the table of words that encoder and decoder read by.
    """

    model_type = "pyramidion"
    keys_to_ignore_at_inference = ["past_key_values"]

    vocab_size: int = 32000
    hidden_size: int = 768
    num_hidden_layers: int = 6
    decoder_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 3072
    hidden_act: str = "relu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    max_source_length: int = 8192
    encoder_lengths: list[int] | None = None
    block_size: int | None = 512
    scorer: Literal["linear", "nonlinear", "attention", "embedding", "index", "random"] | None = "linear"
    operator: Literal["successive_halving", "hard", "iterative", "lapsum", "mean", "max", "index", "random"] = (
        "successive_halving"
    )
    score_activation: Literal["sigmoid"] | None = "sigmoid"
    peak: Literal["power", "exponential"] = "power"
    peak_base: float | int = 20.0
    sort_scores: bool = True
    preserve_order: bool = True
    mask_padding: bool = True
    decoder_positions: bool = False
    position_offset: int = 2
    use_layout: bool = False
    max_2d_position_embeddings: int = 1024
    layer_norm_eps: float | int = 1e-5
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 2
    classifier_dropout: float | int | None = None
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True

    @classmethod
    def shallow(cls, **overrides: Any) -> "PyramidionConfig":
        """The size of the paper's ablations: 2+2 layers of 512 (Table 5)."""
        size = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 2, "decoder_layers": 2}
        return cls(**{**size, **overrides})

    @classmethod
    def vanilla(cls, **overrides: Any) -> "PyramidionConfig":
        """Full attention, no pooling."""
        return cls.shallow(**{"block_size": None, **overrides})

    @classmethod
    def blockwise(cls, **overrides: Any) -> "PyramidionConfig":
        """Blocks of 512 in the encoder, no pooling."""
        return cls.shallow(**overrides)

    @classmethod
    def transpooler(cls, **overrides: Any) -> "PyramidionConfig":
        """One pooling, 8,192 to 512, between encoder and decoder (row 7 of Table 2)."""
        return cls.shallow(**{"encoder_lengths": [8192, 512], **overrides})

    @classmethod
    def pyramidion(cls, **overrides: Any) -> "PyramidionConfig":
        """Three encoder layers, pooled to 2,048 after the second and to 512 after the third (row 22 of Table 7)."""
        return cls.shallow(**{"num_hidden_layers": 3, "encoder_lengths": [8192, 2048, 512], **overrides})

    @classmethod
    def deep_blockwise(cls, **overrides: Any) -> "PyramidionConfig":
        """The paper's deep baseline: 6+6 layers of 768, blocks of 512 in the encoder, no pooling."""
        return cls(**overrides)

    @classmethod
    def deep_pyramidion(cls, **overrides: Any) -> "PyramidionConfig":
        """6+6 layers of 768, the lengths after each layer as in section 5."""
        return cls(**{"encoder_lengths": [8192, 8192, 2048, 512, 512, 512], **overrides})

    @classmethod
    def deep_pyramidion_early(cls, **overrides: Any) -> "PyramidionConfig":
        """The same, pooled from the first layer on: the one whose self-attention costs 2.5 times less."""
        return cls(**{"encoder_lengths": [8192, 2048, 512, 512, 512, 512], **overrides})

    def layer_inputs(self, length: int | None = None) -> list[int]:
        """How many tokens each encoder layer reads of an input of `length` (`max_source_length` when None)."""
        current = self.max_source_length if length is None else length
        before, inputs = self.max_source_length, []
        for after in self.encoder_lengths or [self.max_source_length] * self.num_hidden_layers:
            inputs.append(current)
            current = min(current, after) if after < before else current
            before = after
        return [*inputs, current]

    def attention_products(self, length: int | None = None, target: int = 512) -> dict[str, int]:
        """
        The attention's multiplications of one document, l * m * n * d as in Table 1.

        Args:
            length: tokens of the input.
            target: tokens of the summary.

        Returns:
            "self_attention" of the encoder and "cross_attention" of the decoder.
        """
        *inputs, output = self.layer_inputs(length)
        own = sum(n * min(n, self.block_size or n) for n in inputs) * self.hidden_size
        return {"self_attention": own, "cross_attention": self.decoder_layers * target * output * self.hidden_size}

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        check_activations(self, "hidden_act")
        check_least(self, vocab_size=1, hidden_size=1, intermediate_size=1, num_attention_heads=1)
        check_least(self, num_hidden_layers=1, decoder_layers=1, max_source_length=1, max_2d_position_embeddings=1)
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id={self.pad_token_id} is outside 0..{self.vocab_size - 1}; set vocab_size to the "
                "tokenizer's number of tokens, len(tokenizer)."
            )
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of 2 * num_attention_heads="
                f"{2 * self.num_attention_heads}, which positions and heads need; change one of them."
            )
        if self.block_size is not None and self.block_size < 1:
            raise ValueError(f"block_size={self.block_size} is no size; set it to 1 or more, or to None.")
        self._validate_lengths()
        reads_scores = self.operator not in ("mean", "max", "index", "random")
        if self.encoder_lengths and self.scorer is None and reads_scores:
            raise ValueError(f'operator="{self.operator}" needs scores; set scorer, for example "linear".')
        powers = self.encoder_lengths and self.operator == "successive_halving" and self.peak == "power"
        if powers and self.score_activation is None and self.scorer not in ("index", "random"):
            raise ValueError(
                'score_activation=None leaves scores without a limit, which overflow peak="power"; set '
                'score_activation="sigmoid", or peak="exponential".'
            )
        if self.scorer == "attention" and self.operator != "hard":
            raise ValueError('scorer="attention" goes with operator="hard": its scores have no gradient and no range.')
        if self.is_encoder_decoder is not True:
            raise ValueError("is_encoder_decoder=False is no Pyramidion; leave it out.")
        if not self.peak_base > 1:
            raise ValueError(
                f"peak_base={self.peak_base} lets higher scores weigh no more than lower ones; set it above 1."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate} is no dropout rate; set it to at least 0 and below 1.")

    def _validate_lengths(self) -> None:
        lengths = self.encoder_lengths
        if lengths is None:
            return
        if len(lengths) != self.num_hidden_layers:
            raise ValueError(
                f"encoder_lengths has {len(lengths)} lengths for {self.num_hidden_layers} encoder layers; give the "
                "length after each layer."
            )
        for before, after in zip([self.max_source_length, *lengths], lengths, strict=False):
            ratio = before / after if after > 0 else 0
            if ratio < 1 or ratio != int(ratio) or int(ratio) & (int(ratio) - 1):
                raise ValueError(
                    f"encoder_lengths={lengths} goes from {before} to {after}; each length must be the one before "
                    "(first: max_source_length) divided by 1, 2, 4, 8 and so on."
                )


__all__ = ["PyramidionConfig"]
