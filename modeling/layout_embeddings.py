"""Embeddings of bounding boxes (Skim-Attention, Eq. 2; LayoutLM's tables)."""

import torch
from torch import nn

from .seeded_dropout import Dropout
from .tracing import is_traced


def check_bbox(bbox: torch.Tensor | None, input_shape: torch.Size, num_positions: int, processor: str) -> None:
    """
    Refuse boxes that the embedding tables cannot look up, before a table would crash on them.

    Args:
        bbox: int `[batch, length, 4]` as (x0, y0, x1, y1).
        input_shape: (batch, length) of the tokens.
        num_positions: the number of rows of the tables; coordinates are 0..num_positions-1.
        processor: the processor that makes such boxes, for the message.

    Raises:
        ValueError: naming the first box at fault, and the remedy.
    """
    remedy = f"let {processor}(text=words, boxes=boxes, page_sizes=page_sizes) make it"
    if bbox is None:
        raise ValueError(f"bbox is missing: pass bbox [batch, length, 4] as (x0, y0, x1, y1), or {remedy}.")
    if bbox.shape != (*input_shape, 4):
        raise ValueError(
            f"bbox has the shape {list(bbox.shape)} but the tokens need {[*input_shape, 4]}; pad it like input_ids, "
            f"or {remedy}."
        )
    if bbox.is_floating_point():
        raise ValueError(f"bbox has the dtype {bbox.dtype}; this model needs integer boxes: {remedy}.")
    if is_traced():
        return
    faulty = (bbox < 0).any(-1) | (bbox >= num_positions).any(-1) | (bbox[..., 2:] < bbox[..., :2]).any(-1)
    if faulty.any():
        row, token = (int(index) for index in faulty.nonzero()[0])
        raise ValueError(
            f"The box {bbox[row, token].tolist()} of token {token} in row {row} is outside 0..{num_positions - 1} or "
            f"has swapped corners; pass boxes in page units and page_sizes to {processor}, which scales them."
        )


class LayoutEmbeddings(nn.Module):
    """
    The layout embedding of Eq. 2: x(x0) + y(y0) + x(x1) + y(y1) + w(x1 - x0) + h(y1 - y0), then LayerNorm and dropout.

    Args:
        num_positions: rows of each table; coordinates are 0..num_positions-1.
        hidden_size: size of the embedding.
        centers_only: embed the box's centre alone, x((x0 + x1) // 2) + y((y0 + y1) // 2), the degraded layout of the
            paper's Table 3; there are no size tables then.
    """

    def __init__(self, num_positions: int, hidden_size: int, eps: float, dropout: float, centers_only: bool = False):
        super().__init__()
        self.x_position_embeddings = nn.Embedding(num_positions, hidden_size)
        self.y_position_embeddings = nn.Embedding(num_positions, hidden_size)
        if not centers_only:
            self.w_position_embeddings = nn.Embedding(num_positions, hidden_size)
            self.h_position_embeddings = nn.Embedding(num_positions, hidden_size)
        self.centers_only = centers_only
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, bbox: torch.Tensor) -> torch.Tensor:
        """`bbox` int `[batch, length, 4]` -> `[batch, length, hidden]`."""
        x0, y0, x1, y1 = bbox.unbind(-1)
        x, y = self.x_position_embeddings, self.y_position_embeddings
        if self.centers_only:
            embedding = x((x0 + x1) // 2) + y((y0 + y1) // 2)
        else:
            width = self.w_position_embeddings(x1 - x0)
            height = self.h_position_embeddings(y1 - y0)
            embedding = x(x0) + y(y0) + x(x1) + y(y1) + width + height
        return self.dropout(self.LayerNorm(embedding))


class PositionEmbeddings(nn.Module):
    """1-D positions 0..length-1 with LayerNorm and dropout: what replaces the layout in the paper's Table 3."""

    def __init__(self, num_positions: int, hidden_size: int, eps: float, dropout: float):
        super().__init__()
        self.position_embeddings = nn.Embedding(num_positions, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, input_shape: torch.Size, device: torch.device | None = None) -> torch.Tensor:
        """(batch, length) -> `[batch, length, hidden]`, on the device of the tokens."""
        batch, length = input_shape
        count = self.position_embeddings.num_embeddings
        if length > count:
            raise ValueError(
                f"The input has {length} tokens but the model has {count} positions; cut it into windows with "
                f"processor(..., truncation=True, max_length={count}, return_overflowing_tokens=True)."
            )
        embedding = self.position_embeddings(torch.arange(length, device=device))
        return self.dropout(self.LayerNorm(embedding).expand(batch, -1, -1))
