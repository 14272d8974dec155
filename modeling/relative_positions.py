"""Relative positions in the sequence (Shaw et al., 2018; as ETC has them): a vector per head and clipped offset."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import initialization as init


class RelativePositions(nn.Module):
    """
    q_i . a_(j - i) added to a pair's product, a vector for each offset from -clip to clip, further ones as the last.

    Args:
        clip: the largest offset told apart.
        num_heads: heads of the attention.
        head_size: size of a head's query.
    """

    def __init__(self, clip: int, num_heads: int, head_size: int):
        super().__init__()
        self.clip = clip
        self.scaling = head_size**-0.5
        self.weight = nn.Parameter(torch.zeros(num_heads, 2 * clip + 1, head_size))

    def forward(self, query: torch.Tensor, key: torch.Tensor, places: torch.Tensor, plain: bool = False) -> Any:
        """What an attention calls: the plain form's `dense_terms`, or the fast form's `numbers`."""
        return self.dense_terms(query, key, places) if plain else self.numbers(query, key, places)

    def dense_terms(self, query: torch.Tensor, key: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The plain form: `[batch, heads, length, head_size]` each -> `[batch, heads, length, length]`."""
        positions = torch.arange(query.shape[2], device=query.device)
        offset = (positions[None, :] - positions[:, None]).clamp(-self.clip, self.clip) + self.clip
        products = query @ self.weight.to(query.dtype).transpose(-1, -2) * self.scaling
        return products.gather(-1, offset.expand(*products.shape[:2], -1, -1))

    def numbers(
        self, query: torch.Tensor, key: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Per token: the products of a query with all vectors, and its position; the position of a key.

        Args:
            query: `[batch, heads, queries, head_size]`, of the first tokens.
            key: `[batch, heads, length, head_size]`.
            places: not used.

        Returns:
            `[batch, heads, queries, 2 * clip + 2]` and `[batch, heads, length, 1]`, in float32 at least.
        """
        wide = torch.promote_types(query.dtype, torch.float32)
        products = query @ self.weight.to(query.dtype).transpose(-1, -2) * self.scaling
        positions = torch.arange(key.shape[2], device=key.device, dtype=wide)[:, None]
        of_query = torch.cat([products.to(wide), positions[: query.shape[2]].expand(*query.shape[:3], 1)], -1)
        return of_query, positions.expand(*key.shape[:3], 1)

    def terms(self, num_global: int) -> "RelativeTerms":
        """The fast form, for blocks whose first `num_global` keys are global tokens."""
        return RelativeTerms(self.clip, num_global)


class RelativeTerms:
    """The fast form: the terms of a block from the `numbers` of its queries and keys, and their gradient."""

    def __init__(self, clip: int, num_global: int):
        self.clip = clip
        self.num_global = num_global

    def __call__(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """`[batch, blocks, heads, block, 2 * clip + 2]`, `[..., K, 1]` -> `[batch, blocks, heads, block, K]`."""
        return self._terms(queries, self._offset(queries, keys))

    def with_gradient(
        self, queries: torch.Tensor, keys: torch.Tensor
    ) -> tuple[torch.Tensor, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]]:
        """The terms, and the function from their gradient to that of the numbers."""
        offset = self._offset(queries, keys)

        def pull_back(gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            own = slice(self.num_global, None)
            of_queries = torch.zeros_like(queries).scatter_add_(-1, offset[..., own], gradient[..., own])
            return of_queries, torch.zeros_like(keys)

        return self._terms(queries, offset), pull_back

    def of_pairs(self, queries: torch.Tensor, keys: torch.Tensor) -> Callable[..., torch.Tensor]:
        """
        The term of one pair of tokens, for FlexAttention: (document, head, query, key) -> a number.

        Args:
            queries: `[batch, heads, length, 2 * clip + 2]`, as `numbers` orders them.
            keys: not used; a pair's places tell its offset.
        """
        # As a tensor: a compiler would take a number for one more thing that may vary.
        clip = torch.tensor(self.clip, device=queries.device)

        def term(document: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
            return queries[document, head, query, (key - query).clamp(-clip, clip) + clip]

        return term

    def _offset(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        offset = keys[:, :, :1, None, :, -1] - queries[:, :, :1, :, -1, None]
        index = offset.clamp(-self.clip, self.clip).long() + self.clip
        return index.expand(-1, -1, queries.shape[2], -1, -1)

    def _terms(self, queries: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        terms = queries.gather(-1, offset)
        if self.num_global:
            terms[..., : self.num_global] = 0
        return terms


def init_relative_positions(module: nn.Module, std: float) -> None:
    """Start the vectors at N(0, std^2)."""
    if isinstance(module, RelativePositions):
        init.normal_(module.weight, std=std)
