"""
An attention function of transformers that reads its pattern from a keyword argument of the layers.

A text encoder whose config names `SKIMMING` as its attention makes no mask of its own; its layers hand their keyword
arguments on, `skimming_pattern` among them, and so every layer attends by it.
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from .encoder_layer import eager_attention
from .seeded_dropout import draw_seed, seed_of_table
from .sparse_attention import BlockTable, sparse_attention

SKIMMING = "broadsheet_skimming"


class SkimmingPattern(NamedTuple):
    """
    Who attends to whom, for all layers: a mask or tables, the other None.

    Attributes:
        mask: `[batch, heads, length, length]`: bool, True for what is attended to, or with `eager` what is added to
            the scores. A query without any key has all.
        tables: of `pattern_tables`, over batch, heads and length folded into one sequence.
        eager: take the plain form, which gives the probabilities too.
        backend: the attention function of transformers that is given the bool mask.
    """

    mask: torch.Tensor | None = None
    tables: tuple[BlockTable, ...] | None = None
    eager: bool = False
    backend: str = "sdpa"


def dense_pattern(mask: torch.Tensor, eager: bool, backend: str) -> SkimmingPattern:
    """The dense form of a bool mask `[batch, heads, length, length]`."""
    mask = mask | ~mask.any(-1, keepdim=True)
    if eager:
        added = torch.zeros(mask.shape, device=mask.device, dtype=torch.float32)
        added = added.masked_fill_(~mask, torch.finfo(torch.float32).min)
        return SkimmingPattern(mask=added, eager=True)
    return SkimmingPattern(mask=mask, backend=backend)


def skimming_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    skimming_pattern: SkimmingPattern | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    softmax(q k^T * scaling) v over the keys of the pattern.

    Shapes: query, key, value `[batch, heads, length, head_size]`; `attention_mask` plays no part. Returns the output
    `[batch, length, heads, head_size]` and, in the plain form, the probabilities `[batch, heads, length, length]`.
    """
    if skimming_pattern is None:
        raise ValueError("This encoder is the backbone of a SkimmingMask and has no pattern alone; call that model.")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if skimming_pattern.tables is not None:
        return _sparse(query, key, value, skimming_pattern.tables, scaling, dropout), None
    mask = skimming_pattern.mask
    if skimming_pattern.eager:
        return eager_attention(module, query, key, value, mask, scaling, dropout)
    attend = ALL_ATTENTION_FUNCTIONS[skimming_pattern.backend]
    return attend(module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=False)


def _sparse(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    tables: tuple[BlockTable, ...],
    scaling: float,
    dropout: float,
) -> torch.Tensor:
    """Each head of each document is a stretch of one sequence; each query stands in one table."""
    q, k, v = (tensor.reshape(1, 1, -1, tensor.shape[-1]) for tensor in (query, key, value))
    seed = draw_seed() if dropout else 0
    output = torch.zeros_like(v)
    for number, table in enumerate(tables):
        output = output + sparse_attention(q, k, v, table, scaling, dropout, seed_of_table(seed, number))
    return output.view(value.shape).transpose(1, 2)


def _no_mask(*_args: Any, **_kwargs: Any) -> None:
    """The pattern leaves the padding out already."""
    return


AttentionInterface.register(SKIMMING, skimming_attention)
AttentionMaskInterface.register(SKIMMING, _no_mask)

__all__ = ["SKIMMING", "SkimmingPattern", "dense_pattern", "skimming_attention"]
