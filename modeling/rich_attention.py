"""
Rich Attention (FormNet, section 3.2): attention scores that know on which side of a token another stands, and how far.

On each axis, for each head, two affine maps of [q_i; k_j] say what order and what log-distance the tokens should have
if they are related; the score loses what the true order and distance miss of it. An affine map of a concatenation is a
sum a_i + b_j, so that a few numbers per token and head are all that a pair's terms are made from.

Plain form: `RichAttention.dense_terms`, the paper's Eq. 1 to 4 line by line. Fast form: `RichTerms`, for the blocks of
the one sparse attention, with the gradient written out, and for the pairs of FlexAttention.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import initialization as init

from .tracing import is_traced

# Above it softplus is the identity, to rounding in float64.
SOFTPLUS_LINEAR = 40.0


class HeadAffine(nn.Module):
    """affine([q_i; k_j]), one number per axis and head, as the sum of what q_i and what k_j bring to it."""

    def __init__(self, num_axes: int, num_heads: int, head_size: int):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(num_axes, num_heads, head_size))
        self.key = nn.Parameter(torch.zeros(num_axes, num_heads, head_size))
        self.bias = nn.Parameter(torch.zeros(num_axes, num_heads))

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[batch, length, heads, head_size]` each -> `[batch, length, heads, axes]` each, the bias in the first."""
        of_query = torch.einsum("bnhs,ahs->bnha", query, self.query.to(query.dtype))
        of_key = torch.einsum("bnhs,ahs->bnha", key, self.key.to(key.dtype))
        return of_query + self.bias.to(query.dtype).t(), of_key


