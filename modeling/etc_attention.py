"""
ETC's global-local attention (Ainslie et al., 2020; FormNet, section 3.1): tokens attend to tokens within a radius and
to the global tokens, global tokens to all, with the same projections.

The global tokens stand after the tokens. Pairs of tokens may have additive terms (`RichAttention`,
`RelativePositions`), pairs with a global token have none. Four forms: plain (dense, masked), fast (the one sparse
attention), by blocks in plain operations, for compilers, and FlexAttention's, for inference on CUDA.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from .encoder_layer import merge_heads, split_heads
from .flex_etc import etc_block_mask, flex_etc_attention
from .matrix_products import Linear
from .seeded_dropout import draw_seed
from .sparse_attention import BlockTable, mask_keys, sparse_attention, window_table
from .tracing import is_traced

# Queries in a block of the window's table.
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 128


class EtcPattern(NamedTuple):
    """
    Who attends to whom, built once for all layers.

    Attributes:
        places: float32 `[batch, length + globals, axes]`, the place of each token on each axis, or None.
        mask: bool `[batch, length + globals]`, False for padding.
        table: for the fast form, the blocks of tokens and their keys, the global tokens first; None for the others.
        radius: how far tokens attend to tokens.
        num_global: global tokens.
        plain: take the plain form, and return the probabilities.
        flex: FlexAttention's block mask, for its form; None for the others.
    """

    places: torch.Tensor | None
    mask: torch.Tensor
    table: BlockTable | None
    radius: int
    num_global: int
    plain: bool
    flex: Any = None


def etc_pattern(
    attention_mask: torch.Tensor | None,
    input_shape: torch.Size,
    places: torch.Tensor | None,
    radius: int,
    num_global: int,
    plain: bool,
    device: torch.device,
    flex: bool = False,
) -> EtcPattern:
    """
    Args:
        attention_mask: `[batch, length]`, 0 for padding, or None.
        input_shape: (batch, length).
        places: float32 `[batch, length, axes]`, or None.
        radius: how far tokens attend to tokens.
        num_global: global tokens.
        plain: take the plain form.
        device: where the tokens are.
        flex: take FlexAttention's form, which has no dropout and no gradients.
    """
    batch, length = input_shape
    pad = nn.functional.pad
    mask = torch.ones(batch, length, dtype=torch.bool, device=device) if attention_mask is None else attention_mask
    mask = pad(mask.bool(), (0, num_global), value=True)
    places = None if places is None else pad(places, (0, 0, 0, num_global))
    table = None
    if flex and not plain and not is_traced():
        block_mask = etc_block_mask(mask, radius, num_global)
        return EtcPattern(places, mask, None, radius, num_global, plain, block_mask)
    if not plain and not is_traced():
        block = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, radius))
        table = window_table(length, radius, radius, block, device)
        if attention_mask is not None and not bool(attention_mask.all()):
            table = mask_keys(table, attention_mask)
        table = _add_keys(table, torch.arange(length, length + num_global, device=device))
    return EtcPattern(places, mask, table, radius, num_global, plain)


def _add_keys(table: BlockTable, tokens: torch.Tensor) -> BlockTable:
    """The table in which every query attends to `tokens` `[G]` too, the first keys of each block."""
    keys = torch.cat([tokens.expand(*table.keys.shape[:2], -1), table.keys], -1)
    members = table.members
    if members is not None:
        members = nn.functional.pad(members, (len(tokens), 0), value=True)
    return BlockTable(table.queries, keys, members)


class EtcSelfAttention(nn.Module):
    """
    The attention of a layer.

    Args:
        hidden_size: size of the layer.
        num_heads: heads.
        dropout: dropout of the probabilities.
        positions: what adds terms to pairs of tokens: `RichAttention`, `RelativePositions`, or None.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout: float, positions: Any = None):
        super().__init__()
        self.head_size = hidden_size // num_heads
        self.dropout = dropout
        self.query = Linear(hidden_size, hidden_size)
        self.key = Linear(hidden_size, hidden_size)
        self.value = Linear(hidden_size, hidden_size)
        self.positions = positions

    def forward(self, hidden_states: torch.Tensor, *pattern: Any) -> Any:
        """
        Args:
            hidden_states: `[batch, length + globals, hidden]`.
            pattern: the fields of an `EtcPattern`.

        Returns:
            `[batch, length + globals, hidden]`; in the plain form with the probabilities of the tokens,
            `[batch, heads, length, length + globals]`.
        """
        etc = EtcPattern(*pattern)
        length = hidden_states.shape[1] - etc.num_global
        dropout, scaling = self.dropout if self.training else 0.0, self.head_size**-0.5
        query, key, value = (
            split_heads(project(hidden_states), self.head_size) for project in (self.query, self.key, self.value)
        )
        global_scores = query[:, :, length:] @ key.transpose(-1, -2) * scaling
        of_globals = _softmax(global_scores, etc.mask[:, None, None]).to(value.dtype)
        of_globals = nn.functional.dropout(of_globals, dropout) @ value
        query = query[:, :, :length]
        if etc.plain:
            probabilities = self._plain(query, key, etc, scaling).to(value.dtype)
            output = nn.functional.dropout(probabilities, dropout) @ value
            return merge_heads(torch.cat([output, of_globals], 2)), probabilities
        terms, numbers = None, (None, None)
        if self.positions is not None:
            terms, numbers = self.positions.terms(etc.num_global), self.positions(query, key, etc.places)
        if etc.flex is not None:
            output = flex_etc_attention(query, key, value, etc.flex, scaling, etc.num_global, terms, *numbers)
        elif etc.table is not None:
            seed = draw_seed() if dropout else 0
            output = sparse_attention(query, key, value, etc.table, scaling, dropout, seed, terms, *numbers)
        else:
            output = block_attention(query, key, value, etc, scaling, dropout, terms, *numbers)
        return merge_heads(torch.cat([output, of_globals], 2))

    def _plain(self, query: torch.Tensor, key: torch.Tensor, etc: EtcPattern, scaling: float) -> torch.Tensor:
        """The plain form of the tokens' probabilities, `[batch, heads, length, length + globals]`."""
        length = query.shape[2]
        scores = query @ key.transpose(-1, -2) * scaling
        if self.positions is not None:
            places = None if etc.places is None else etc.places[:, :length]
            terms = self.positions(query, key[:, :, :length], places, plain=True)
            scores = scores + nn.functional.pad(terms, (0, etc.num_global))
        positions = torch.arange(length, device=query.device)
        near = (positions[None, :] - positions[:, None]).abs() <= etc.radius
        near = nn.functional.pad(near, (0, etc.num_global), value=True)
        return _softmax(scores, near & etc.mask[:, None, None])


