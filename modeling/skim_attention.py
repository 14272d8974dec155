"""
Skim-Attention (Eq. 3 and 4): attention probabilities from layout alone, computed once, read by every text layer.

Three exact forms of softmax(q k^T / sqrt(d)) v, in which q, k, the mask and the dropout are those of all layers:

- plain: probabilities `[batch, heads, length, length]` under autograd; the paper's formula, line by line.
- kept: the same probabilities, made block by block. What the layers send back for them is not summed layer after
  layer in `[batch, heads, length, length]`: each layer leaves its output gradient and its values, and one product of
  these, concatenated over the layers, gives the gradient of the probabilities, block by block. Long inputs without
  dropout do so for every few layers, on the way, so that little is left at a time.
- recomputed: nothing of size length x length is kept. Each layer computes its blocks again from q and k; without
  dropout, or in inference, inside the fused kernel of torch; with dropout, the blocks draw it from one seed.

Kept and recomputed draw the same dropout from the same seed.
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .attention_blocks import (
    LayerGradients,
    LeftPair,
    RowBlock,
    add_products,
    drop_probabilities,
    masked_softmax,
    row_blocks,
    score_gradient,
    zeros_to_sum,
)
from .encoder_layer import merge_heads, split_heads
from .layout_embeddings import is_traced
from .matrix_products import Linear, multiply
from .seeded_dropout import draw_seed


class SkimPattern(NamedTuple):
    """What the text layers read with: the fields of one of the three forms, the others None."""

    probabilities: torch.Tensor | None = None  # [batch, heads, length, length], after dropout
    link: torch.Tensor | None = None  # scalar that ties the layers to the kept probabilities in the graph
    returned: LayerGradients | None = None
    # [batch, heads, length, skim_head_size]; beside kept probabilities where the layers settle on the way
    query: torch.Tensor | None = None
    key: torch.Tensor | None = None
    mask: torch.Tensor | None = None  # bool [batch, 1, 1, length]
    dropout: float = 0.0
    seed: int = 0


class SkimAttention(nn.Module):
    """
    Query and key from the layout embeddings, and the attention pattern that all text layers share.

    Args:
        layout_size: size of the layout embeddings.
        num_heads: number of heads; head h of every text layer uses A_h.
        head_size: size of a head's query and key (`skim_attention_head_size`).
        dropout: dropout of the probabilities, drawn once for all layers.
        recompute_length: inputs longer than this keep no probabilities.
    """

    # Without dropout, layers over inputs longer than this settle on the way, so many together: beyond it, what they
    # leave weighs more than the time that this takes.
    settle_length = 1024
    settle_every = 2

    def __init__(self, layout_size: int, num_heads: int, head_size: int, dropout: float, recompute_length: int):
        super().__init__()
        self.head_size = head_size
        self.dropout = dropout
        self.recompute_length = recompute_length
        self.query = Linear(layout_size, num_heads * head_size)
        self.key = Linear(layout_size, num_heads * head_size)

    def forward(
        self,
        layout: torch.Tensor,
        mask: torch.Tensor | None,
        plain: bool = False,
        keep: bool = False,
    ) -> SkimPattern:
        """
        Args:
            layout: `[batch, length, layout_size]`.
            mask: bool `[batch, 1, 1, length]`, True for the tokens that may be attended to; None for all.
            plain: take the plain form.
            keep: keep the probabilities whatever the length.
        """
        query = split_heads(self.query(layout), self.head_size)
        key = split_heads(self.key(layout), self.head_size)
        dropout = self.dropout if self.training else 0.0
        # An exported graph serves every length, so the length must not decide there.
        exporting = torch.compiler.is_exporting() or torch.jit.is_tracing()
        if plain or exporting or (is_traced() and (dropout > 0 or layout.shape[1] <= self.recompute_length)):
            probabilities = skim_probabilities(query, key, mask)
            return SkimPattern(nn.functional.dropout(probabilities, dropout))
        seed = draw_seed() if dropout else 0
        if layout.shape[1] > self.recompute_length and not keep:
            return SkimPattern(query=query, key=key, mask=mask, dropout=dropout, seed=seed)
        query, key = query.contiguous(), key.contiguous()  # every block reads all keys; once for all who save them
        returned = LayerGradients(self.settle_every)
        probabilities, link = _KeptProbabilities.apply(query, key, mask, dropout, seed, returned)
        if dropout or layout.shape[1] <= self.settle_length:
            return SkimPattern(probabilities, link, returned)
        return SkimPattern(probabilities, link, returned, query.detach(), key.detach())


class SkimValues(nn.Module):
    """What is left of a text layer's self-attention: its values, read through the shared pattern (Eq. 4)."""

    def __init__(self, hidden_size: int, num_heads: int, head_size: int):
        super().__init__()
        self.head_size = head_size
        self.value = Linear(hidden_size, num_heads * head_size)

    def forward(self, hidden_states: torch.Tensor, *pattern: Any) -> torch.Tensor:
        """`[batch, length, hidden]` and the fields of a `SkimPattern` -> `[batch, length, heads * head_size]`."""
        value = split_heads(self.value(hidden_states), self.head_size)
        return merge_heads(read_pattern(SkimPattern(*pattern), value))