class RichAttention(nn.Module):
    """
    The learned part of Rich Attention: what order and what distance related tokens should have.

    Args:
        num_axes: axes on which tokens have a place: x and y, and the sequence.
        num_heads: heads of the attention.
        head_size: size of a head's query and key.
    """

    def __init__(self, num_axes: int, num_heads: int, head_size: int):
        super().__init__()
        self.num_axes = num_axes
        self.order = HeadAffine(num_axes, num_heads, head_size)
        self.distance = HeadAffine(num_axes, num_heads, head_size)
        self.theta = nn.Parameter(torch.zeros(num_axes, num_heads))

    def forward(self, query: torch.Tensor, key: torch.Tensor, places: torch.Tensor, plain: bool = False) -> Any:
        """What an attention calls: the plain form's `dense_terms`, or the fast form's `numbers`."""
        return self.dense_terms(query, key, places) if plain else self.numbers(query, key, places)

    def dense_terms(self, query: torch.Tensor, key: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """
        The plain form: s(o) + s(d) summed over the axes, + ln 2 for each axis.

        That constant changes nothing between pairs that have terms. It makes maps and theta of zero plain attention,
        also beside pairs that have none (those with a global token).

        Args:
            query: `[batch, heads, length, head_size]`; key likewise.
            places: float `[batch, length, axes]`, a token's place on each axis.

        Returns:
            `[batch, heads, length, length]`, query by key, in float32 at least.
        """
        with torch.autocast(query.device.type, enabled=False):
            query, key = _wide(query).transpose(1, 2), _wide(key).transpose(1, 2)
            orders, means = self.order(query, key), self.distance(query, key)
        total = torch.zeros((), dtype=query.dtype, device=query.device)
        for axis in range(self.num_axes):
            x = places[:, None, :, axis].to(query.dtype)
            x_i, x_j = x[..., :, None], x[..., None, :]
            order = x_i < x_j
            distance = torch.log(1 + (x_i - x_j).abs())
            p_logit = _pairs(orders, axis)  # Eq. 1, before the sigmoid
            mean = _pairs(means, axis)  # Eq. 2
            log_sigmoid = nn.functional.logsigmoid
            order_score = torch.where(order, log_sigmoid(p_logit), log_sigmoid(-p_logit))  # Eq. 3
            theta = self.theta[axis].to(query.dtype)[:, None, None]
            distance_score = -(theta**2) * (distance - mean) ** 2 / 2  # Eq. 4
            total = total + order_score + distance_score + math.log(2)
        return total

    def numbers(
        self, query: torch.Tensor, key: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        What the terms of all pairs are made from, per token, for `RichTerms`.

        Args:
            query: `[batch, heads, queries, head_size]`, of the first tokens.
            key: `[batch, heads, length, head_size]`.
            places: float `[batch, length, axes]`.

        Returns:
            `[batch, heads, queries, 4 * axes]` and `[batch, heads, length, 3 * axes]`, in float32 at least.
        """
        with torch.autocast(query.device.type, enabled=False):
            query, key = _wide(query).transpose(1, 2), _wide(key).transpose(1, 2)
            theta = self.theta.to(query.dtype).t()
            order_query, order_key = self.order(query, key)
            mean_query, mean_key = self.distance(query, key)
            shape, key_shape = mean_query.shape, mean_key.shape
            places = places.to(query.dtype).unsqueeze(2)
            # theta (d - mu) = theta d - (theta mu_i + theta mu_j).
            of_query = [order_query, mean_query * theta, theta.expand(shape), places[:, : shape[1]].expand(shape)]
            of_key = [order_key, mean_key * theta, places.expand(key_shape)]
            # A token's row is one piece of memory: it is gathered by token.
            return torch.cat(of_query, -1).transpose(1, 2), torch.cat(of_key, -1).transpose(1, 2)

    def terms(self, num_global: int) -> "RichTerms":
        """The fast form, for blocks whose first `num_global` keys are global tokens."""
        return RichTerms(self.num_axes, num_global)


class RichTerms:
    """
    The fast form: the terms of a block from the `numbers` of its queries and keys, and their gradient.

    Args:
        num_axes: axes.
        num_global: the first keys of each block, with which pairs have no terms.
    """

    def __init__(self, num_axes: int, num_global: int):
        self.num_axes = num_axes
        self.num_global = num_global

    def __call__(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """
        `[batch, blocks, heads, block, 4 * axes]` and `[batch, blocks, heads, K, 3 * axes]`, as `numbers` orders them
        -> `[batch, blocks, heads, block, K]`.
        """
        return self._terms([self._misses(queries, keys, axis) for axis in range(self.num_axes)])

    def with_gradient(
        self, queries: torch.Tensor, keys: torch.Tensor
    ) -> tuple[torch.Tensor, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]]:
        """The terms, and the function, to be called once, from their gradient to that of the numbers."""
        misses = [self._misses(queries, keys, axis) for axis in range(self.num_axes)]

        def pull_back(gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            of_queries, of_keys = torch.zeros_like(queries), torch.zeros_like(keys)
            axes, own = self.num_axes, slice(self.num_global, None)
            for axis, (against, distance, wrong, miss) in enumerate(misses):
                # -d softplus(wrong) = -sigmoid(wrong) d wrong, and wrong = (a_i + b_j) against.
                slope = wrong.sigmoid_().mul_(gradient).mul_(against)
                of_queries[..., axis] = -slope[..., own].sum(-1)
                of_keys[..., own, axis] = -slope[..., own].sum(-2)
                # -d (miss^2 / 2) = -miss d miss, and miss = theta d - m_i - m_j.
                slope = miss.mul_(gradient)
                of_queries[..., axes + axis] = slope[..., own].sum(-1)
                of_keys[..., own, axes + axis] = slope[..., own].sum(-2)
                of_queries[..., 2 * axes + axis] = -slope.mul_(distance)[..., own].sum(-1)
            return of_queries, of_keys

        return self._terms(misses), pull_back

    def of_pairs(self, queries: torch.Tensor, keys: torch.Tensor) -> Callable[..., torch.Tensor]:
        """
        The terms of one pair of tokens, for FlexAttention: (document, head, query, key) -> a number.

        Args:
            queries: `[batch, heads, length, 4 * axes]`, as `numbers` orders them.
            keys: `[batch, heads, length, 3 * axes]`.
        """
        axes = self.num_axes
        # Columns are taken here: a number inside the function would be one more thing that a compiler may vary.
        columns = [
            (
                *(queries[..., kind * axes + axis] for kind in range(4)),
                *(keys[..., kind * axes + axis] for kind in range(3)),
            )
            for axis in range(axes)
        ]

        def term(document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
            total: Any = len(columns) * math.log(2)
            for order_i, mean_i, theta, place_i, order_j, mean_j, place_j in columns:
                here, there = (document, head, query), (document, head, key)
                gap = place_j[there] - place_i[here]
                logit = order_i[here] + order_j[there]
                wrong = torch.where(gap > 0, -logit, logit)
                miss = theta[here] * gap.abs().log1p() - mean_i[here] - mean_j[there]
                total = total - _softplus(wrong) - miss * miss / 2
            return total

        return term

    def _misses(self, queries: torch.Tensor, keys: torch.Tensor, axis: int) -> tuple[torch.Tensor, ...]:
        """
        On one axis: -1 where the key stands after the query, else 1, and the log-distance, `[..., 1, block, K]`; the
        logit of the wrong order, and theta times what the distance misses of mu, `[..., heads, block, K]`.
        """
        axes = self.num_axes
        # Places are the same for all heads, and nothing learns from them.
        place_i = queries[:, :, :1, :, 3 * axes + axis, None].detach()
        place_j = keys[:, :, :1, None, :, 2 * axes + axis].detach()
        gap = place_j - place_i
        against = torch.where(gap > 0, -1.0, 1.0).to(gap.dtype)
        distance = gap.abs().log1p()

        def pair(column: int) -> tuple[torch.Tensor, torch.Tensor]:
            return queries[..., column, None], keys[..., None, :, column]

        order_i, order_j = pair(axis)
        mean_i, mean_j = pair(axes + axis)
        wrong = (order_i + order_j).mul_(against)
        miss = (queries[..., 2 * axes + axis, None] * distance).sub_(mean_i).sub_(mean_j)
        return against, distance, wrong, miss

    def _terms(self, misses: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
        """The sum over the axes of ln 2 - softplus(wrong) - miss^2 / 2: `[..., heads, block, K]`."""
        terms = _log_sigmoids([wrong for _, _, wrong, _ in misses])
        for _, _, _, miss in misses:
            terms = terms.addcmul_(miss, miss, value=-0.5)
        terms = terms.add_(self.num_axes * math.log(2))
        if self.num_global:
            terms[..., : self.num_global] = 0
        return terms


def _log_sigmoids(wrong: list[torch.Tensor]) -> torch.Tensor:
    """The sum of -softplus(wrong), in a tensor of its own."""
    if torch.is_grad_enabled() or is_traced():
        return -torch.stack([_softplus(each) for each in wrong]).sum(0)
    # -softplus(w) = ln sigmoid(|w|) - max(w, 0): one logarithm for all axes, of a product that cannot vanish. (Its
    # gradient at zero would be another's, hence not under autograd.)
    total = wrong[0].abs().sigmoid_()
    for each in wrong[1:]:
        total.mul_(each.abs().sigmoid_())
    total.log_()
    for each in wrong:
        total.sub_(each.clamp(min=0))
    return total


def _softplus(logit: torch.Tensor) -> torch.Tensor:
    return nn.functional.softplus(logit, threshold=SOFTPLUS_LINEAR)


def init_rich_attention(module: nn.Module, std: float, theta: float) -> None:
    """Start the maps at N(0, std^2), biases at zero, and theta at `theta` (at zero it would never learn)."""
    if isinstance(module, HeadAffine):
        init.normal_(module.query, std=std)
        init.normal_(module.key, std=std)
        init.zeros_(module.bias)
    elif isinstance(module, RichAttention):
        init.constant_(module.theta, theta)


def _pairs(parts: tuple[torch.Tensor, torch.Tensor], axis: int) -> torch.Tensor:
    """a_i + b_j on one axis: `[batch, length, heads, axes]` each -> `[batch, heads, length, length]`."""
    of_query, of_key = (part[..., axis].transpose(1, 2) for part in parts)
    return of_query[..., :, None] + of_key[..., None, :]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
