"""What exact attention by blocks is made of: the blocks, dropout from a seed, the gradient through softmax."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from .seeded_dropout import drop

# Elements of a block of probabilities: what a CPU's cache holds well, what fills a GPU.
CPU_BLOCK, GPU_BLOCK = 1 << 21, 1 << 28


class LayerGradients:
    """
    What the layers' backward passes leave for the probabilities that they read.

    No list, because wrappers of layers (FSDP's casts, accelerate's hooks) pass on copies of the lists they find.
    """

    def __init__(self) -> None:
        self._left: list[tuple[torch.Tensor, torch.Tensor]] = []

    def leave(self, output_gradient: torch.Tensor, value: torch.Tensor) -> None:
        """A layer's `[batch, heads, length, head_size]` each."""
        self._left.append((output_gradient, value))

    def take(self, link: torch.Tensor | None) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """
        What the layers of this backward pass left, as many as `link` counts, None for none. An earlier pass, for other
        inputs than the probabilities', may have left something too, which is dropped.
        """
        count = 0 if link is None else int(link)
        if count > len(self._left):
            raise RuntimeError(f"{count} layers read the attention but {len(self._left)} left their gradients.")
        latest = self._left[len(self._left) - count :]
        self._left.clear()
        return latest


class RowBlock(NamedTuple):
    """Documents and rows of `[batch, heads, length, length]`, with all their keys."""

    documents: slice
    rows: slice
    number: int


def row_blocks(query: torch.Tensor) -> Iterator[RowBlock]:
    """The blocks of the probabilities: several documents, one, or some rows of one, with all their keys."""
    batch, heads, length, _ = query.shape
    budget = CPU_BLOCK if query.device.type == "cpu" else GPU_BLOCK
    documents = max(1, budget // (heads * length * length))
    rows = max(1, min(length, budget // (documents * heads * length)))
    starts = [(document, row) for document in range(0, batch, documents) for row in range(0, length, rows)]
    for number, (document, row) in enumerate(starts):
        yield RowBlock(slice(document, min(document + documents, batch)), slice(row, min(row + rows, length)), number)


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
