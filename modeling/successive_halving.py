"""
Successive halving top-k: k of n representations by a soft tournament (Pyramidion, section 4 and Appendix B).

In each round the entries are sorted by score, the best meets the worst, the second best the second worst, and each
pair becomes one entry: the sum of the two, weighted by a peaked softmax of their scores. So on until k are left.

Plain form: `plain_successive_halving`, the paper's algorithm line by line. Fast form: `successive_halving_topk`. It
plays the tournament on the scores alone, which gives for every survivor the tree of entries that it is made of, and
then sums all embeddings of a tree at once, instead of moving and mixing the embeddings in every round.
"""

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .tracing import is_traced

Peak = Literal["power", "exponential"]


def padded_length(length: int, k: int) -> int:
    """The smallest k * 2^m that `length` entries fit into: what a tournament down to k is played with."""
    size = k
    while size < length:
        size *= 2
    return size


def check_operands(
    embeddings: torch.Tensor, scores: torch.Tensor, k: int, mask: torch.Tensor | None, name: str
) -> None:
    """Refuse shapes and sizes that no top-k operator can work on; ValueError names them and the remedy."""
    if embeddings.dim() != 3 or scores.shape != embeddings.shape[:2]:
        raise ValueError(
            f"{name} got embeddings of the shape {list(embeddings.shape)} and scores {list(scores.shape)}; pass "
            "[batch, length, size] and [batch, length]."
        )
    if mask is not None and mask.shape != scores.shape:
        raise ValueError(f"The mask has the shape {list(mask.shape)} but the scores {list(scores.shape)}; pass one.")
    if not 1 <= k <= scores.shape[1]:
        raise ValueError(
            f"{name} cannot choose k={k} of {scores.shape[1]} entries; choose k from 1 to that, or leave shorter "
            "inputs unpooled."
        )


