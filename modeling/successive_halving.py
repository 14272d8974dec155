"""
Successive halving top-k: k of n representations by a soft tournament (Pyramidion, section 4 and Appendix B).

In each round the entries are sorted by score, the best meets the worst, the second best the second worst, and each
pair becomes one entry: the sum of the two, weighted by a peaked softmax of their scores. So on until k are left.

Plain form: `plain_successive_halving`, the paper's algorithm line by line. Fast form: `successive_halving_topk`. It
plays the tournament on the scores alone, which gives for every survivor the tree of entries that it is made of, and
then sums all embeddings of a tree at once, instead of moving and mixing the embeddings in every round.
"""

import math
from typing import Any, Literal

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
    exact = torch.promote_types(scores.dtype, torch.float32)
    missing = padded_length(length, k) - length
    real = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.bool()
    real = nn.functional.pad(real, (0, missing))
    values = nn.functional.pad(scores.to(exact), (0, missing)).masked_fill(~real, 0.0)
    vectors = nn.functional.pad(embeddings.to(torch.promote_types(dtype, torch.float32)), (0, 0, 0, missing))
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
    if missing + length > k:
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
            and 3.9 leave no gradient). The weights are computed in float32 at least.
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
    values = scores.to(torch.promote_types(scores.dtype, torch.float32))
    wide = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
    leaves = tournament(values.detach(), k, mask, peak, base, sort, preserve_order)
    real = None
    if mask is not None or leaves.shape[1] * leaves.shape[2] > scores.shape[1]:
        real = leaves < scores.shape[1]
        if mask is not None:
            places = leaves.clamp(max=scores.shape[1] - 1).flatten(1)
            real = real & mask.bool().gather(1, places).view_as(leaves)
    vectors, survivors = _Tournament.apply(wide, values, leaves, real, peak, base)
    return vectors.to(embeddings.dtype), survivors.to(scores.dtype)


@torch.no_grad()
def tournament(
    scores: torch.Tensor,
    k: int,
    mask: torch.Tensor | None,
    peak: Peak,
    base: float,
    sort: bool,
    preserve_order: bool,
) -> torch.Tensor:
    """
    Who meets whom.

    Args: as of `successive_halving_topk`, scores in float32 or float64.

    Returns:
        int64 `[batch, k, 2^rounds]`, the entries that each survivor is made of, as the leaves of its binary tree: two
        neighbours met in the first round, two neighbouring pairs in the second, and so on, the stronger one first.
        Padding has places of the padding, or from `length` on.
    """
    length = scores.shape[1]
    if mask is not None:
        scores = scores.masked_fill(~mask.bool(), -math.inf)
    missing = padded_length(length, k) - length
    if missing:
        scores = nn.functional.pad(scores, (0, missing), value=-math.inf)
    padded, given = missing > 0 or mask is not None, scores
    orders = []
    while scores.shape[1] > k:
        order = descending(scores) if sort else _as_they_stand(scores, padded)
        ranked, half = scores.gather(1, order), scores.shape[1] // 2
        one, other = ranked[:, :half], ranked[:, half:].flip(1)
        scores = torch.lerp(other, one, torch.sigmoid(_strength(one, peak, base) - _strength(other, peak, base)))
        if padded:
            scores = torch.where(other == -math.inf, one, scores)
        orders.append(order)
    leaves = torch.arange(k, device=scores.device).expand(scores.shape[0], k).unsqueeze(-1)
    for order in reversed(orders):
        pairs = torch.stack([leaves, order.shape[1] - 1 - leaves], -1).flatten(-2)
        leaves = order.gather(1, pairs.flatten(1)).view_as(pairs)
    if preserve_order or padded:
        first = leaves[..., 0]
        if padded:
            first = first.masked_fill(scores == -math.inf, length + missing)
        if not preserve_order:
            # A document that fits keeps its order: without padding it would not have been played.
            fits = (given > -math.inf).sum(1, keepdim=True) <= k
            first = torch.where(fits, first, torch.arange(k, device=scores.device))
        leaves = leaves.gather(1, _ascending(first).unsqueeze(-1).expand_as(leaves))
    return leaves


def descending(values: torch.Tensor) -> torch.Tensor:
    """Places `[batch, length]` of the values from the largest to the smallest, equal ones in their order."""
    if values.dtype != torch.float32 or values.device.type != "cpu":
        return values.sort(dim=1, descending=True, stable=True).indices
    # One sort of whole numbers, the value's order above, its place below: numpy's is vectorised. Adding 0 to -0 is 0.
    bits = (values + 0.0).view(torch.int32)
    return _sorted_places((bits ^ ((bits >> 31) & 0x7FFFFFFF)).bitwise_not())


def _ascending(places: torch.Tensor) -> torch.Tensor:
    if places.device.type != "cpu":
        return places.sort(dim=1, stable=True).indices
    return _sorted_places(places)


def _sorted_places(keys: torch.Tensor) -> torch.Tensor:
    packed = (keys.to(torch.int64) << 32) | torch.arange(keys.shape[1])
    packed.numpy().sort(-1)
    return packed & 0xFFFFFFFF


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