def block_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    etc: EtcPattern,
    scaling: float,
    dropout: float,
    terms: Any,
    query_numbers: torch.Tensor | None,
    key_numbers: torch.Tensor | None,
) -> torch.Tensor:
    """
    The tokens' attention by blocks as long as the radius, each with its neighbours and the global tokens, in plain
    operations of shapes that a compiler can follow.

    Args:
        query: `[batch, heads, length, head_size]`; key and value `[batch, heads, length + globals, head_size]`.
        etc: the pattern.
        scaling: factor of the products.
        dropout: share of the probabilities that is dropped.
        terms: makes additive terms of a block's scores from the numbers of its queries and keys, or None.
        query_numbers: `[batch, heads, length, Q]`, or None.
        key_numbers: `[batch, heads, length + globals, P]`, or None.

    Returns:
        `[batch, heads, length, head_size]`.
    """
    length, block = query.shape[2], max(etc.radius, SMALLEST_BLOCK)
    # One more than is needed: a compiler's graph for a single block would not serve two.
    blocks = (length + block - 1) // block + 1
    rest = blocks * block - length
    pad = nn.functional.pad

    def own(tensor: torch.Tensor) -> torch.Tensor:
        """`[batch, length, ...]` -> `[batch, blocks, block, ...]`."""
        return pad(tensor, (0, 0) * (tensor.dim() - 2) + (0, rest)).unflatten(1, (blocks, block))

    def around(tensor: torch.Tensor) -> torch.Tensor:
        """`[batch, length + globals, ...]` -> `[batch, blocks, globals + 3 * block, ...]`."""
        sides = pad(tensor[:, :length], (0, 0) * (tensor.dim() - 2) + (block, rest + block))
        sides = sides.unflatten(1, (blocks + 2, block))
        shared = tensor[:, None, length:].expand(-1, blocks, *tensor[0, length:].shape)
        return torch.cat([shared, sides[:, :-2], sides[:, 1:-1], sides[:, 2:]], 2)

    def heads_first(tensor: torch.Tensor, cut: Any) -> torch.Tensor:
        return cut(tensor.transpose(1, 2)).transpose(2, 3)

    keys = heads_first(key, around)
    scores = heads_first(query, own) @ keys.transpose(-1, -2) * scaling
    if terms is not None:
        assert query_numbers is not None
        assert key_numbers is not None
        scores = scores + terms(heads_first(query_numbers, own), heads_first(key_numbers, around))
    places = torch.arange(3 * block, device=query.device) - block
    near = (places[None, :] - torch.arange(block, device=query.device)[:, None]).abs() <= etc.radius
    near = pad(near, (etc.num_global, 0), value=True)
    allowed = near & around(etc.mask)[:, :, None, None]
    probabilities = nn.functional.dropout(_softmax(scores, allowed).to(value.dtype), dropout)
    output = (probabilities @ heads_first(value, around)).transpose(2, 3).flatten(1, 2)
    return output[:, :length].transpose(1, 2)


def _softmax(scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Softmax over what is allowed, in float32 at least. Every row allows something: a global token at least."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
