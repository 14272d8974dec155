"""
The family's one sparse attention: queries in blocks, for each block a table of keys and who may attend to what.

Sliding windows, random blocks, spatial neighbours, top-k masks and blockwise attention differ in their tables alone.
Plain form: `dense_mask` and masked softmax over all keys, `dense_attention`. Fast form: `sparse_attention`, exact, a
few blocks at a time, which keeps q, k and v alone for the backward pass, gathers again there, and draws dropout anew
from its seed.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .attention_blocks import zeros_to_sum
from .layout_embeddings import is_traced
from .seeded_dropout import drop

# Elements of the scores that are worked on at once: what a CPU's cache holds well, what fills a GPU.
CPU_CHUNK, GPU_CHUNK = 1 << 20, 1 << 27
# Terms need several tensors of that size at once: the CPU's share of it.
TERMS_SHARE = 4

# Additive terms of a block's scores, made from numbers of its queries and of its keys:
# ([batch, blocks, heads, block, Q], [batch, blocks, heads, K, P]) -> [batch, blocks, heads, block, K].
Terms = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class BlockTable(NamedTuple):
    """
    Who attends to whom. The first dimension is 1 where all documents share the table.

    Attributes:
        queries: int64 `[batch or 1, blocks, block]`, the token of each place; -1 for none. Every token that is to have
            an output stands in exactly one place.
        keys: int64 `[batch or 1, blocks, K]`, the tokens that the block's queries may attend to, each at most once
            unless it is to count several times; -1 for none.
        members: bool `[batch or 1, blocks, block, K]`, which query attends to which of them; None for all that exist.
    """

    queries: torch.Tensor
    keys: torch.Tensor
    members: torch.Tensor | None = None

    def allowed(self) -> torch.Tensor:
        """Bool `[batch or 1, blocks, block, K]`: members that exist."""
        exists = (self.keys >= 0).unsqueeze(-2)
        return exists.expand(-1, -1, self.queries.shape[-1], -1) if self.members is None else self.members & exists


def dense_mask(table: BlockTable, length: int) -> torch.Tensor:
    """
    The table as a bool mask `[batch or 1, length, length]`: query i attends to key j.

    A key that stands twice in a block's table counts once here; see `dense_counts`.
    """
    return dense_counts(table, length) > 0


def dense_counts(table: BlockTable, length: int) -> torch.Tensor:
    """How often query i attends to key j: int64 `[batch or 1, length, length]`."""
    allowed = table.allowed() & (table.queries >= 0).unsqueeze(-1)
    batch = torch.arange(allowed.shape[0], device=allowed.device).view(-1, 1, 1, 1)
    rows = table.queries.clamp(min=0).unsqueeze(-1)
    columns = table.keys.clamp(min=0).unsqueeze(-2)
    counts = torch.zeros(allowed.shape[0], length, length, dtype=torch.int64, device=allowed.device)
    index = [part.expand(allowed.shape) for part in (batch, rows, columns)]
    return counts.index_put_(tuple(index), allowed.long(), accumulate=True)


def dense_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    table: BlockTable,
    scaling: float,
    terms: torch.Tensor | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """
    The plain form: softmax over the keys that the table allows; zero where it allows none.

    Shapes: query, key, value `[batch, heads, length, head_size]`; terms `[batch, heads, length, length]`; returns
    `[batch, heads, length, head_size]`.
    """
    counts = dense_counts(table, query.shape[2]).unsqueeze(1)
    scores = query @ key.transpose(-1, -2) * scaling
    if terms is not None:
        scores = scores + terms
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    # A key that counts n times weighs n times as much.
    scores = (scores + counts.to(scores.dtype).log()).masked_fill(counts == 0, torch.finfo(scores.dtype).min)
    probabilities = scores.softmax(-1).masked_fill(counts.sum(-1, keepdim=True) == 0, 0.0)
    return nn.functional.dropout(probabilities, dropout).to(value.dtype) @ value


def sparse_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    table: BlockTable,
    scaling: float,
    dropout: float = 0.0,
    seed: int = 0,
    terms: Terms | None = None,
    query_numbers: torch.Tensor | None = None,
    key_numbers: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    The fast form: equal to `dense_attention` in value and gradient.

    Args:
        query: `[batch, heads, length, head_size]`; key and value likewise. For tables that differ from head to head,
            fold the heads into the batch.
        table: who attends to whom.
        scaling: factor of the scores.
        dropout: share of the probabilities that is dropped; 0 outside training.
        seed: what the dropout is drawn from; the same seed gives the same pattern.
        terms: a function that makes additive terms of the scores from `query_numbers` `[batch, heads, length, Q]` and
            `key_numbers` `[batch, heads, length, P]`, which receive gradients. It may use no other tensor that does.
            Where it has a method `with_gradient`, that is asked for the terms and for a function from their gradient
            to those of the two; otherwise autograd goes through the terms of each block.

    Returns:
        `[batch, heads, length, head_size]`, zero for tokens that attend to none.
    """
    arguments = (query, key, value, query_numbers, key_numbers, table, scaling, dropout, seed, terms)
    return _SparseAttention.apply(*arguments)


