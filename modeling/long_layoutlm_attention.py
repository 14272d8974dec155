"""LongLayoutLM's self-attention: BERT's projections over a sparse pattern, Longformer's for global tokens."""

import torch
from torch import nn

from .attention_pattern import AttentionPattern, attention_map, global_attention, pattern_attention
from .configuration_long_layoutlm import LongLayoutLMConfig
from .encoder_layer import merge_heads, split_heads
from .global_tokens import put_global_rows, with_idle_projections
from .matrix_products import Linear
from .seeded_dropout import draw_seed


class LongLayoutLMSelfAttention(nn.Module):
    """Self-attention over a pattern; global tokens attend to all, with Longformer's projections of their own."""

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__()
        size = config.hidden_size
        self.head_size = size // config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = Linear(size, size)
        self.key = Linear(size, size)
        self.value = Linear(size, size)
        self.global_projections = config.global_projections
        if config.global_projections:
            self.query_global = Linear(size, size)
            self.key_global = Linear(size, size)
            self.value_global = Linear(size, size)

    def forward(
        self, hidden_states: torch.Tensor, pattern: AttentionPattern, plain: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: `[batch, length, hidden]`.
            pattern: who attends to whom.
            plain: take the plain form, and return the probabilities `[batch, heads, length, length]`.
        """
        scaling, rate = self.head_size**-0.5, self.dropout if self.training else 0.0
        query = split_heads(self.query(hidden_states), self.head_size)
        key = split_heads(self.key(hidden_states), self.head_size)
        value = split_heads(self.value(hidden_states), self.head_size)
        probabilities = None
        if plain:
            probabilities = attention_map(query, key, pattern, scaling).to(value.dtype)
            output = nn.functional.dropout(probabilities, rate) @ value
        else:
            output = pattern_attention(query, key, value, pattern, scaling, rate, draw_seed() if rate else 0)
        if pattern.tokens is not None:
            named = "_global" if self.global_projections else ""
            projections = tuple(getattr(self, part + named) for part in ("query", "key", "value"))
            rows, attended = global_attention(hidden_states, projections, pattern.tokens, self.head_size, rate)
            output = put_global_rows(output, rows, pattern.tokens)
            if probabilities is not None:
                probabilities = put_global_rows(probabilities, attended, pattern.tokens)
        elif self.global_projections:
            output = with_idle_projections(
                output, hidden_states, self.query_global, self.key_global, self.value_global
            )
        return merge_heads(output), probabilities
