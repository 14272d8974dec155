"""
Skim-Attention over a sliding window (LongSkimformer): probabilities from layout alone, computed once per block of
queries, read by every text layer.

The forms are those of `skim_attention`: plain (dense, masked, under autograd), kept (the blocks' probabilities stay,
what the layers send back for them is gathered into one product), recomputed (nothing is kept; each layer computes its
blocks again through the one sparse attention, with one dropout seed for all).
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .attention_blocks import LayerGradients
from .encoder_layer import merge_heads, split_heads
from .global_tokens import GlobalTokens, gather_global, global_probabilities, put_global_rows, with_idle_projections
from .layout_embeddings import is_traced
from .seeded_dropout import draw_seed
from .skim_attention import skim_probabilities
from .sparse_attention import (
    BlockTable,
    block_probabilities,
    dense_mask,
    drop_block,
    gather_tokens,
    scatter_tokens,
    sparse_attention,
    table_blocks,
    zeros_by_token,
)


class SkimWindowPattern(NamedTuple):
    """What the text layers read with: the fields of one of the three forms, the others None."""

    # Plain: [batch, heads, length, length]; kept: [batch, blocks, heads, block, K]; after dropout.
    probabilities: torch.Tensor | None = None
    link: torch.Tensor | None = None
    returned: LayerGradients | None = None
    query: torch.Tensor | None = None
    key: torch.Tensor | None = None
    table: BlockTable | None = None
    dropout: float = 0.0
    seed: int = 0
    global_probabilities: torch.Tensor | None = None  # [batch, heads, G, length], after dropout
    tokens: GlobalTokens | None = None


class SkimWindowAttention(nn.Module):
    """
    Query and key from the layout embeddings, with projections of their own for global tokens, as in Longformer.

    Args:
        layout_size: size of the layout embeddings.
        num_heads: number of heads; head h of every text layer uses A_h.
        head_size: size of a head's query and key.
        dropout: dropout of the probabilities, drawn once for all layers.
        recompute_length: inputs longer than this keep no probabilities.
    """

    def __init__(self, layout_size: int, num_heads: int, head_size: int, dropout: float, recompute_length: int):
        super().__init__()
        self.head_size = head_size
        self.dropout = dropout
        self.recompute_length = recompute_length
        self.query = nn.Linear(layout_size, num_heads * head_size)
        self.key = nn.Linear(layout_size, num_heads * head_size)
        self.query_global = nn.Linear(layout_size, num_heads * head_size)
        self.key_global = nn.Linear(layout_size, num_heads * head_size)

    def forward(
        self,
        layout: torch.Tensor,
        table: BlockTable,
        tokens: GlobalTokens | None,
        plain: bool = False,
    ) -> SkimWindowPattern:
        """
        Args:
            layout: `[batch, length, layout_size]`.
            table: the window, with the global tokens' keys where there are any.
            tokens: the global tokens, or None.
            plain: take the plain form, whose `probabilities` `[batch, heads, length, length]` are the whole map.
        """
        query = split_heads(self.query(layout), self.head_size)
        key = split_heads(self.key(layout), self.head_size)
        dropout = self.dropout if self.training else 0.0
        global_part = None
        if tokens is not None:
            global_query = split_heads(self.query_global(layout), self.head_size)
            global_key = split_heads(self.key_global(layout), self.head_size)
            global_part = global_probabilities(global_query, global_key, tokens, self.head_size**-0.5)
        else:
            query = with_idle_projections(query, layout, self.query_global, self.key_global)
        if plain or is_traced():
            probabilities = skim_window_probabilities(query, key, table)
            if tokens is not None and global_part is not None:
                # For reading the map; the layers take the global tokens' outputs from global values.
                probabilities = put_global_rows(probabilities, global_part, tokens)
            probabilities = nn.functional.dropout(probabilities, dropout)
            if tokens is not None:
                global_part = gather_global(probabilities, tokens)
            return SkimWindowPattern(probabilities, global_probabilities=global_part, tokens=tokens)
        if global_part is not None:
            global_part = nn.functional.dropout(global_part, dropout)
        seed = draw_seed() if dropout else 0
        shared: dict[str, Any] = {"table": table, "global_probabilities": global_part, "tokens": tokens}
        if layout.shape[1] > self.recompute_length:
            return SkimWindowPattern(query=query, key=key, dropout=dropout, seed=seed, **shared)
        returned = LayerGradients()
        probabilities, link = _KeptBlocks.apply(query, key, table, dropout, seed, returned)
        return SkimWindowPattern(probabilities, link, returned, **shared)


class SkimWindowValues(nn.Module):
    """What is left of a text layer's self-attention: its values, and those that global tokens read."""

    def __init__(self, hidden_size: int, num_heads: int, head_size: int):
        super().__init__()
        self.head_size = head_size
        self.value = nn.Linear(hidden_size, num_heads * head_size)
        self.value_global = nn.Linear(hidden_size, num_heads * head_size)

    def forward(self, hidden_states: torch.Tensor, *fields: Any) -> torch.Tensor:
        """`[batch, length, hidden]`, the fields of a `SkimWindowPattern` -> `[batch, length, heads * head_size]`."""
        pattern = SkimWindowPattern(*fields)
        output = read_window_pattern(pattern, split_heads(self.value(hidden_states), self.head_size))
        if pattern.tokens is not None and pattern.global_probabilities is not None:
            global_value = split_heads(self.value_global(hidden_states), self.head_size)
            rows = pattern.global_probabilities @ global_value.to(pattern.global_probabilities.dtype)
            output = put_global_rows(output, rows, pattern.tokens)
        else:
            output = with_idle_projections(output, hidden_states, self.value_global)
        return merge_heads(output)