class Block(NamedTuple):
    """Some blocks of all documents: token indices for gathering, and what is allowed."""

    queries: torch.Tensor  # [batch, blocks, block]
    keys: torch.Tensor  # [batch, blocks, K]
    exists: torch.Tensor | None  # bool [batch or 1, blocks, 1, block, 1], places with a token that attends to any
    allowed: torch.Tensor | None  # bool [batch or 1, blocks, 1, block or 1, K]; both None for all
    number: int


def table_blocks(table: BlockTable, batch: int, heads: int, with_terms: bool = False) -> Iterator[Block]:
    blocks, block, keys = *table.queries.shape[1:], table.keys.shape[2]
    budget = GPU_CHUNK
    if table.keys.device.type == "cpu":
        budget = CPU_CHUNK // TERMS_SHARE if with_terms else CPU_CHUNK
    step = max(1, budget // max(1, batch * heads * block * keys))
    for number, start in enumerate(range(0, blocks, step)):
        members = None if table.members is None else table.members[:, start : start + step]
        part = BlockTable(table.queries[:, start : start + step], table.keys[:, start : start + step], members)
        allowed = (part.keys >= 0).unsqueeze(-2) if members is None else part.allowed()
        exists = (part.queries >= 0) & allowed.any(-1)
        # On the CPU it costs little to see that a step is not needed; on a GPU it would mean to wait.
        looks = table.keys.device.type == "cpu" and not is_traced()
        yield Block(
            part.queries.clamp(min=0).expand(batch, -1, -1),
            part.keys.clamp(min=0).expand(batch, -1, -1),
            None if looks and bool(exists.all()) else exists[:, :, None, :, None],
            None if looks and bool(allowed.all()) else allowed.unsqueeze(2),
            number,
        )


def _rows(index: torch.Tensor, length: int) -> torch.Tensor:
    """`[batch, blocks, n]` token indices -> rows of a tensor whose batch and length are folded."""
    offsets = torch.arange(index.shape[0], device=index.device).view(-1, 1, 1) * length
    return (index + offsets).flatten()


def gather_tokens(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`[batch, heads, length, size]` at `[batch, blocks, n]` -> `[batch, blocks, heads, n, size]`."""
    batch, heads, length, size = tensor.shape
    # Projections leave [batch, length, heads, size] in memory: one token is one contiguous row.
    folded = tensor.transpose(1, 2).reshape(batch * length, heads * size)
    gathered = folded.index_select(0, _rows(index, length))
    return gathered.view(*index.shape, heads, size).transpose(2, 3)


def scatter_tokens(gradient: torch.Tensor, index: torch.Tensor, total: Any) -> None:
    """Add `[batch, blocks, heads, n, size]` to `total` `[batch, length, heads, size]` at `[batch, blocks, n]`."""
    flat = gradient.transpose(2, 3).flatten(3).flatten(0, 2)
    total.view(-1, flat.shape[-1]).index_add_(0, _rows(index, total.shape[1]), flat.to(total.dtype))


def zeros_by_token(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros `[batch, length, heads, size]` to sum the gradient of `[batch, heads, length, size]` in."""
    batch, heads, length, size = tensor.shape
    return zeros_to_sum(tensor.new_empty(batch, length, heads, size))


def block_probabilities(scores: torch.Tensor, block: Block) -> torch.Tensor:
    """
    Softmax over what is allowed, zero in places without a token: `[batch, blocks, heads, block, K]`. The scores may be
    written over.
    """
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if block.allowed is not None:
        wide = wide.masked_fill_(~block.allowed, torch.finfo(wide.dtype).min)
    probabilities = wide.softmax(-1)
    return probabilities if block.exists is None else probabilities.mul_(block.exists)


def drop_block(probabilities: torch.Tensor, dropout: float, seed: int, block: Block) -> torch.Tensor:
    return drop(probabilities, dropout, seed + block.number)


def differentiable_terms(
    terms: Terms, numbers: list[torch.Tensor]
) -> tuple[torch.Tensor, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]]:
    """The terms of a block, and the function from their gradient to the gradients of the numbers."""
    own = getattr(terms, "with_gradient", None)
    if own is not None:
        return own(*numbers)
    numbers = [tensor.detach().requires_grad_() for tensor in numbers]
    with torch.enable_grad():
        made = terms(*numbers)
    return made.detach(), lambda gradient: torch.autograd.grad(made, numbers, gradient)


class _SparseAttention(torch.autograd.Function):
    """`sparse_attention`, a few blocks at a time, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        query_numbers: torch.Tensor | None,
        key_numbers: torch.Tensor | None,
        table: BlockTable,
        scaling: float,
        dropout: float,
        seed: int,
        terms: Terms | None,
    ) -> torch.Tensor:
        batch, heads, length, _ = query.shape
        output = value.new_zeros(batch, length, heads, value.shape[-1])
        for block in table_blocks(table, batch, heads, terms is not None):
            # The factor where there are fewest numbers.
            scores = (gather_tokens(query, block.queries) * scaling) @ gather_tokens(key, block.keys).transpose(-1, -2)
            if terms is not None:
                assert query_numbers is not None
                assert key_numbers is not None
                scores = scores + terms(
                    gather_tokens(query_numbers, block.queries), gather_tokens(key_numbers, block.keys)
                )
            dropped = drop_block(block_probabilities(scores, block), dropout, seed, block)
            scatter_tokens(dropped.to(value.dtype) @ gather_tokens(value, block.keys), block.queries, output)
        ctx.save_for_backward(query, key, value, query_numbers, key_numbers)
        ctx.table, ctx.terms = table, terms
        ctx.scaling, ctx.dropout, ctx.seed = scaling, dropout, seed
        return output.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:  # type: ignore[override]
        inputs = ctx.saved_tensors
        query, key, value, query_numbers, key_numbers = inputs
        totals = [None if x is None else zeros_by_token(x) for x in inputs]
        batch, heads = query.shape[:2]
        for block in table_blocks(ctx.table, batch, heads, ctx.terms is not None):
            q, k, v = (
                gather_tokens(x, i) for x, i in zip(inputs, (block.queries, block.keys, block.keys), strict=False)
            )
            q = q * ctx.scaling
            scores = q @ k.transpose(-1, -2)
            if ctx.terms is not None:
                numbers = [gather_tokens(query_numbers, block.queries), gather_tokens(key_numbers, block.keys)]
                made, pull_back = differentiable_terms(ctx.terms, numbers)
                scores = scores + made
            clean = block_probabilities(scores, block)
            dropped = drop_block(clean, ctx.dropout, ctx.seed, block)
            output_gradient = gather_tokens(gradient, block.queries)
            scatter_tokens(dropped.to(v.dtype).transpose(-1, -2) @ output_gradient, block.keys, totals[2])
            product = (output_gradient @ v.transpose(-1, -2)).to(dropped.dtype).mul_(dropped)
            scores_gradient = product.addcmul_(clean, product.sum(-1, keepdim=True), value=-1)
            if ctx.terms is not None:
                parts = pull_back(scores_gradient.to(made.dtype))
                for total, index, part in zip(totals[3:], (block.queries, block.keys), parts, strict=True):
                    scatter_tokens(part, index, total)
            scores_gradient = scores_gradient.to(q.dtype)
            scatter_tokens((scores_gradient @ k).mul_(ctx.scaling), block.queries, totals[0])
            scatter_tokens(scores_gradient.transpose(-1, -2) @ q, block.keys, totals[1])
        gradients = [
            None if total is None else total.transpose(1, 2).to(x.dtype)
            for total, x in zip(totals, inputs, strict=True)
        ]
        return (*gradients, None, None, None, None, None)


def window_table(length: int, before: int, after: int, block: int, device: torch.device | str = "cpu") -> BlockTable:
    """
    A sliding window: each token attends to `before` tokens before it, `after` after it, and itself.

    Args:
        length: tokens of the sequence.
        block: queries in a block; the keys of a block are the `block + before + after` around it.

    Returns:
        The table, its first dimension 1.
    """
    if is_traced():
        # The number of blocks would be fixed in the graph: one block of all tokens serves every length.
        queries = keys = torch.arange(length, device=device)[None]
    else:
        starts = torch.arange(0, length, block, device=device)
        queries = starts[:, None] + torch.arange(block, device=device)
        keys = starts[:, None] + torch.arange(-before, block + after, device=device)
    offset = keys[:, None, :] - queries[:, :, None]
    members = (offset >= -before) & (offset <= after)
    outside = (keys < 0) | (keys >= length)
    return BlockTable(
        queries.masked_fill(queries >= length, -1)[None], keys.masked_fill(outside, -1)[None], members[None]
    )


def mask_keys(table: BlockTable, attention_mask: torch.Tensor) -> BlockTable:
    """The table for documents with padding: `attention_mask` `[batch, length]`, 0 for keys that nobody attends to."""
    keys = table.keys.expand(attention_mask.shape[0], -1, -1)
    kept = attention_mask.bool().gather(1, keys.clamp(min=0).flatten(1)).view_as(keys)
    return table._replace(keys=keys.masked_fill(~kept, -1))


def mask_padding(table: BlockTable, attention_mask: torch.Tensor) -> BlockTable:
    """The table in which padding, 0 in `attention_mask` `[batch, length]`, neither is attended to nor attends."""
    queries = table.queries.expand(attention_mask.shape[0], -1, -1)
    real = attention_mask.bool().gather(1, queries.clamp(min=0).flatten(1)).view_as(queries)
    return mask_keys(table._replace(queries=queries.masked_fill(~real, -1)), attention_mask)


__all__ = [
    "BlockTable",
    "dense_attention",
    "dense_counts",
    "dense_mask",
    "mask_keys",
    "mask_padding",
    "sparse_attention",
    "window_table",
]