def plain_successive_halving(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    peak: Peak = "power",
    base: float = 20.0,
    sort: bool = True,
    preserve_order: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The plain form of `successive_halving_topk`, which see: every round on all embeddings, under autograd."""
    length, dtype = scores.shape[1], embeddings.dtype
    exact = torch.promote_types(torch.promote_types(scores.dtype, dtype), torch.float32)
    missing = padded_length(length, k) - length
    real = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.bool()
    real = nn.functional.pad(real, (0, missing))
    values = nn.functional.pad(scores.to(exact), (0, missing)).masked_fill(~real, 0.0)
    vectors = nn.functional.pad(embeddings.to(exact), (0, 0, 0, missing))
    vectors = vectors.masked_fill(~real.unsqueeze(-1), 0.0)
    places = torch.arange(length + missing, device=scores.device).expand_as(values)
    played = real.sum(1, keepdim=True) > k
    while values.shape[1] > k:
        # Padding sorts last; equal scores keep their order.
        ranks = (values if sort else torch.zeros_like(values)).masked_fill(~real, -math.inf)
        order = ranks.sort(dim=1, descending=True, stable=True).indices
        values, real, places = values.gather(1, order), real.gather(1, order), places.gather(1, order)
        vectors = vectors.gather(1, order.unsqueeze(-1).expand_as(vectors))
        half = values.shape[1] // 2

        pairs = torch.stack([values[:, :half], values[:, half:].flip(1)], -1)
        weights = (pairs.new_full((), base) ** pairs if peak == "power" else pairs).softmax(-1)
        both = real[:, half:].flip(1).unsqueeze(-1)
        weights = torch.where(both, weights, weights.new_tensor([1.0, 0.0]))
        first, second = weights.unbind(-1)
        values = (weights * pairs).sum(-1)
        vectors = first.unsqueeze(-1) * vectors[:, :half] + second.unsqueeze(-1) * vectors[:, half:].flip(1)
        places = torch.where(first >= second, places[:, :half], places[:, half:].flip(1))
        real = real[:, :half]
    if missing + length > k or mask is not None:
        # A document that fits keeps its order: without padding it would not have been played.
        own_order = torch.where(real, places, length + missing)
        if not preserve_order:
            own_order = torch.where(played, torch.arange(k, device=scores.device), own_order)
        order = own_order.sort(dim=1, stable=True).indices
        values, vectors = values.gather(1, order), vectors.gather(1, order.unsqueeze(-1).expand_as(vectors))
    return vectors.to(dtype), values.to(scores.dtype)


def successive_halving_topk(
    embeddings: torch.Tensor,
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None = None,
    peak: Peak = "power",
    base: float = 20.0,
    sort: bool = True,
    preserve_order: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Choose k of n entries softly, differentiable in embeddings and scores.

    A document of fewer entries than others in its batch is played with its own number, so that neither values nor
    choice depend on padding: its entries pass the first rounds without an opponent. Of a document with at most k
    entries all survive unchanged, followed by padding.

    Args:
        embeddings: `[batch, length, size]`.
        scores: `[batch, length]`; with the power form in 0..1, beyond which its softmax is all but hard (scores of 4.0
            and 3.9 leave no gradient), and not a number from 29 on, in float32. The weights are computed in float32 at
            least.
        k: how many are left, 1 to length.
        mask: `[batch, length]`, False or 0 for padding, which never wins nor weighs; None for none.
        peak: "power", weights e^(base^v) normalised (the authors' code); "exponential", e^v normalised (Appendix B).
        base: of the power form.
        sort: sort by score in every round; False, the paper's ablation, pairs entries as they stand.
        preserve_order: survivors in the original order of the stronger one of each pair; False in the tournament's,
            but for documents of at most k entries.

    Returns:
        Embeddings `[batch, k, size]` and scores `[batch, k]`, in the dtypes of the inputs. Padding comes last: the
        first min(k, number of real entries) are real.

    Raises:
        ValueError: shapes that do not fit, or k out of range.
    """
    check_operands(embeddings, scores, k, mask, "successive_halving_topk")
    if is_traced():
        return plain_successive_halving(embeddings, scores, k, mask, peak, base, sort, preserve_order)
    exact = torch.promote_types(torch.promote_types(scores.dtype, embeddings.dtype), torch.float32)
    wide, values = embeddings.to(exact), scores.to(exact)
    vectors, survivors = _Tournament.apply(wide, values, k, mask, peak, base, sort, preserve_order)
    return vectors.to(embeddings.dtype), survivors.to(scores.dtype)


class Round(NamedTuple):
    """
    Who met whom: from the best to the worst, the first the last, the second the last but one.

    Attributes:
        order: int64 `[batch, n]`, the entries.
        values: `[batch, n]`, their scores, 0 for padding.
        weights: `[batch, n]`, the two of a pair sum up to 1. Padding weighs nothing.
    """

    order: torch.Tensor
    values: torch.Tensor
    weights: torch.Tensor


def play(
    scores: torch.Tensor, k: int, padded: bool, peak: Peak, base: float, sort: bool
) -> tuple[list[Round], torch.Tensor]:
    """The rounds on `scores` `[batch, k * 2^m]`, -inf for padding if `padded`; the scores of the survivors."""
    rounds = []
    while scores.shape[1] > k:
        order = descending(scores) if sort else _as_they_stand(scores, padded)
        values, half = scores.gather(1, order), scores.shape[1] // 2
        strengths = _strength(values, peak, base)
        weights = torch.sigmoid(strengths - strengths.flip(1))
        missing = values == -math.inf if padded else None
        if missing is not None:
            values = values.masked_fill(missing, 0.0)
            weights = weights.masked_fill(missing.flip(1), 1.0).masked_fill(missing, 0.0)
        shares = weights * values
        scores = shares[:, :half] + shares[:, half:].flip(1)
        if missing is not None:
            scores = scores.masked_fill(missing[:, :half], -math.inf)
        rounds.append(Round(order, values, weights))
    return rounds, scores


def _in_order(
    rounds: list[Round], survivors: torch.Tensor, given: torch.Tensor, padded: bool, preserve_order: bool
) -> torch.Tensor:
    """int64 `[batch, k]`: the survivors of `play` in the order that they are returned in, padding last."""
    batch, k = survivors.shape
    places = torch.arange(k, device=survivors.device).expand(batch, k)
    if not preserve_order and not padded:
        return places
    strongest = places
    for each in reversed(rounds):
        strongest = each.order.gather(1, strongest)
    if padded:
        strongest = strongest.masked_fill(survivors == -math.inf, given.shape[1])
    if not preserve_order:
        # A document that fits keeps its order: without padding it would not have been played.
        fits = (given > -math.inf).sum(1, keepdim=True) <= k
        strongest = torch.where(fits, strongest, places)
    return _ascending(strongest)


def descending(values: torch.Tensor) -> torch.Tensor:
    """Places `[batch, length]` of the values from the largest to the smallest, equal ones in their order."""
    if values.dtype != torch.float32 or values.device.type != "cpu":
        return values.sort(dim=1, descending=True, stable=True).indices
    # One sort of whole numbers, the value's order above, its place below: numpy's is vectorised. 0 - 0 and 0 - -0 are
    # the same 0.
    bits = (0.0 - values.numpy()).view("int32")
    return _sorted_places(bits ^ ((bits >> 31) & 0x7FFFFFFF))


def _ascending(places: torch.Tensor) -> torch.Tensor:
    if places.device.type != "cpu":
        return places.sort(dim=1, stable=True).indices
    return _sorted_places(places.numpy())


def _sorted_places(keys: Any) -> torch.Tensor:
    """The places of numpy's whole numbers `[batch, length]`, of at most 32 bits, in their order."""
    packed = keys.astype("int64")
    packed <<= 32
    packed |= torch.arange(keys.shape[1]).numpy()
    packed.sort(-1)
    packed &= 0xFFFFFFFF
    return torch.from_numpy(packed)


def _as_they_stand(scores: torch.Tensor, padded: bool) -> torch.Tensor:
    """The order without sorting: padding last, and of each pair the stronger one first."""
    if padded:
        order = (scores == -math.inf).to(torch.uint8).sort(dim=1, stable=True).indices
        ranked = scores.gather(1, order)
    else:
        order, ranked = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape), scores
    half = scores.shape[1] // 2
    lost = ranked[:, half:].flip(1) > ranked[:, :half]
    return torch.where(torch.cat([lost, lost.flip(1)], 1), order.flip(1), order)


