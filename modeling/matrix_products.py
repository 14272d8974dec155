"""
Matrix products in oneDNN's kernels on the CPU.

torch computes float32 products on the CPU with MKL, which leaves AVX-512 unused on processors that are not Intel's.
The oneDNN kernels that come with torch use it: 2.1 times as fast on an AMD EPYC of 2025, equal to rounding. On other
devices, in other precisions, under a compiler or a tracer, and for small products, everything here is torch's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .tracing import is_traced

# Multiplications below which a call costs more than it saves.
WORTHWHILE = 1 << 20
PLAIN_TENSORS = (torch.Tensor, nn.Parameter)
# Rows up to which a product's time is that of reading the weight, and products of so few rows after which packing it,
# which takes as long as some of them, pays.
FEW_ROWS, PRODUCTS_TO_PAY = 64, 16
# With a packed weight a call is worth its cost for so many times fewer multiplications.
PACKED_GAIN = 4


class _PackedWeight:
    """A copy of a weight in the order that the kernels read it in, made when it has been asked for often enough."""

    def __init__(self) -> None:
        self._asked = 0
        self._packed: torch.Tensor | None = None

    def of(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight, or its copy."""
        self._asked += 1
        if self._packed is None and self._asked > PRODUCTS_TO_PAY:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), FEW_ROWS)
        return weight if self._packed is None else self._packed


class Linear(nn.Linear):
    """`nn.Linear`: the same parameters, the same results to rounding."""

    _packed: _PackedWeight | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`[..., in_features]` -> `[..., out_features]`."""
        multiplications = input.numel() * self.out_features
        packed = None if is_traced() or torch.is_grad_enabled() else self._packed
        if packed is not None:
            if input.numel() > FEW_ROWS * self.in_features:
                packed = None
            else:
                multiplications *= PACKED_GAIN
        if not runs_in_onednn(multiplications, input, self.weight):
            return super().forward(input)
        rows = input.reshape(-1, self.in_features)
        if packed is None:
            output = _LinearProduct.apply(rows, self.weight, self.bias)
        else:
            output = _linear(rows.contiguous(), packed.of(self.weight), self.bias)
        return output.view(*input.shape[:-1], self.out_features)


def is_plain(layer: Any) -> bool:
    """
    Whether a layer's weight and bias are all there is to it and lie at hand, so that they may be read in its place.
    Others (with adapters, quantised, sharded, offloaded) must be called.
    """
    if type(layer) not in (nn.Linear, Linear):
        return False
    return is_traced() or (type(layer.weight) in PLAIN_TENSORS and not layer.weight.is_meta)


@contextmanager
def packed_weights(model: nn.Module) -> Iterator[None]:
    """
    For a loop that writes token by token: the model's `Linear`s may multiply a few rows with packed copies of their
    weights, in two thirds of the time. Meanwhile the weights must not change, and those used take their memory once
    more.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, Linear)]
    for layer in layers:
        layer._packed = _PackedWeight()
    try:
        yield
    finally:
        for layer in layers:
            layer._packed = None


def multiply(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right` for `[..., m, k]` and `[..., k, n]` of the same leading dimensions, without autograd."""
    rows, size, columns = *left.shape[-2:], right.shape[-1]
    if not runs_in_onednn(rows * size * columns, left, right):
        return left @ right
    pairs = zip(left.reshape(-1, rows, size), right.reshape(-1, size, columns), strict=True)
    # A transposed left factor is read faster on the right.
    products = [_product(a, b) if a.is_contiguous() else _product(b.t(), a.t()).t() for a, b in pairs]
    together = products[0] if len(products) == 1 else torch.stack(products)
    return together.reshape(*left.shape[:-1], columns)


def runs_in_onednn(multiplications: int, left: torch.Tensor, right: torch.Tensor) -> bool:
    return (
        multiplications >= WORTHWHILE
        and left.dtype == right.dtype == torch.float32
        and left.device.type == right.device.type == "cpu"
        # No subclasses: quantised, distributed and fake tensors have products of their own.
        and type(left) in PLAIN_TENSORS
        and type(right) in PLAIN_TENSORS
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
        and not is_traced()
    )


def _product(left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`left @ right + bias`: `[m, k]`, `[k, n]`, `[n]` -> `[m, n]`."""
    # With other strides than a matrix's or its transpose's, the kernel is a plain loop.
    left, right = (x if x.is_contiguous() or x.t().is_contiguous() else x.contiguous() for x in (left, right))
    return _linear(left, right.t(), bias)


def _linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")


class _LinearProduct(torch.autograd.Function):
    """`input @ weight^T + bias` for `[rows, in]`, `[out, in]`, `[out]`; its gradients are such products themselves."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(input, weight)
        return _product(input, weight.t(), bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        input, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (
            _LinearProduct.apply(gradient, weight.t(), None) if wanted[0] else None,
            _LinearProduct.apply(gradient.t(), input.t(), None) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )
