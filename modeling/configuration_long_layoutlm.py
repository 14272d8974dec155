"""Configuration of LongLayoutLM."""

import logging
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig

from .config_checks import check_activations, check_least
from .warm_start import WarmStartConfigMixin

logger = logging.getLogger(__name__)

# What makes a decoder, an exported graph or another tokenizer of a parent, and has no meaning here.
DROPPED = (
    "is_decoder",
    "add_cross_attention",
    "use_cache",
    "position_embedding_type",
    "onnx_export",
    "sep_token_id",
    "ignore_attention_mask",
    "gradient_checkpointing",
    "use_bias",
)
DISTANCE_PATTERNS = ("distance", "distance_sliding_window", "union")


def from_longformer(config: dict[str, Any]) -> dict[str, Any]:
    """Longformer's config as ours: a window per layer becomes one, positions start after the padding token's."""
    ours = {name: value for name, value in config.items() if name not in DROPPED}
    window = ours.get("attention_window", 512)
    if isinstance(window, list | tuple):
        if len(set(window)) > 1:
            raise ValueError(
                f"This Longformer's layers have the windows {', '.join(map(str, window))}, but LongLayoutLM has one "
                "for all; start from a checkpoint whose attention_window is the same in every layer."
            )
        ours["attention_window"] = window[0]
    pad = ours.get("pad_token_id", 1)
    ours["position_offset"] = (0 if pad is None else pad) + 1
    # LongformerConfig's defaults, which its config.json may leave out, are not ours.
    defaults = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
    return {**defaults, "attention_pattern": "sliding_window", **ours}


def from_big_bird(config: dict[str, Any]) -> dict[str, Any]:
    """BigBird's config as ours: its own names for blocks, positions from 0, its activation in every head."""
    if config.get("rescale_embeddings"):
        raise ValueError(
            "This BigBird rescales its word embeddings, which LongLayoutLM does not; start from another checkpoint."
        )
    if config.get("attention_type") == "original_full":
        logger.warning(
            "This BigBird attends to everything (attention_type 'original_full'); LongLayoutLM takes its weights and "
            "attends to a window and random blocks."
        )
    dropped = (*DROPPED, "rescale_embeddings", "attention_type", "block_size")
    activation = config.get("hidden_act", "gelu_new")
    return {
        "attention_pattern": "sliding_window_random",
        "random_block_size": config.get("block_size", 64),
        "global_projections": False,
        "position_offset": 0,
        "vocab_size": 50358,
        "max_position_embeddings": 4096,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": activation,
        "lm_head_act": activation,
        "classifier_act": activation,
        **{name: value for name, value in config.items() if name not in dropped},
    }


@strict
class LongLayoutLMConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a LongLayoutLM (Position-aware attention for long documents, section 3): LayoutLM's architecture
    with an attention that is sparse in the text, on the page, or both, for 4,096 tokens and more over whole documents.
    Checkpoints of Longformer and BigBird load as they are (`from_pretrained`), and the model then equals its parent
    until it is trained.

    Args:
        vocab_size: number of tokens of the vocabulary.
        hidden_size: size of the layers.
        num_hidden_layers: number of layers.
        num_attention_heads: heads of the attention.
        intermediate_size: size of the feed-forward networks' inner layer.
        hidden_act: activation of the feed-forward networks.
        lm_head_act: activation in the masked LM head.
        classifier_act: activation in the classifiers.
        hidden_dropout_prob: dropout of embeddings, attention outputs and feed-forward outputs.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_position_embeddings: rows of the 1-D position table.
        position_offset: the row of the first token's position; 2 in Longformer, whose first rows are not used.
        max_2d_position_embeddings: rows of the 2-D tables; boxes are 0..max_2d_position_embeddings-1, those of
            `LongLayoutLMProcessor` 0..1023.
        layout_init: "zeros", the 2-D tables add nothing at the start; or "normal".
        type_vocab_size: number of token types.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: epsilon of the LayerNorms.
        pad_token_id: the padding token.
        bos_token_id: the token at the start.
        eos_token_id: the token at the end.
        attention_pattern: who attends to whom. "sliding_window" (SW): the `attention_window // 2` tokens before and
            after; "sliding_window_random" (SW+RAND): BigBird's blocks; "distance" (DISTANCE): the `num_neighbors`
            tokens nearest on the page; "distance_sliding_window" (DISTANCE+SW): scores from the nearest tokens, values
            from the window, k-th with k-th; "union": the nearest tokens and the window.
        attention_window: how many tokens around a token it attends to, half before it and half after it; even.
        num_neighbors: how many nearest tokens a token attends to, itself included. DISTANCE+SW takes
            `attention_window + 1`.
        random_block_size: tokens of a block of SW+RAND.
        num_random_blocks: random blocks that a block of SW+RAND attends to, beside itself and the blocks around it.
        random_seed: what these are drawn from, so that a reloaded model attends to the same.
        global_blocks: whether all attend to the first and the last block of SW+RAND, and these to all.
        count_duplicates: whether a block that SW+RAND lists several times weighs several times, as in BigBird.
        global_projections: whether global tokens have query, key and value projections of their own, as in Longformer.
        classifier_dropout: dropout in classifiers; `hidden_dropout_prob` when None.
        tie_word_embeddings: share the word embeddings with the masked LM head.
    """

    model_type = "long_layoutlm"
    parents = {"longformer": from_longformer, "big_bird": from_big_bird}

    vocab_size: int = 50265
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    lm_head_act: str = "gelu"
    classifier_act: str = "tanh"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    max_position_embeddings: int = 4098
    position_offset: int = 2
    max_2d_position_embeddings: int = 1024
    layout_init: Literal["zeros", "normal"] = "zeros"
    type_vocab_size: int = 1
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-5
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    attention_pattern: Literal[
        "sliding_window", "sliding_window_random", "distance", "distance_sliding_window", "union"
    ] = "sliding_window"
    attention_window: int = 512
    num_neighbors: int = 128
    random_block_size: int = 64
    num_random_blocks: int = 3
    random_seed: int = 0
    global_blocks: bool = True
    count_duplicates: bool = False
    global_projections: bool = True
    classifier_dropout: float | int | None = None
    tie_word_embeddings: bool = True

    @property
    def neighbors_needed(self) -> int:
        """How many nearest tokens the pattern reads for each token; 0 where it reads none."""
        if self.attention_pattern == "distance_sliding_window":
            return self.attention_window + 1
        return self.num_neighbors if self.attention_pattern in DISTANCE_PATTERNS else 0

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        check_activations(self, "hidden_act", "lm_head_act", "classifier_act")
        check_least(self, num_attention_heads=1, num_neighbors=1, random_block_size=1, num_random_blocks=0)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is no multiple of num_attention_heads={self.num_attention_heads}; "
                "change one of them."
            )
        if self.attention_window < 2 or self.attention_window % 2:
            raise ValueError(f"attention_window={self.attention_window} is no even number from 2 up; set it to one.")
        if not 0 <= self.position_offset < self.max_position_embeddings:
            raise ValueError(
                f"position_offset={self.position_offset} leaves no position of the table's "
                f"{self.max_position_embeddings}; set it to 0 or more, below max_position_embeddings."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate} is no dropout rate; set it to at least 0 and below 1.")


__all__ = ["LongLayoutLMConfig"]
