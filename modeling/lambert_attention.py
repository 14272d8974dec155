"""LAMBERT's self-attention: RoBERTa's, a bias added to its scores."""

from typing import Any

import torch
from torch import nn

from .biased_attention import SharedBias, biased_attention, biased_probabilities
from .configuration_lambert import LambertConfig
from .encoder_layer import merge_heads, split_heads
from .flex_bias import FlexBias, flex_biased_attention
from .seeded_dropout import draw_seed


class LambertSelfAttention(nn.Module):
    """RoBERTa's self-attention with the bias added to the scores after their scaling."""

    def __init__(self, config: LambertConfig):
        super().__init__()
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: torch.Tensor,
        mask: torch.Tensor | None,
        bias: torch.Tensor | FlexBias | None,
        link: torch.Tensor | None,
        gradient: Any,
        plain: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: `[batch, length, hidden]`.
            mask: bool `[batch, 1, 1, length]`, or None.
            bias: `[batch or 1, heads, length, length]`, or None; or what FlexAttention looks up, the mask in it.
            link: see `SharedBias`.
            gradient: see `SharedBias`.
            plain: take the plain form, under autograd, and return the probabilities.
        """
        query = split_heads(self.query(hidden_states), self.head_size)
        key = split_heads(self.key(hidden_states), self.head_size)
        value = split_heads(self.value(hidden_states), self.head_size)
        scaling, dropout = self.head_size**-0.5, self.dropout if self.training else 0.0
        if isinstance(bias, FlexBias):
            return merge_heads(flex_biased_attention(query, key, value, bias, scaling)), None
        if plain:
            zero = query.new_zeros(()) if bias is None else bias
            probabilities = biased_probabilities(query, key, zero, mask, scaling).to(value.dtype)
            output = nn.functional.dropout(probabilities, dropout) @ value
            return merge_heads(output), probabilities
        if bias is None:
            output = nn.functional.scaled_dot_product_attention(query, key, value, mask, dropout, scale=scaling)
        else:
            shared, seed = SharedBias(bias, link, gradient), draw_seed() if dropout else 0
            output = biased_attention(query, key, value, shared, mask, scaling, dropout, seed)
        return merge_heads(output), None
