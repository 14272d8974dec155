"""What exact attention by blocks is made of: the blocks, dropout from a seed, the gradient through softmax."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch

from .matrix_products import multiply
from .seeded_dropout import drop

# Elements of a block of probabilities: what a CPU's cache holds well, what fills a GPU.
CPU_BLOCK, GPU_BLOCK = 1 << 19, 1 << 28
ENOUGH_ROWS = 512  # for fast products


LeftPair = tuple[torch.Tensor, torch.Tensor]  # a layer's output gradient and its values


@dataclass
class _Entry:
    """What `layers` layers of one backward pass left: pairs, or the gradients of query and key made of them."""

    backward_pass: int
    layers: int
    pair: LeftPair | None
    settled: LeftPair | None = None


class LayerGradients:
    """
    What the layers' backward passes leave for the probabilities that they read.

    No list, because wrappers of layers (FSDP's casts, accelerate's hooks) pass on copies of the lists they find.

    Args:
        settle_every: how many layers settle together, if they do.
    """

    def __init__(self, settle_every: int = 2) -> None:
        self._settle_every = settle_every
        self._left: list[_Entry] = []

    def leave(
        self,
        output_gradient: torch.Tensor,
        value: torch.Tensor,
        settle: Callable[[list[LeftPair], LeftPair | None], LeftPair] | None = None,
    ) -> None:
        """
        A layer's `[batch, heads, length, head_size]` each. With `settle`, which adds what pairs give to the gradients
        of query and key, or makes these, every few layers' pairs give way to them.
        """
        # Layers that run backward inside of their own passes (reentrant checkpointing) are never settled together.
        current = torch._C._current_graph_task_id()
        self._left.append(_Entry(current, 1, (output_gradient, value)))
        group = self._left[-self._settle_every :]
        pairs = [entry.pair for entry in group if entry.pair is not None and entry.backward_pass == current]
        if settle is None or len(pairs) < self._settle_every:
            return
        del self._left[-self._settle_every :]
        before = self._left[-1] if self._left else None
        if before is not None and before.settled is not None and before.backward_pass == current:
            settle(pairs, before.settled)
            before.layers += len(pairs)
        else:
            self._left.append(_Entry(current, len(pairs), None, settle(pairs, None)))

    def take(self, link: torch.Tensor | None) -> tuple[list[LeftPair], list[LeftPair]]:
        """
        What the layers of this backward pass left, as many as `link` counts, None for none: pairs, and gradients of
        query and key. An earlier pass, for other inputs than the probabilities', may have left something too, which is
        dropped.
        """
        count = 0 if link is None else int(link)
        missing, latest = count, []
        while missing > 0 and self._left:
            latest.append(self._left.pop())
            missing -= latest[-1].layers
        self._left.clear()
        if missing:
            raise RuntimeError(f"{count} layers read the attention but {count - missing} left their gradients.")
        latest.reverse()
        pairs = [entry.pair for entry in latest if entry.pair is not None]
        return pairs, [entry.settled for entry in latest if entry.settled is not None]


class RowBlock(NamedTuple):
    """Documents, heads and rows of `[batch, heads, length, length]`, with all their keys."""

    documents: slice
    heads: slice
    rows: slice
    number: int

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The block's rows of `[batch, heads, length, ...]`."""
        return tensor[self.documents, self.heads, self.rows]

    def keys(self, tensor: torch.Tensor) -> torch.Tensor:
        """All rows of the block's documents and heads."""
        return tensor[self.documents, self.heads]


def row_blocks(query: torch.Tensor) -> Iterator[RowBlock]:
    """
    The blocks of the probabilities: several documents, one, some of its heads, or some rows of one, with all their
    keys. Heads are parted first: products of many rows of one head are faster than of few rows of each.
    """
    batch, heads, length, _ = query.shape
    budget = CPU_BLOCK if query.device.type == "cpu" else GPU_BLOCK
    documents = max(1, budget // (heads * length * length))
    most_heads = min(heads, max(1, budget // (documents * min(length, ENOUGH_ROWS) * length)))
    together = -(-heads // -(-heads // most_heads))  # parts of nearly equal size
    rows = max(1, min(length, budget // (documents * together * length)))
    starts = product(range(0, batch, documents), range(0, heads, together), range(0, length, rows))
    for number, (document, head, row) in enumerate(starts):
        # A slice may end beyond the last.
        yield RowBlock(
            slice(document, document + documents), slice(head, head + together), slice(row, row + rows), number
        )


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """
    Softmax over the last dimension, in float32 at least, where the bool mask (broadcastable, None for all) is True. A
    row without any is uniform.
    """
    dtype = scores.dtype
    scores = scores.to(torch.promote_types(dtype, torch.float32))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1).to(dtype)


def drop_probabilities(probabilities: torch.Tensor, rate: float, seed: int, number: int) -> torch.Tensor:
    """The probabilities of block `number` after dropout; the same seed and number drop the same."""
    return drop(probabilities, rate, seed + number)


def zeros_to_sum(like: torch.Tensor) -> torch.Tensor:
    """Zeros of the shape of `like`, in float32 at least: a sum over many blocks in half precision loses the small."""
    return torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))


def score_gradient(clean: torch.Tensor, dropped: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """
    The gradient of the scores from that of the dropped-out probabilities: through dropout and softmax at once,
    A' * dA' - A * sum(A' * dA').
    """
    product = gradient * dropped
    return product.addcmul_(clean, product.sum(-1, keepdim=True), value=-1)


def add_products(
    block: RowBlock,
    scores: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    scaling: float,
    query_gradient: torch.Tensor,
    key_gradient: torch.Tensor,
) -> None:
    """Add what a block's score gradient `[documents, heads, rows, length]` gives to those of query and key."""
    # The factor on the smaller side.
    block.of(query_gradient).add_(multiply(scores, block.keys(key) * scaling))
    block.keys(key_gradient).add_(multiply(scores.transpose(-1, -2), block.of(query) * scaling))
