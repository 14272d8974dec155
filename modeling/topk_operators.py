"""
Ways to reduce n representations to k behind one signature (Pyramidion, Appendices A and B): successive halving, and
what the paper compares it with.

    embeddings [batch, length, size], scores [batch, length], k, mask [batch, length] or None, preserve_order
    -> embeddings [batch, k, size], scores [batch, k], padding last

How many of the k are real follows from the number of real entries: see `Operator.lengths`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from .successive_halving import check_operands, padded_length, successive_halving_topk

TopK = Callable[..., tuple[torch.Tensor, torch.Tensor]]

# Scores [k, length] that the iterative operator holds at once.
CHUNK = 1 << 22


def real_entries(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """How many entries of each document are no padding: int64 `[batch, 1]`."""
    if mask is None:
        return torch.full((scores.shape[0], 1), scores.shape[1], device=scores.device)
    return mask.bool().sum(1, keepdim=True)


def hard_topk(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    preserve_order: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k entries of the largest scores as they are; no gradient reaches the scores through the embeddings."""
    check_operands(embeddings, scores, k, mask, "hard_topk")
    return gather_entries(embeddings, scores, largest_places(scores, k, mask, preserve_order))


def largest_places(scores: torch.Tensor, k: int, mask: torch.Tensor | None, preserve_order: bool) -> torch.Tensor:
    """Where the k largest scores are, int64 `[batch, k]`: in the entries' order or in the scores', padding last."""
    ranks = scores if mask is None else scores.masked_fill(~mask.bool(), -math.inf)
    places = ranks.topk(k, dim=1).indices
    if not preserve_order:
        return places
    # Padding behind everything real.
    keys = places if mask is None else places + scores.shape[1] * ~mask.bool().gather(1, places)
    return keys.sort(1).values % scores.shape[1]