class _Tournament(torch.autograd.Function):
    """
    Scores at the leaves of the trees -> the weight of each leaf, and the survivors.

    A round is a level of the trees: neighbours a and b get the weights w = sigmoid(s(a) - s(b)) and 1 - w. A leaf
    weighs the product of its weights on the way to the root.
    """

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: torch.Tensor,
        scores: torch.Tensor,
        leaves: torch.Tensor,
        real: torch.Tensor | None,
        peak: Peak,
        base: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length, size = embeddings.shape
        rows = leaves + torch.arange(batch, device=leaves.device).view(-1, 1, 1) * length
        if real is not None:
            # Padding is never read: in its place stands the strongest leaf, with weight 0.
            rows = torch.where(real, rows, torch.where(real[..., :1], rows[..., :1], 0))
        values, present = scores.flatten().index_select(0, rows.flatten()).view_as(rows), real
        if real is not None:
            values = values.masked_fill(~real, 0.0)
        rounds: list[tuple[torch.Tensor, ...]] = []
        while values.shape[-1] > 1:
            pair = values.unflatten(-1, (-1, 2))
            one, other = pair[..., 0].contiguous(), pair[..., 1].contiguous()
            strengths = _strength(one, peak, base), _strength(other, peak, base)
            difference = strengths[0] - strengths[1]
            won, lost = torch.sigmoid(difference), torch.sigmoid(-difference)
            if present is not None:
                both = present.unflatten(-1, (-1, 2))[..., 1]
                won, lost = won.masked_fill(~both, 1.0), lost.masked_fill(~both, 0.0)
                present = present.unflatten(-1, (-1, 2))[..., 0]
            rounds.append((one, other, *strengths, won, lost))
            values = won * one + lost * other
        weights = _weights(rounds, values)
        own = weights[0] if real is None else weights[0].masked_fill(~real, 0.0)
        bags = nn.functional.embedding_bag(
            rows.flatten(0, 1),
            embeddings.reshape(batch * length, size),
            mode="sum",
            per_sample_weights=own.flatten(0, 1),
        )
        ctx.save_for_backward(embeddings, rows, real, *(each for level in rounds for each in level))
        ctx.peak, ctx.base = peak, base
        return bags.view(batch, -1, size), values.squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, score_gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        embeddings, rows, real, *saved = ctx.saved_tensors
        rounds = [tuple(saved[start : start + 6]) for start in range(0, len(saved), 6)]
        weights = _weights(rounds, score_gradient.unsqueeze(-1))
        to_embeddings, products = _leaf_gradients(gradient, embeddings, rows, weights[0], real)
        # What each entry of a round is worth: its product with the gradient of the survivor that it goes into.
        worth = [products]
        for *_, won, lost in rounds:
            below = worth[-1].unflatten(-1, (-1, 2))
            worth.append(won * below[..., 0] + lost * below[..., 1])
        to_values = score_gradient.unsqueeze(-1)
        slope = math.log(ctx.base)
        for level in reversed(range(len(rounds))):
            one, other, stronger, weaker, won, lost = rounds[level]
            below = worth[level].unflatten(-1, (-1, 2))
            to_weight = weights[level + 1] * (below[..., 0] - below[..., 1]) + to_values * (one - other)
            to_difference = to_weight * won * lost
            up, down = to_difference, to_difference
            if ctx.peak == "power":
                up, down = up * stronger * slope, down * weaker * slope
            to_pairs = to_values.new_empty((*to_values.shape, 2))
            torch.addcmul(up, to_values, won, out=to_pairs[..., 0])
            torch.addcmul(-down, to_values, lost, out=to_pairs[..., 1])
            to_values = to_pairs.flatten(-2)
        to_scores = _to_entries(to_values, rows, real, embeddings.shape[:2].numel())
        return to_embeddings, to_scores.view(embeddings.shape[:2]), None, None, None, None


def _weights(rounds: list[tuple[torch.Tensor, ...]], like: torch.Tensor) -> list[torch.Tensor]:
    """For each round, first to last, what its entries weigh in the survivor, `[batch, k, entries]`; then ones."""
    weights = [torch.ones_like(like)]
    for *_, won, lost in reversed(rounds):
        above = weights[-1]
        pairs = above.new_empty((*above.shape, 2))
        torch.mul(above, won, out=pairs[..., 0])
        torch.mul(above, lost, out=pairs[..., 1])
        weights.append(pairs.flatten(-2))
    return weights[::-1]


def _leaf_gradients(
    gradient: torch.Tensor,
    embeddings: torch.Tensor,
    rows: torch.Tensor,
    weights: torch.Tensor,
    real: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings' gradient, and each leaf's product with its survivor's gradient `[batch, k, leaves]`."""
    batch, length, size = embeddings.shape
    survivors = torch.arange(rows.shape[:2].numel(), device=rows.device).view(batch, -1, 1).expand_as(rows)
    survivor = _to_entries(survivors, rows, real, batch * length)
    weight = _to_entries(weights, rows, real, batch * length).requires_grad_()
    # Entry i gets weight[i] times the gradient of its survivor, a bag of one, in one pass over memory; and the
    # derivative of that by weight[i], in the direction of the embeddings, is the product of the two, in another.
    with torch.enable_grad():
        total = nn.functional.embedding_bag(
            survivor.unsqueeze(-1), gradient.reshape(-1, size), mode="sum", per_sample_weights=weight.unsqueeze(-1)
        )
    (products,) = torch.autograd.grad(total, weight, embeddings.reshape(-1, size))
    return total.detach().view_as(embeddings), products.index_select(0, rows.flatten()).view_as(rows)


def _to_entries(values: torch.Tensor, rows: torch.Tensor, real: torch.Tensor | None, entries: int) -> torch.Tensor:
    """From the leaves to the entries `[entries]`; 0 for padding. An entry is a leaf once."""
    if real is None:
        return values.new_empty(entries).index_copy_(0, rows.flatten(), values.flatten())
    # One place more, for what stands in padding's place.
    index = torch.where(real, rows, entries).flatten()
    return values.new_zeros(entries + 1).index_copy_(0, index, values.flatten())[:-1]


__all__ = ["padded_length", "plain_successive_halving", "successive_halving_topk", "tournament"]