def _strength(values: torch.Tensor, peak: Peak, base: float) -> torch.Tensor:
    """What the softmax of a pair is taken of."""
    return (values * math.log(base)).exp() if peak == "power" else values


# Numbers up to which a copy of the embeddings is as good as none: it stays in the processor's cache.
IN_CACHE = 1 << 20


class _Tournament(torch.autograd.Function):
    """
    The tournament, played on the scores, and the sums over the trees of its survivors.

    A tree's root is a survivor, its leaves are entries, and the children of a node are the two that met, the stronger
    one first. A leaf weighs the product of the weights on the way to it. A level of k trees is one row: all first
    children, then all second ones.
    """

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: torch.Tensor,
        scores: torch.Tensor,
        k: int,
        mask: torch.Tensor | None,
        peak: Peak,
        base: float,
        sort: bool,
        preserve_order: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length, size = embeddings.shape
        missing = padded_length(length, k) - length
        padded = missing > 0 or mask is not None
        if mask is not None:
            scores = scores.masked_fill(~mask.bool(), -math.inf)
        if missing:
            scores = nn.functional.pad(scores, (0, missing), value=-math.inf)
        rounds, survivors = play(scores, k, padded, peak, base, sort)
        nodes = _in_order(rounds, survivors, scores, padded, preserve_order)
        survivors = survivors.gather(1, nodes)
        weights, levels = torch.ones_like(survivors), []
        for order, values, shares in reversed(rounds):
            pairs = torch.cat([nodes, order.shape[1] - 1 - nodes], 1)
            shares = shares.gather(1, pairs)
            levels.append((pairs, values, shares, weights))
            weights = (weights.unsqueeze(1) * shares.unflatten(1, (2, -1))).flatten(1)
            nodes = order.gather(1, pairs)
        real = empty = None
        if padded:
            real, empty = scores.gather(1, nodes) > -math.inf, survivors == -math.inf
            survivors = survivors.masked_fill(empty, 0.0)
            weights = weights.masked_fill(~real, 0.0)
            # Padding is never read: in its place stands the strongest leaf, with weight 0.
            strongest = nodes[:, :k].where(real[:, :k], 0).repeat(1, nodes.shape[1] // k)
            nodes = torch.where(real, nodes, strongest)
        if batch > 1:
            nodes = nodes + torch.arange(batch, device=nodes.device).unsqueeze(1) * length
        bags = nn.functional.embedding_bag(
            _trees(nodes, k), embeddings.reshape(-1, size), mode="sum", per_sample_weights=_trees(weights, k)
        )
        if empty is not None:
            # Where there is no entry at all, padding has been read.
            bags = bags.masked_fill(empty.flatten().unsqueeze(-1), 0.0)
        ctx.save_for_backward(embeddings, nodes, real, weights, *(each for level in levels for each in level))
        ctx.peak, ctx.base = peak, base
        return bags.view(batch, k, size), survivors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, score_gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        embeddings, leaves, real, weights, *saved = ctx.saved_tensors
        levels = [saved[start : start + 4] for start in range(0, len(saved), 4)]
        to_embeddings, products = _leaf_gradients(gradient, embeddings, leaves, weights, real)
        # What each entry of a round is worth: its product with the gradient of the survivor that it goes into.
        worth = [products]
        for _, _, shares, _ in reversed(levels):
            one, other = (shares * worth[-1]).chunk(2, 1)
            worth.append(one + other)
        worth.pop()
        to_values, slope = score_gradient, math.log(ctx.base) if ctx.peak == "power" else 1.0
        for pairs, values, shares, weight in levels:
            values = values.gather(1, pairs)
            (one, other), (better, worse), (won, lost) = (x.chunk(2, 1) for x in (worth.pop(), values, shares))
            up = (weight * (one - other) + to_values * (better - worse)) * won * lost * slope
            to_strengths = torch.cat([up, -up], 1)
            if ctx.peak == "power":
                to_strengths = to_strengths * _strength(values, ctx.peak, ctx.base)
            to_values = torch.addcmul(to_strengths, to_values.repeat(1, 2), shares)
        to_scores = _to_entries(to_values, leaves, real, embeddings.shape[:2].numel())
        return to_embeddings, to_scores.view(embeddings.shape[:2]), *[None] * 6


def _trees(leaves: torch.Tensor, k: int) -> torch.Tensor:
    """The leaves `[batch, trees' leaves * k]` by tree, `[batch * k, leaves of a tree]`."""
    return leaves.unflatten(1, (-1, k)).transpose(1, 2).flatten(0, 1)


def _leaf_gradients(
    gradient: torch.Tensor,
    embeddings: torch.Tensor,
    leaves: torch.Tensor,
    weights: torch.Tensor,
    real: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings' gradient, and each leaf's product with its survivor's gradient, like `leaves`."""
    (batch, k, size), entries = gradient.shape, embeddings.shape[:2].numel()
    survivors = torch.arange(batch * k, device=leaves.device).view(batch, k).repeat(1, leaves.shape[1] // k)
    survivor, weight = (_to_entries(each, leaves, real, entries) for each in (survivors, weights))
    if embeddings.numel() <= IN_CACHE:
        theirs = gradient.reshape(-1, size).index_select(0, survivor).view_as(embeddings)
        products = torch.linalg.vecdot(embeddings, theirs).flatten()
        total = theirs * weight.view(*embeddings.shape[:2], 1)
        return total, products.index_select(0, leaves.flatten()).view_as(leaves)
    weight.requires_grad_()
    # Entry i gets weight[i] times the gradient of its survivor, a bag of one, in one pass over memory; and the
    # derivative of that by weight[i], in the direction of the embeddings, is the product of the two, in another.
    with torch.enable_grad():
        total = nn.functional.embedding_bag(
            survivor.unsqueeze(-1), gradient.reshape(-1, size), mode="sum", per_sample_weights=weight.unsqueeze(-1)
        )
    (products,) = torch.autograd.grad(total, weight, embeddings.reshape(-1, size))
    return total.detach().view_as(embeddings), products.index_select(0, leaves.flatten()).view_as(leaves)


def _to_entries(values: torch.Tensor, leaves: torch.Tensor, real: torch.Tensor | None, entries: int) -> torch.Tensor:
    """From the leaves to the entries `[entries]`; 0 for padding. An entry is a leaf once."""
    if real is None:
        return values.new_empty(entries).index_copy_(0, leaves.flatten(), values.flatten())
    # One place more, for what stands in padding's place.
    index = torch.where(real, leaves, entries).flatten()
    return values.new_zeros(entries + 1).index_copy_(0, index, values.flatten())[:-1]


__all__ = ["padded_length", "plain_successive_halving", "successive_halving_topk"]