def gather_entries(
    embeddings: torch.Tensor, scores: torch.Tensor, chosen: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The entries at int64 `[batch, k]`."""
    return embeddings.gather(1, chosen.unsqueeze(-1).expand(-1, -1, embeddings.shape[-1])), scores.gather(1, chosen)


def iterative_topk(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    preserve_order: bool = True,
    sharpness: float = 100.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Goyal et al. (2018): the i-th of the k is a softmax of -sharpness * (v - m_i)^2 over all entries, where m_i is the
    i-th largest score. k softmaxes over the whole input.
    """
    check_operands(embeddings, scores, k, mask, "iterative_topk")
    values = scores.to(torch.promote_types(scores.dtype, torch.float32))
    chosen = largest_places(values, k, mask, preserve_order)
    largest = values.gather(1, chosen)
    few = real_entries(scores, mask) <= k
    vectors, survivors = [], []
    for part in largest.split(max(1, CHUNK // values.numel()), 1):
        distance = -sharpness * (values.unsqueeze(1) - part.unsqueeze(2)) ** 2
        if mask is not None:
            distance = distance.masked_fill(~mask.bool().unsqueeze(1), torch.finfo(distance.dtype).min)
        weights = distance.softmax(-1)
        vectors.append(weights.to(embeddings.dtype) @ embeddings)
        survivors.append((weights @ values.unsqueeze(-1)).squeeze(-1))
    # Where nothing has to go, nothing is mixed.
    kept, kept_scores = gather_entries(embeddings, values, chosen)
    mixed = torch.where(few.unsqueeze(-1), kept, torch.cat(vectors, 1))
    return mixed, torch.where(few, kept_scores, torch.cat(survivors, 1)).to(scores.dtype)


def lapsum_topk(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    preserve_order: bool = True,
    width: float = 0.05,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    LapSum (Struski et al., 2025): entry i is chosen with p_i = F((v_i - b) / width), F the distribution function of
    Laplace's distribution and b such that the p_i sum to k. The k largest are returned, each times its p_i, through
    which the gradient reaches all scores.
    """
    check_operands(embeddings, scores, k, mask, "lapsum_topk")
    chances = lapsum_probabilities(scores, k, mask, width)
    places = largest_places(scores, k, mask, preserve_order)
    chosen, kept = gather_entries(embeddings, scores, places)
    return chosen * chances.gather(1, places).unsqueeze(-1).to(chosen.dtype), kept


def lapsum_probabilities(
    scores: torch.Tensor, k: int, mask: torch.Tensor | None = None, width: float = 0.05
) -> torch.Tensor:
    """How much each entry belongs to the k largest: 0..1 `[batch, length]`, sums k (or what is there, if less)."""
    values = scores.to(torch.promote_types(scores.dtype, torch.float32))
    real = torch.ones_like(values) if mask is None else mask.to(values.dtype)
    wanted = real.sum(1, keepdim=True).clamp(max=k)

    def chances(threshold: torch.Tensor) -> torch.Tensor:
        distance = (values - threshold) / width
        tail = 0.5 * (-distance.abs()).exp()
        return torch.where(distance > 0, 1 - tail, tail) * real

    with torch.no_grad():
        largest = torch.finfo(values.dtype).max
        low = values.masked_fill(real == 0, largest).amin(1, keepdim=True) - 40 * width
        high = values.masked_fill(real == 0, -largest).amax(1, keepdim=True) + 40 * width
        for _ in range(60):
            middle = (low + high) / 2
            too_many = chances(middle).sum(1, keepdim=True) > wanted
            low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
        threshold = (low + high) / 2
        density = (0.5 * (-((values - threshold) / width).abs()).exp() / width * real).sum(1, keepdim=True)
    # One step of Newton's changes the threshold by rounding alone, and gives it its derivative.
    threshold = threshold + (chances(threshold).sum(1, keepdim=True) - wanted) / density.clamp(min=1e-30)
    some = real.sum(1, keepdim=True) > k
    return torch.where(some, chances(threshold), real).to(scores.dtype)


def index_topk(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    preserve_order: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every n/k-th entry, evenly over the document's own n; the scores are not read."""
    check_operands(embeddings, scores, k, mask, "index_topk")
    chosen = hard_topk(embeddings, even_scores(scores, k, mask), k, mask, preserve_order=True)[0]
    return chosen, scores.new_zeros(scores.shape[0], k)


def even_scores(scores: torch.Tensor, k: int, mask: torch.Tensor | None = None) -> torch.Tensor:
    """1 for k entries spread evenly over each document (for all, where there are no more), 0 for the others."""
    length = real_entries(scores, mask)
    place = torch.arange(scores.shape[1], device=scores.device)
    return ((place * k % length.clamp(min=1) < k) & (place < length)).to(scores.dtype)


def random_topk(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    preserve_order: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """So many entries at random, drawn anew in every call; the scores are not read."""
    return hard_topk(embeddings, torch.rand_like(scores), k, mask, preserve_order)


def window_pooling(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    preserve_order: bool = True,
    largest: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The mean of each window of neighbours, or with `largest` the maximum, without overlap; the scores are not read. The
    windows of a document of n entries are as long as its tournament would have leaves: 2^m with n <= k * 2^m.
    """
    check_operands(embeddings, scores, k, mask, "window_pooling")
    length = real_entries(scores, mask)
    own, widest = window_sizes(length, k), padded_length(scores.shape[1], k) // k
    slot = torch.arange(k, device=scores.device).view(1, -1, 1)
    step = torch.arange(widest, device=scores.device).view(1, 1, -1)
    place = slot * own.unsqueeze(-1) + step
    inside = (step < own.unsqueeze(-1)) & (place < length.unsqueeze(-1))
    index = place.clamp(max=scores.shape[1] - 1).flatten(1)
    entries = embeddings.gather(1, index.unsqueeze(-1).expand(-1, -1, embeddings.shape[-1])).unflatten(1, (k, widest))
    inside = inside.unsqueeze(-1)
    if largest:
        lowest = torch.finfo(entries.dtype).min
        pooled = entries.masked_fill(~inside, lowest).amax(2).masked_fill(~inside.any(2), 0.0)
    else:
        pooled = entries.masked_fill(~inside, 0.0).sum(2) / inside.sum(2).clamp(min=1).to(entries.dtype)
    return pooled, scores.new_zeros(scores.shape[0], k)


def selected_lengths(length: torch.Tensor, k: int) -> torch.Tensor:
    """Of documents with `length` entries, how many an operator that selects leaves."""
    return length.clamp(max=k)


def window_sizes(length: torch.Tensor, k: int) -> torch.Tensor:
    """How many entries a window has in documents of `length` entries: the smallest 2^m with length <= k * 2^m."""
    sizes = torch.ones_like(length)
    for _ in range(32):
        sizes = torch.where(length > sizes * k, sizes * 2, sizes)
    return sizes


def window_lengths(length: torch.Tensor, k: int) -> torch.Tensor:
    """Of documents with `length` entries, how many windows `window_pooling` makes."""
    sizes = window_sizes(length, k)
    return (length + sizes - 1) // sizes


class Operator(NamedTuple):
    """
    An operator by its name.

    Attributes:
        function: see the top of this file.
        lengths: (real entries, k) -> how many of the k are real.
        reads_scores: whether the scores matter.
        soft: whether, where they matter, a gradient reaches them through the embeddings.
    """

    function: TopK
    lengths: Callable[[torch.Tensor, int], torch.Tensor] = selected_lengths
    reads_scores: bool = True
    soft: bool = True


OPERATORS: dict[str, Operator] = {
    "successive_halving": Operator(successive_halving_topk),
    "hard": Operator(hard_topk, soft=False),
    "iterative": Operator(iterative_topk),
    "lapsum": Operator(lapsum_topk),
    "index": Operator(index_topk, reads_scores=False),
    "random": Operator(random_topk, reads_scores=False),
    "mean": Operator(window_pooling, window_lengths, reads_scores=False),
    "max": Operator(partial(window_pooling, largest=True), window_lengths, reads_scores=False),
}


def chamfer_cosine(chosen: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """
    nCCS, how well `chosen` `[batch, k, size]` covers `true` `[batch, k, size]` (Appendix B.5): the mean over the true
    ones of the largest cosine with any chosen one.
    """
    similarity = nn.functional.normalize(true, dim=-1) @ nn.functional.normalize(chosen, dim=-1).transpose(1, 2)
    return similarity.amax(-1).mean()


__all__ = [
    "OPERATORS",
    "Operator",
    "chamfer_cosine",
    "hard_topk",
    "index_topk",
    "iterative_topk",
    "lapsum_probabilities",
    "lapsum_topk",
    "random_topk",
    "window_lengths",
    "window_pooling",
]
