"""Self-attention over a block table, with Longformer's projections for global tokens."""

import torch
from torch import nn

from .encoder_layer import merge_heads, split_heads
from .global_tokens import GlobalTokens, global_rows, put_global_rows, with_idle_projections
from .layout_embeddings import is_traced
from .seeded_dropout import draw_seed
from .sparse_attention import BlockTable, dense_attention, sparse_attention


class SparseSelfAttention(nn.Module):
    """
    Each token attends to what the table allows; global tokens attend to all, with projections of their own.

    Parameters carry Longformer's names. With a table of all keys and no global token this is BERT's self-attention.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout: float):
        super().__init__()
        self.head_size = hidden_size // num_heads
        self.dropout = dropout
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.query_global = nn.Linear(hidden_size, hidden_size)
        self.key_global = nn.Linear(hidden_size, hidden_size)
        self.value_global = nn.Linear(hidden_size, hidden_size)

    def forward(
        self,
        hidden_states: torch.Tensor,
        table: BlockTable,
        tokens: GlobalTokens | None = None,
        plain: bool = False,
    ) -> torch.Tensor:
        """
        Args:
            hidden_states: `[batch, length, hidden]`.
            table: the pattern, with the global tokens' keys in it (`add_global_tokens`).
            tokens: the global tokens, or None.
            plain: take the plain form.

        Returns:
            `[batch, length, hidden]`.
        """
        dropout, scaling = self.dropout if self.training else 0.0, self.head_size**-0.5
        query = split_heads(self.query(hidden_states), self.head_size)
        key = split_heads(self.key(hidden_states), self.head_size)
        value = split_heads(self.value(hidden_states), self.head_size)
        if plain or is_traced():
            output = dense_attention(query, key, value, table, scaling, dropout=dropout)
        else:
            seed = draw_seed() if dropout else 0
            output = sparse_attention(query, key, value, table, scaling, dropout, seed)
        if tokens is not None:
            query = split_heads(self.query_global(hidden_states), self.head_size)
            key = split_heads(self.key_global(hidden_states), self.head_size)
            value = split_heads(self.value_global(hidden_states), self.head_size)
            output = put_global_rows(output, global_rows(query, key, value, tokens, scaling, dropout), tokens)
        else:
            output = with_idle_projections(
                output, hidden_states, self.query_global, self.key_global, self.value_global
            )
        return merge_heads(output)
