"""
Exact attention with an additive bias that all layers share.

Under autograd alone a bias that needs a gradient sends torch's fused kernel to its slow form, and every layer makes a
gradient of the bias's size. Here nothing of size length x length is kept but the bias, and the layers add what they
have for it into one tensor.
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .attention_blocks import (
    RowBlock,
    add_products,
    drop_probabilities,
    masked_softmax,
    row_blocks,
    score_gradient,
    zeros_to_sum,
)
from .matrix_products import multiply


class BiasGradient:
    """The sum of what the layers' backward passes have for a shared bias. No tensor, so that nothing copies it."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | None = None
        self._layers: list[object] = []

    def begin(self, layer: object) -> None:
        """
        A layer is about to add. If it has added before, that was in an earlier pass, for other inputs than the bias
        (`torch.autograd.grad`), and nobody took the sum: it begins anew.
        """
        if layer in self._layers:
            self._sum, self._layers = None, []
        self._layers.append(layer)

    def add(self, block: RowBlock, scores: torch.Tensor, like: torch.Tensor) -> None:
        """Add the gradient of a block's scores, summed over documents where these share the bias `like`."""
        if self._sum is None:
            self._sum = torch.zeros_like(like)
        if like.shape[0] == 1:
            self._sum[:, block.heads, block.rows] += scores.sum(0, keepdim=True)
        else:
            block.of(self._sum).add_(scores)

    def take(self, count: int) -> torch.Tensor | None:
        """The sum of the `count` layers of this pass, given away."""
        total, added = self._sum, len(self._layers)
        self._sum, self._layers = None, []
        if added != count:
            raise RuntimeError(
                f"{count} layers read the bias in this backward pass, but {added} left gradients for it; an earlier "
                "pass through other layers asked for other inputs alone. Ask for the bias's in it too."
            )
        return total


class SharedBias(NamedTuple):
    """
    A bias as the layers get it.

    Attributes:
        bias: `[batch or 1, heads, length, length]`, cut off from the graph.
        link: scalar that ties the layers to the bias in the graph; None where it needs no gradient.
        gradient: where the layers leave what they have for it.
    """

    bias: torch.Tensor
    link: torch.Tensor | None
    gradient: BiasGradient | None


def share_bias(bias: torch.Tensor) -> SharedBias:
    """Prepare a bias for the layers of one forward pass."""
    if not (bias.requires_grad and torch.is_grad_enabled()):
        return SharedBias(bias.detach(), None, None)
    gradient = BiasGradient()
    return SharedBias(bias.detach(), _Link.apply(bias, gradient), gradient)


def fold_mask(bias: torch.Tensor, mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """
    A bias without gradient as `scaled_dot_product_attention` reads it, made once for all layers.

    Args:
        bias: `[batch or 1, heads, length, length]`; it may be overwritten.
        mask: bool `[batch, 1, 1, length]`, True for the tokens that may be attended to; None for all.
        dtype: of the queries.
    """
    bias = bias.detach().to(dtype)
    if mask is None:
        return bias
    lowest = torch.finfo(dtype).min
    return bias.masked_fill_(~mask, lowest) if len(bias) == len(mask) else bias.masked_fill(~mask, lowest)


def biased_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    shared: SharedBias,
    mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> torch.Tensor:
    """
    softmax(q k^T * scaling + bias) v.

    Args:
        query: `[batch, heads, length, head_size]`; key and value likewise.
        shared: the bias.
        mask: bool `[batch, 1, 1, length]`, True for the tokens that may be attended to; None for all.
        scaling: factor of the products.
        dropout: share of the probabilities that is dropped; 0 outside training.
        seed: what the dropout is drawn from.

    Returns:
        `[batch, heads, length, head_size]`.
    """
    if not dropout and shared.link is None:
        bias = shared.bias.to(query.dtype) if mask is None else fold_mask(shared.bias.clone(), mask, query.dtype)
        return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scaling)
    arguments = (query, key, value, shared.bias, shared.link, shared.gradient, mask, scaling, dropout, seed)
    return _BiasedAttention.apply(*arguments)


def biased_probabilities(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor | None, scaling: float
) -> torch.Tensor:
    """The plain form of the probabilities: `[batch, heads, queries, keys]`, bias and mask broadcastable to it."""
    return _softmax(query @ key.transpose(-1, -2) * scaling, bias, mask)


def _softmax(scores: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return masked_softmax(scores.to(torch.promote_types(scores.dtype, torch.float32)) + bias, mask)


class _Link(torch.autograd.Function):
    """The bias's place in the graph: its backward pass collects what the layers left."""

    @staticmethod
    def forward(ctx: Any, bias: torch.Tensor, gradient: BiasGradient) -> torch.Tensor:
        ctx.gradient = gradient
        return torch.zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, link: torch.Tensor) -> tuple:  # type: ignore[override]
        return ctx.gradient.take(int(link)), None


class _BiasedAttention(torch.autograd.Function):
    """`biased_attention` block by block, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor,
        link: torch.Tensor | None,
        gradient: BiasGradient | None,
        mask: torch.Tensor | None,
        scaling: float,
        dropout: float,
        seed: int,
    ) -> torch.Tensor:
        output = torch.empty_like(value)
        ctx.save_for_backward(query, key, value, bias, mask)
        ctx.gradient, ctx.scaling, ctx.dropout, ctx.seed = gradient, scaling, dropout, seed
        ctx.layer = object()
        for block in row_blocks(query):
            clean = _block(ctx, query, key, bias, mask, block)
            dropped = drop_probabilities(clean, dropout, seed, block.number).to(value.dtype)
            block.of(output).copy_(multiply(dropped, block.keys(value)))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        query, key, value, bias, mask = ctx.saved_tensors
        query_gradient, key_gradient, value_gradient = zeros_to_sum(query), zeros_to_sum(key), zeros_to_sum(value)
        if ctx.gradient is not None:
            ctx.gradient.begin(ctx.layer)
        for block in row_blocks(query):
            clean = _block(ctx, query, key, bias, mask, block)
            dropped = drop_probabilities(clean, ctx.dropout, ctx.seed, block.number)
            output_gradient = block.of(gradient)
            block.keys(value_gradient).add_(multiply(dropped.to(value.dtype).transpose(-1, -2), output_gradient))
            probability_gradient = multiply(output_gradient, block.keys(value).transpose(-1, -2))
            scores = score_gradient(clean, dropped, probability_gradient)
            if ctx.gradient is not None:
                ctx.gradient.add(block, scores, bias)
            add_products(block, scores.to(query.dtype), query, key, ctx.scaling, query_gradient, key_gradient)
        link = None if ctx.gradient is None else torch.ones(())  # these are counted
        gradients = query_gradient.to(query.dtype), key_gradient.to(key.dtype), value_gradient.to(value.dtype)
        return *gradients, None, link, None, None, None, None, None


def _block(
    ctx: Any, query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor | None, block: RowBlock
) -> torch.Tensor:
    of_block = bias[:, block.heads, block.rows] if bias.shape[0] == 1 else block.of(bias)
    scores = multiply(block.of(query) * ctx.scaling, block.keys(key).transpose(-1, -2))
    return _softmax(scores, of_block, None if mask is None else mask[block.documents])
