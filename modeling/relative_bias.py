"""LAMBERT's relative attention bias: a number per head for how far apart two tokens are, in text and on the page."""

import math
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import initialization as init

from .tracing import is_traced


class RelativeBias(nn.Module):
    """
    W(i - j) + H(xi_i - xi_j) + V(eta_i - eta_j) per head, each table switchable, shared by all layers.

    xi and eta are the left edge and the vertical centre of a box in hundredths of the page's height.

    Args:
        num_heads: heads of the attention.
        kind: "grid", integer differences clipped to the table (the paper's form; the sequential one to
            +-`max_distance`); or "log_buckets", T5's buckets of the difference key minus query, truncated to integers
            (the authors' implementation).
        sequential: whether W is there.
        horizontal: whether H is there.
        vertical: whether V is there.
        max_distance: largest difference of positions that W tells apart in the grid form.
    """

    SCALE = 100  # C in the paper: hundredths of the page's height
    NUM_BUCKETS, SEQUENTIAL_REACH, PAGE_REACH = 32, 128, 64

    def __init__(
        self, num_heads: int, kind: str, sequential: bool, horizontal: bool, vertical: bool, max_distance: int
    ):
        super().__init__()
        self.kind, self.max_distance = kind, max_distance
        page_rows = 2 * self.SCALE if kind == "grid" else self.NUM_BUCKETS
        text_rows = 2 * max_distance + 1 if kind == "grid" else self.NUM_BUCKETS
        self.sequential = BiasTable(text_rows, num_heads) if sequential else None
        self.horizontal = BiasTable(page_rows, num_heads) if horizontal else None
        self.vertical = BiasTable(page_rows, num_heads) if vertical else None

    def forward(self, bbox: torch.Tensor) -> torch.Tensor | None:
        """
        Args:
            bbox: float `[batch, length, 4]`, in units of the page's height.

        Returns:
            `[batch, heads, length, length]`, `[1, heads, length, length]` where W is the only table, None where there
            is none.
        """
        left, middle = self.coordinates(bbox)
        tables, indices = [], []
        if self.horizontal is not None:
            tables.append(self.horizontal())
            indices.append(self.page_index(left))
        if self.vertical is not None:
            tables.append(self.vertical())
            indices.append(self.page_index(middle))
        if self.sequential is not None:
            places = torch.arange(bbox.shape[1], device=bbox.device)[None]
            tables.append(self.sequential())
            indices.append(self.sequential_index(places))
        return _LookUp.apply(*tables, *indices) if tables else None

    def coordinates(self, bbox: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The xi and eta of boxes `[batch, length, 4]`: `[batch, length]` each, in hundredths of the page's height."""
        return self.SCALE * bbox[..., 0], self.SCALE * (bbox[..., 1] + bbox[..., 3]) / 2

    def sequential_index(self, places: torch.Tensor) -> torch.Tensor:
        """Rows of W for positions `[batch, length]`: `[batch, length, length]`, query by key."""
        return self.sequential_row(places[:, :, None], places[:, None, :])

    def page_index(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Rows of H or V for coordinates `[batch, length]` in hundredths: `[batch, length, length]`, query by key."""
        return self.page_row(coordinates[:, :, None], coordinates[:, None, :])

    def sequential_row(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Rows of W for pairs of positions."""
        if self.kind == "grid":
            return (query - key).clamp(-self.max_distance, self.max_distance) + self.max_distance
        return log_buckets(key - query, self.NUM_BUCKETS, self.SEQUENTIAL_REACH)

    def page_row(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Rows of H or V for pairs of coordinates in hundredths."""
        if self.kind == "grid":
            return (query - key).floor().long().clamp(-self.SCALE, self.SCALE - 1) + self.SCALE
        return log_buckets((key - query).trunc().long(), self.NUM_BUCKETS, self.PAGE_REACH)


class BiasTable(nn.Module):
    """A number per head for each row: `[rows, heads]`. A class of its own, so that it can start at zero."""

    def __init__(self, rows: int, num_heads: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, num_heads))

    def forward(self) -> torch.Tensor:
        """The table; the weight itself may lie elsewhere until its module is called."""
        return self.weight


class _LookUp(torch.autograd.Function):
    """
    The sum of the rows of some tables, heads first, filled head by head: beside the result and the indices there is
    never more than one head's share.

    Tables `[rows, heads]`, then as many indices `[batch or 1, length, length]`, those with the batch first
    -> `[batch or 1, heads, length, length]`.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
        tables, indices = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
        ctx.save_for_backward(*indices)
        ctx.rows = [table.shape[0] for table in tables]
        heads = tables[0].shape[1]

        def share(head: int) -> torch.Tensor:
            rows, *others = (table[:, head][index] for table, index in zip(tables, indices, strict=True))
            for other in others:
                rows += other
            return rows

        if is_traced():
            return torch.stack([share(head) for head in range(heads)], 1)
        batch, *pair = indices[0].shape
        bias = tables[0].new_empty(batch, heads, *pair)
        for head in range(heads):
            bias[:, head] = share(head)
        return bias

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        wide = torch.promote_types(gradient.dtype, torch.float32)
        sums: list[torch.Tensor | None] = []
        for place, (rows, index) in enumerate(zip(ctx.rows, ctx.saved_tensors, strict=True)):
            if not ctx.needs_input_grad[place]:
                sums.append(None)
                continue
            columns = []
            for head in range(gradient.shape[1]):
                share = gradient[:, head].to(wide)
                share = share.sum(0, keepdim=True) if index.shape[0] == 1 else share
                column = torch.zeros(rows, dtype=wide, device=gradient.device)
                columns.append(column.index_add_(0, index.flatten(), share.flatten()))
            sums.append(torch.stack(columns, 1).to(gradient.dtype))
        return *sums, *(None for _ in ctx.rows)


def init_relative_bias(module: nn.Module, normal: bool) -> None:
    """Start a table at zero, so that the model equals its parent; or at N(0, 1), as the authors do."""
    if isinstance(module, BiasTable):
        if normal:
            init.normal_(module.weight)
        else:
            init.zeros_(module.weight)


def log_buckets(difference: torch.Tensor, num_buckets: int, reach: int) -> torch.Tensor:
    """
    T5's buckets of integer differences: half of them for each sign, half of those exact, the others growing
    logarithmically up to `reach`.
    """
    half = num_buckets // 2
    exact = half // 2
    distance = difference.abs()
    growth = (distance.clamp(min=1).float() / exact).log() / math.log(reach / exact) * (half - exact)
    far = (exact + growth.long()).clamp(max=half - 1)
    return (difference > 0).long() * half + torch.where(distance < exact, distance, far)
