"""LAMBERT's relative attention bias: a number per head for how far apart two tokens are, in text and on the page."""

import math
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import initialization as init


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
        parts = []
        left, middle = self.coordinates(bbox)
        if self.sequential is not None:
            places = torch.arange(bbox.shape[1], device=bbox.device)[None]
            parts.append(self.sequential(self.sequential_index(places)))
        if self.horizontal is not None:
            parts.append(self.horizontal(self.page_index(left)))
        if self.vertical is not None:
            parts.append(self.vertical(self.page_index(middle)))
        # The largest first, so that the sum is made in place of it.
        return None if not parts else sum(parts[1:], start=parts[0]) if len(parts) > 1 else parts[0]

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

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """`[batch, length, length]` -> `[batch, heads, length, length]`."""
        return _LookUp.apply(self.weight, index)


class _LookUp(torch.autograd.Function):
    """The rows of a table, heads first, without a gradient of the size of the result held twice."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.rows = weight.shape[0]
        return torch.stack([weight[:, head][index] for head in range(weight.shape[1])], 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        (index,) = ctx.saved_tensors
        flat = index.flatten()
        wide = torch.promote_types(gradient.dtype, torch.float32)
        columns = [
            torch.zeros(ctx.rows, dtype=wide, device=gradient.device).index_add_(
                0, flat, gradient[:, head].flatten().to(wide)
            )
            for head in range(gradient.shape[1])
        ]
        return torch.stack(columns, 1).to(gradient.dtype), None


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
