"""The post-norm Transformer layer of BERT, its attention left open. Parameters carry BERT's names."""

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .matrix_products import Linear
from .seeded_dropout import Dropout
from .tracing import is_traced

# What a layer does not keep, the backward pass computes again, so many tokens at a time.
RECOMPUTE_PART = 512


class ResidualOutput(nn.Module):
    """LayerNorm(dropout(dense(x)) + residual)."""

    def __init__(self, input_size: int, hidden_size: int, eps: float, dropout: float):
        super().__init__()
        self.dense = Linear(input_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """`[batch, length, input]` and `[batch, length, hidden]` -> `[batch, length, hidden]`."""
        return self.LayerNorm(self.dropout(self.dense(hidden_states)) + residual)


class Intermediate(nn.Module):
    """activation(dense(x)), the first half of the feed-forward network."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str):
        super().__init__()
        self.dense = Linear(hidden_size, intermediate_size)
        self.activation = ACT2FN[activation]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, intermediate]`."""
        return self.activation(self.dense(hidden_states))


class Attention(nn.Module):
    """An attention and its output projection: `self` and `output`, as in BERT."""

    def __init__(self, attention: nn.Module, attention_size: int, hidden_size: int, eps: float, dropout: float):
        super().__init__()
        self.self = attention
        self.output = ResidualOutput(attention_size, hidden_size, eps, dropout)

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, hidden]`; further arguments go to the attention."""
        attended = self.self(hidden_states, *args, **kwargs)
        # An attention may return its probabilities too, for whoever records them.
        attended = attended[0] if isinstance(attended, tuple) else attended
        return self.output(attended, hidden_states)


class EncoderLayer(GradientCheckpointingLayer):
    """
    One layer: attention, feed-forward network, each with residual and LayerNorm after it.

    Args:
        attention: maps `[batch, length, hidden]` and further arguments to `[batch, length, attention_size]`.
    """

    # Documents of more tokens keep of a layer what its attention needs; the rest, five sixths, is computed again: a
    # quarter more multiplications.
    recompute_length = 1024

    def __init__(
        self,
        attention: nn.Module,
        attention_size: int,
        hidden_size: int,
        intermediate_size: int,
        activation: str,
        eps: float,
        dropout: float,
    ):
        super().__init__()
        self.attention = Attention(attention, attention_size, hidden_size, eps, dropout)
        self.intermediate = Intermediate(hidden_size, intermediate_size, activation)
        self.output = ResidualOutput(intermediate_size, hidden_size, eps, dropout)

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, hidden]`; further arguments go to the attention."""
        if hidden_states.shape[1] <= self.recompute_length or is_traced():
            return self._feed_forward(self.attention(hidden_states, *args, **kwargs))
        attended = self.attention.self(hidden_states, *args, **kwargs)
        attended = attended[0] if isinstance(attended, tuple) else attended
        parts = zip(attended.split(RECOMPUTE_PART, 1), hidden_states.split(RECOMPUTE_PART, 1), strict=True)
        return torch.cat([checkpoint(self._after_attention, *part, use_reentrant=False) for part in parts], 1)

    def _after_attention(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self._feed_forward(self.attention.output(attended, residual))

    def _feed_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.output(self.intermediate(hidden_states), hidden_states)


def split_heads(hidden_states: torch.Tensor, head_size: int) -> torch.Tensor:
    """`[batch, length, heads * head_size]` -> `[batch, heads, length, head_size]`."""
    return hidden_states.unflatten(-1, (-1, head_size)).transpose(1, 2)


def merge_heads(hidden_states: torch.Tensor) -> torch.Tensor:
    """`[batch, heads, length, head_size]` -> `[batch, length, heads * head_size]`."""
    return hidden_states.transpose(1, 2).flatten(2)


def eager_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    softmax(q k^T * scaling + mask) v, the plain form.

    Shapes: query, key, value `[batch, heads, length, head_size]`; additive mask broadcastable to
    `[batch, heads, length, length]`. Returns the output `[batch, length, heads, head_size]`, as the functions of
    transformers do, and the probabilities.
    """
    scores = query @ key.transpose(-1, -2) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    exact = torch.promote_types(query.dtype, torch.float32)
    probabilities = nn.functional.softmax(scores, dim=-1, dtype=exact).to(query.dtype)
    dropped = nn.functional.dropout(probabilities, dropout, training=module.training)
    return (dropped @ value).transpose(1, 2), probabilities


class SelfAttention(nn.Module):
    """BERT's self-attention, computed by the attention function that the config names."""

    is_causal = False

    def __init__(self, config: Any, hidden_size: int, num_heads: int, dropout: float):
        super().__init__()
        self.config = config
        self.head_size = hidden_size // num_heads
        self.dropout = dropout
        self.query = Linear(hidden_size, hidden_size)
        self.key = Linear(hidden_size, hidden_size)
        self.value = Linear(hidden_size, hidden_size)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """`[batch, length, hidden]` and a mask of `create_bidirectional_mask` -> `[batch, length, hidden]`."""
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention)
        output, _ = attend(
            self,
            split_heads(self.query(hidden_states), self.head_size),
            split_heads(self.key(hidden_states), self.head_size),
            split_heads(self.value(hidden_states), self.head_size),
            attention_mask,
            scaling=self.head_size**-0.5,
            dropout=self.dropout if self.training else 0.0,
        )
        return output.flatten(2)
