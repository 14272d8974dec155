"""The layers of Pyramidion's encoder and decoder, and its embeddings. No positions are learned."""

import math
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .blockwise_attention import BlockwiseSelfAttention
from .encoder_layer import Attention, EncoderLayer, Intermediate, ResidualOutput, eager_attention, split_heads
from .layout_embeddings import LayoutEmbeddings
from .matrix_products import Linear
from .seeded_dropout import Dropout
from .tracing import is_traced


def sinusoidal_positions(positions: torch.Tensor, size: int, rates: list[float] | None = None) -> torch.Tensor:
    """
    Vaswani et al.'s positions as fairseq has them, all sines before all cosines.

    Shapes: `positions` `[...]` -> float32 `[..., size]`; wavelengths from 2 pi to 10000 * 2 pi. `rates` are those of
    `position_rates`, which are computed where they are not given.
    """
    rate = torch.tensor(rates or position_rates(size), device=positions.device, dtype=torch.float32)
    angles = positions.to(torch.float32).unsqueeze(-1) * rate
    return torch.cat([angles.sin(), angles.cos()], -1)


def position_rates(size: int) -> list[float]:
    """
    Radians of each pair of coordinates from one position to the next. Another runtime's `exp` may round them
    otherwise, which eight thousand positions on is a thousandth of a radian: a graph gets them as numbers.
    """
    half = size // 2
    step = math.log(10000) / max(1, half - 1)
    return (torch.arange(half, device="cpu", dtype=torch.float32) * -step).exp().tolist()


class PyramidionEmbeddings(nn.Module):
    """Words times sqrt(hidden), and positions, boxes as asked; dropout. There is no LayerNorm."""

    def __init__(self, config: Any, use_positions: bool, use_layout: bool):
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.dropout = Dropout(config.hidden_dropout_prob)
        if use_layout:
            rows, eps = config.max_2d_position_embeddings, config.layer_norm_eps
            self.layout_embeddings = LayoutEmbeddings(rows, size, eps, config.hidden_dropout_prob)
        self.use_positions = use_positions
        self.use_layout = use_layout
        self.offset = config.position_offset
        self._rates = position_rates(size)
        # Kept from call to call: eight thousand positions take as long as a layer's norms. No buffer, it is not a
        # part of the model.
        self._table: torch.Tensor | None = None

    def forward(
        self,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        start: int | torch.Tensor = 0,
    ) -> torch.Tensor:
        """
        Args:
            input_ids: int `[batch, length]`.
            inputs_embeds: `[batch, length, hidden]`, unscaled, instead.
            bbox: int `[batch, length, 4]`, with `use_layout`.
            start: the place of the first token.
        """
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        embedding = words * math.sqrt(words.shape[-1])
        if self.use_positions:
            embedding = embedding + self.positions(words, start)
        if self.use_layout:
            embedding = embedding + self.layout_embeddings(bbox)
        return self.dropout(embedding)

    def positions(self, like: torch.Tensor, start: int | torch.Tensor) -> torch.Tensor:
        """`[length, hidden]` in dtype and device of `like` `[batch, length, hidden]`."""
        length, size = like.shape[1:]
        if is_traced() or isinstance(start, torch.Tensor):
            places = torch.arange(length, device=like.device) + start + self.offset
            return sinusoidal_positions(places, size, self._rates).to(like.dtype)
        end = start + length
        table = self._table
        if table is None or len(table) < end or table.device != like.device or table.dtype != like.dtype:
            places = torch.arange(max(end, 512), device=like.device) + self.offset
            # Outside of inference mode, whose tensors no later training step may use.
            with torch.inference_mode(False), torch.no_grad():
                self._table = table = sinusoidal_positions(places.clone(), size).to(like.dtype)
        return table[start:end]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}


class PyramidionEncoderLayer(EncoderLayer):
    """Blockwise attention and feed-forward network, each with residual and LayerNorm after it."""

    def __init__(self, config: Any):
        super().__init__(
            BlockwiseSelfAttention(config),
            attention_size=config.hidden_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class PyramidionDecoderAttention(nn.Module):
    """Multi-head attention to what was written before, or to the encoder's output; its keys are kept in a cache."""

    def __init__(self, config: Any, layer_idx: int, is_cross_attention: bool):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_cross_attention = is_cross_attention
        self.is_causal = not is_cross_attention
        self.head_size = config.hidden_size // config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = Linear(config.hidden_size, config.hidden_size)
        self.key = Linear(config.hidden_size, config.hidden_size)
        self.value = Linear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: `[batch, length, hidden]`.
            source: `[batch, source length, hidden]`, for cross-attention.
            attention_mask: as transformers makes it for the backend.
            past_key_values: both caches; the source's keys are computed once.

        Returns:
            `[batch, length, hidden]`, and with the eager backend the probabilities.
        """
        query = split_heads(self.query(hidden_states), self.head_size)
        key, value = self._keys(hidden_states if source is None else source, past_key_values)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention)
        output, probabilities = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            scaling=self.head_size**-0.5,
            dropout=self.dropout if self.training else 0.0,
        )
        return output.flatten(2), probabilities

    def _keys(self, source: torch.Tensor, caches: EncoderDecoderCache | None) -> tuple[torch.Tensor, torch.Tensor]:
        if caches is not None and self.is_cross_attention and caches.is_updated.get(self.layer_idx):
            kept: Any = caches.cross_attention_cache.layers[self.layer_idx]
            return kept.keys, kept.values
        key = split_heads(self.key(source), self.head_size)
        value = split_heads(self.value(source), self.head_size)
        if caches is None:
            return key, value
        if self.is_cross_attention:
            caches.is_updated[self.layer_idx] = True
            return caches.cross_attention_cache.update(key, value, self.layer_idx)
        return caches.self_attention_cache.update(key, value, self.layer_idx)


class PyramidionDecoderLayer(GradientCheckpointingLayer):
    """Self-attention, cross-attention, feed-forward network, each with residual and LayerNorm after it."""

    def __init__(self, config: Any, layer_idx: int):
        super().__init__()
        size, eps, dropout = config.hidden_size, config.layer_norm_eps, config.hidden_dropout_prob
        own, cross = (PyramidionDecoderAttention(config, layer_idx, is_cross) for is_cross in (False, True))
        self.attention = Attention(own, size, size, eps, dropout)
        self.cross_attention = Attention(cross, size, size, eps, dropout)
        self.intermediate = Intermediate(size, config.intermediate_size, config.hidden_act)
        self.output = ResidualOutput(config.intermediate_size, size, eps, dropout)

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        source_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
    ) -> torch.Tensor:
        """`[batch, length, hidden]` and `source` `[batch, source length, hidden]` -> `[batch, length, hidden]`."""
        attended = self.attention(hidden_states, None, attention_mask, past_key_values)
        attended = self.cross_attention(attended, source, source_mask, past_key_values)
        return self.output(self.intermediate(attended), attended)


__all__ = [
    "PyramidionDecoderAttention",
    "PyramidionDecoderLayer",
    "PyramidionEmbeddings",
    "PyramidionEncoderLayer",
    "sinusoidal_positions",
]