def skim_window_probabilities(query: torch.Tensor, key: torch.Tensor, table: BlockTable) -> torch.Tensor:
    """
    The plain form: softmax(q k^T / sqrt(d)) over the keys that the table allows, zero for queries it leaves out.

    Shapes: query, key `[batch, heads, length, skim_head_size]`; returns `[batch, heads, length, length]`.
    """
    mask = dense_mask(table, query.shape[2]).unsqueeze(1)
    return skim_probabilities(query, key, mask).masked_fill(~mask, 0.0)


def read_window_pattern(pattern: SkimWindowPattern, value: torch.Tensor) -> torch.Tensor:
    """A v: value `[batch, heads, length, head_size]` -> the same shape, zero at the global tokens."""
    if pattern.query is not None and pattern.key is not None and pattern.table is not None:
        scaling = pattern.query.shape[-1] ** -0.5
        value = value.to(pattern.query.dtype)
        return sparse_attention(
            pattern.query, pattern.key, value, pattern.table, scaling, pattern.dropout, pattern.seed
        )
    assert pattern.probabilities is not None
    if pattern.returned is None:
        output = pattern.probabilities @ value
        if pattern.tokens is not None:
            places = torch.arange(value.shape[2], device=value.device)
            is_global = (pattern.tokens.tokens[:, :, None] == places).any(1)
            output = output.masked_fill(is_global[:, None, :, None], 0.0)
        return output
    return _ReadBlocks.apply(pattern.probabilities.detach(), pattern.link, value, pattern.table, pattern.returned)


class _KeptBlocks(torch.autograd.Function):
    """Probabilities of all blocks after dropout, and a scalar that counts the layers that left gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        table: BlockTable,
        dropout: float,
        seed: int,
        returned: LayerGradients,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, heads = query.shape[:2]
        scaling = query.shape[-1] ** -0.5
        parts = []
        for block in table_blocks(table, batch, heads):
            scores = gather_tokens(query, block.queries) @ gather_tokens(key, block.keys).transpose(-1, -2) * scaling
            clean = block_probabilities(scores, block)
            parts.append(drop_block(clean, dropout, seed, block).to(query.dtype))
        probabilities = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        ctx.save_for_backward(query, key, probabilities)
        ctx.table, ctx.dropout, ctx.returned = table, dropout, returned
        ctx.set_materialize_grads(False)
        return probabilities, torch.zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _direct: torch.Tensor | None, link: torch.Tensor | None) -> tuple:  # type: ignore[override]
        query, key, probabilities = ctx.saved_tensors
        returned, _ = ctx.returned.take(link)
        if not returned:
            return None, None, None, None, None, None
        outputs = torch.cat([output for output, _ in returned], -1)
        values = torch.cat([value for _, value in returned], -1)
        scaling = query.shape[-1] ** -0.5
        totals = [zeros_by_token(tensor) for tensor in (query, key)]
        start = 0
        for block in table_blocks(ctx.table, *query.shape[:2]):
            q, k = gather_tokens(query, block.queries), gather_tokens(key, block.keys)
            dropped = probabilities[:, start : start + q.shape[1]]
            start += q.shape[1]
            clean = dropped
            if ctx.dropout:
                clean = block_probabilities(q @ k.transpose(-1, -2) * scaling, block)
            gradient = gather_tokens(outputs, block.queries) @ gather_tokens(values, block.keys).transpose(-1, -2)
            product = (gradient * dropped).to(clean.dtype)
            scores = product.addcmul_(clean, product.sum(-1, keepdim=True), value=-1).to(q.dtype).mul_(scaling)
            scatter_tokens(scores @ k, block.queries, totals[0])
            scatter_tokens(scores.transpose(-1, -2) @ q, block.keys, totals[1])
        gradients = [total.transpose(1, 2).to(query.dtype) for total in totals]
        return *gradients, None, None, None, None


class _ReadBlocks(torch.autograd.Function):
    """A v by blocks, whose backward pass leaves (output gradient, v) for `_KeptBlocks`."""

    @staticmethod
    def forward(
        ctx: Any,
        probabilities: torch.Tensor,
        link: torch.Tensor,
        value: torch.Tensor,
        table: BlockTable,
        returned: LayerGradients,
    ) -> torch.Tensor:
        value = value.to(probabilities.dtype)
        batch, heads, length, size = value.shape
        output = value.new_zeros(batch, length, heads, size)
        start = 0
        for block in table_blocks(table, batch, heads):
            v = gather_tokens(value, block.keys)
            scatter_tokens(probabilities[:, start : start + v.shape[1]] @ v, block.queries, output)
            start += v.shape[1]
        ctx.save_for_backward(probabilities, value)
        ctx.table, ctx.returned, ctx.one = table, returned, link.new_ones(())
        return output.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        probabilities, value = ctx.saved_tensors
        if ctx.needs_input_grad[1]:
            ctx.returned.leave(gradient, value)
        value_gradient = None
        if ctx.needs_input_grad[2]:
            total = zeros_by_token(value)
            start = 0
            for block in table_blocks(ctx.table, *value.shape[:2]):
                part = gather_tokens(gradient, block.queries)
                dropped = probabilities[:, start : start + part.shape[1]]
                scatter_tokens(dropped.transpose(-1, -2) @ part, block.keys, total)
                start += part.shape[1]
            value_gradient = total.transpose(1, 2).to(value.dtype)
        return None, ctx.one if ctx.needs_input_grad[1] else None, value_gradient, None, None
