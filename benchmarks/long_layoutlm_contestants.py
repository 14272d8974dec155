"""LongLayoutLM in its patterns, BigBird, and the layout that the spatial patterns read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import BigBirdConfig, BigBirdForTokenClassification, PreTrainedModel

from benchmarks.entry import Size
from broadsheet.modeling.configuration_long_layoutlm import LongLayoutLMConfig
from broadsheet.modeling.modeling_long_layoutlm import LongLayoutLMForTokenClassification
from broadsheet.tokenization.neighbor_blocks import neighbor_tables
from broadsheet.tokenization.spatial_neighbors import GRID, grid_centers, morton_order, nearest_tokens

LABELS = 13  # DocBank's
TINY: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TINY_PATTERN = {"attention_window": 4, "num_neighbors": 4, "random_block_size": 1, "num_random_blocks": 1}
# Sixteen words in a line, lines 18 thousandths of the page's width apart.
WORDS_IN_A_LINE, LINE_PITCH = 16, 0.018


def _settings(size: Size, vocab_size: int) -> dict[str, Any]:
    dropout = {"hidden_dropout_prob": size.dropout, "attention_probs_dropout_prob": size.dropout}
    return {"num_labels": LABELS, "vocab_size": 100 if size.tiny else vocab_size, **dropout} | (
        TINY if size.tiny else {}
    )


def long_layoutlm(size: Size, pattern: Any, vocab_size: int = 30522, **changes: Any) -> PreTrainedModel:
    """LongLayoutLM at base size under a pattern, its position table raised where the input is longer."""
    config = LongLayoutLMConfig(  # type: ignore[call-arg]
        attention_pattern=pattern,
        max_position_embeddings=max(4096, size.length) + 2,
        **{**changes, **(TINY_PATTERN if size.tiny else {})},
        **_settings(size, vocab_size),
    )
    return LongLayoutLMForTokenClassification(config)


def big_bird(size: Size) -> PreTrainedModel:
    """BigBird of transformers at its base size, with its blocks of 64 (one if tiny) and three random ones."""
    blocks: dict[str, Any] = {"block_size": 1, "num_random_blocks": 1} if size.tiny else {}
    config = BigBirdConfig(  # type: ignore[call-arg]
        max_position_embeddings=max(4096, size.length), **blocks, **_settings(size, 50358)
    )
    return BigBirdForTokenClassification(config)


LONG_LAYOUTLMS: dict[str, Callable[[Size], PreTrainedModel]] = {
    "big-bird": big_bird,
    "long-layoutlm+sw": lambda size: long_layoutlm(size, "sliding_window"),
    "long-layoutlm+sw+rand": lambda size: long_layoutlm(size, "sliding_window_random", 50358),
    "long-layoutlm+distance": lambda size: long_layoutlm(size, "distance"),
    "long-layoutlm+distance-512": lambda size: long_layoutlm(size, "distance", num_neighbors=512),
    "long-layoutlm+distance+sw": lambda size: long_layoutlm(size, "distance_sliding_window"),
    "long-layoutlm+union": lambda size: long_layoutlm(size, "union"),
}


def spatial_inputs(config: Any, size: Size) -> dict[str, torch.Tensor]:
    """Neighbours and block tables of words in lines down stacked pages, as processor and collator make them."""
    count = getattr(config, "neighbors_needed", 0)
    if not count:
        return {}
    place = np.arange(size.length)
    corners = np.stack([place % WORDS_IN_A_LINE / WORDS_IN_A_LINE, place // WORDS_IN_A_LINE * LINE_PITCH], 1)
    centers = grid_centers(np.concatenate([corners, corners + 0.01], 1), 1.0)
    assert centers.max() < GRID << 10
    near = np.repeat(nearest_tokens(centers, count)[None], size.batch_size, 0)
    inputs = {"neighbors": near}
    if config.attention_pattern in ("distance", "union"):
        order = np.repeat(morton_order(centers)[None], size.batch_size, 0)
        window = config.attention_window if config.attention_pattern == "union" else None
        inputs |= neighbor_tables(near, order, np.full(size.batch_size, size.length), window)
    return {name: torch.from_numpy(array) for name, array in inputs.items()}