def skim_probabilities(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """
    Eq. 3, the plain form: softmax(q k^T / sqrt(d)).

    Shapes: query, key `[batch, heads, length, skim_head_size]`, mask bool `[batch, 1, 1, length]`; returns
    `[batch, heads, length, length]`. With all boxes equal every probability is 1 / (number of tokens). A row without
    a token to attend to, in a document of padding alone, is uniform.
    """
    return masked_softmax(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5, mask)


def read_pattern(pattern: SkimPattern, value: torch.Tensor) -> torch.Tensor:
    """A v of Eq. 4: value `[batch, heads, length, head_size]` -> the same shape."""
    if pattern.probabilities is None:
        assert pattern.query is not None
        assert pattern.key is not None
        if pattern.dropout:
            arguments = (pattern.query, pattern.key, value, pattern.mask, pattern.dropout, pattern.seed)
            return _RecomputedAttention.apply(*arguments)
        return _fused_attention(pattern.query, pattern.key, value, pattern.mask)
    if pattern.returned is None:
        return pattern.probabilities @ value
    kept = pattern.probabilities.detach()
    return _ReadKept.apply(kept, pattern.link, value, pattern.returned, pattern.query, pattern.key)


def _fused_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Eq. 3 and 4 in torch's fused kernel, which wants one head size; zeros fill up the smaller."""
    missing = value.shape[-1] - query.shape[-1]
    scale = query.shape[-1] ** -0.5
    if missing > 0:
        query, key = nn.functional.pad(query, (0, missing)), nn.functional.pad(key, (0, missing))
    filled = nn.functional.pad(value, (0, -missing)) if missing < 0 else value
    output = nn.functional.scaled_dot_product_attention(query, key, filled, attn_mask=mask, scale=scale)
    return output[..., : value.shape[-1]]


class _KeptProbabilities(torch.autograd.Function):
    """Probabilities after dropout, with a scalar whose gradient counts the layers that have left theirs."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        mask: torch.Tensor | None,
        dropout: float,
        seed: int,
        returned: LayerGradients,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = query.new_empty(*query.shape[:3], query.shape[2])
        for block in row_blocks(query):
            clean = _clean_block(query, key, mask, block)
            block.of(probabilities).copy_(drop_probabilities(clean, dropout, seed, block.number))
        # Not the probabilities: when this backward pass comes, the layers are done with them and their memory is free.
        ctx.save_for_backward(query, key, mask)
        ctx.dropout, ctx.seed, ctx.returned = dropout, seed, returned
        ctx.set_materialize_grads(False)
        return probabilities, torch.zeros(())  # on the CPU, so that its gradient is read without waiting for a GPU

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, direct: torch.Tensor | None, link: torch.Tensor | None) -> tuple:  # type: ignore[override]
        query, key, mask = ctx.saved_tensors
        pairs, settled = ctx.returned.take(link)
        if direct is None and not pairs and not settled:
            return None, None, None, None, None, None
        gradients = _PatternGradients(query, key, direct, pairs, settled.pop() if settled else None)
        if direct is not None or pairs:
            for block in row_blocks(query):
                clean = _clean_block(query, key, mask, block)
                gradients.add(block, clean, drop_probabilities(clean, ctx.dropout, ctx.seed, block.number))
        query_gradient, key_gradient = gradients.sums
        for of_query, of_key in settled:
            query_gradient.add_(of_query)
            key_gradient.add_(of_key)
        return query_gradient.to(query.dtype), key_gradient.to(key.dtype), None, None, None, None


class _PatternGradients:
    """
    Gradients of query and key, block by block: from what the layers left, sum of dO v^T as one product, and from what
    came for A itself; added to sums, if there are any.
    """

    def __init__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        direct: torch.Tensor | None,
        pairs: list[LeftPair],
        sums: LeftPair | None = None,
    ):
        self.sums = sums or (zeros_to_sum(query), zeros_to_sum(key))
        self._query, self._key, self._direct, self._pairs = query, key, direct, pairs

    def add(self, block: RowBlock, clean: torch.Tensor, dropped: torch.Tensor) -> None:
        """The block's probabilities before and after dropout, `[documents, heads, rows, length]`."""
        scores = score_gradient(clean, dropped, self._probability_gradient(block)).to(self._query.dtype)
        add_products(block, scores, self._query, self._key, self._query.shape[-1] ** -0.5, *self.sums)

    def _probability_gradient(self, block: RowBlock) -> torch.Tensor:
        if not self._pairs:
            assert self._direct is not None
            return block.of(self._direct)
        outputs = torch.cat([block.of(output) for output, _ in self._pairs], -1)
        values = torch.cat([block.keys(value) for _, value in self._pairs], -1)
        gradient = multiply(outputs, values.transpose(-1, -2))
        return gradient if self._direct is None else gradient.add_(block.of(self._direct))


class _ReadKept(torch.autograd.Function):
    """A v, whose backward pass leaves (output gradient, v) for `_KeptProbabilities` instead of a gradient of A."""

    @staticmethod
    def forward(
        ctx: Any,
        probabilities: torch.Tensor,
        link: torch.Tensor,
        value: torch.Tensor,
        returned: LayerGradients,
        query: torch.Tensor | None,
        key: torch.Tensor | None,
    ) -> torch.Tensor:
        value = value.to(probabilities.dtype)
        ctx.save_for_backward(probabilities, value, query, key)
        ctx.returned, ctx.one = returned, link.new_ones(())
        return multiply(probabilities, value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        probabilities, value, query, key = ctx.saved_tensors

        def settle(pairs: list[LeftPair], sums: LeftPair | None) -> LeftPair:
            gradients = _PatternGradients(query, key, None, pairs, sums)
            for block in row_blocks(query):
                gradients.add(block, block.of(probabilities), block.of(probabilities))
            return gradients.sums

        if ctx.needs_input_grad[1]:
            ctx.returned.leave(gradient, value, None if query is None else settle)
        value_gradient = multiply(probabilities.transpose(-1, -2), gradient) if ctx.needs_input_grad[2] else None
        return None, ctx.one if ctx.needs_input_grad[1] else None, value_gradient, None, None, None


class _RecomputedAttention(torch.autograd.Function):
    """softmax(q k^T / sqrt(d)) v with seeded dropout, block by block, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        dropout: float,
        seed: int,
    ) -> torch.Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.to(query.dtype).contiguous()
        output = value.new_empty(value.shape)
        for block in row_blocks(query):
            dropped = drop_probabilities(_clean_block(query, key, mask, block), dropout, seed, block.number)
            block.of(output).copy_(multiply(dropped, block.keys(value)))
        ctx.save_for_backward(query, key, value, mask)
        ctx.dropout, ctx.seed = dropout, seed
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        query, key, value, mask = ctx.saved_tensors
        gradient = gradient.contiguous()
        scale = query.shape[-1] ** -0.5
        query_gradient, key_gradient, value_gradient = zeros_to_sum(query), zeros_to_sum(key), zeros_to_sum(value)
        for block in row_blocks(query):
            clean = _clean_block(query, key, mask, block)
            dropped = drop_probabilities(clean, ctx.dropout, ctx.seed, block.number)
            block.keys(value_gradient).add_(multiply(dropped.transpose(-1, -2), block.of(gradient)))
            probability_gradient = multiply(block.of(gradient), block.keys(value).transpose(-1, -2))
            scores = score_gradient(clean, dropped, probability_gradient).to(query.dtype)
            add_products(block, scores, query, key, scale, query_gradient, key_gradient)
        gradients = query_gradient.to(query.dtype), key_gradient.to(key.dtype), value_gradient.to(value.dtype)
        return *gradients, None, None, None


def _clean_block(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, block: RowBlock) -> torch.Tensor:
    mask = None if mask is None else mask[block.documents]
    scaled = block.of(query) * query.shape[-1] ** -0.5
    return masked_softmax(multiply(scaled, block.keys(key).transpose(-1, -2)), mask)
