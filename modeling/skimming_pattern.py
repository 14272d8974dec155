"""
The pattern of SkimmingMask (Skim-Attention, section 4.3): for each head and query the k tokens that a Skimformer
attends to most, as a mask, and as tables for the one sparse attention.
"""

import torch

from .layout_embeddings import is_traced
from .sparse_attention import BlockTable

# Elements of the scores that are ranked at once.
CHUNK = 1 << 23
# Queries in a block of the tables.
BLOCK = 64
# Blocks share a table while the fewest keys among them are at least this share of the most.
EVENNESS = 0.8


def first_of_equals(codes: torch.Tensor) -> torch.Tensor:
    """
    For each token the first token of its document with the same code: int64 `[batch, length]` -> the same shape.

    Tokens with the same box have the same layout embedding, so exactly the same skim-attention. A matrix product does
    not promise that: its rounding depends on the column. What is read from the first of them is equal.
    """
    ordered, order = codes.sort(dim=-1, stable=True)
    return order.gather(-1, torch.searchsorted(ordered, codes))


def top_k_mask(
    query: torch.Tensor,
    key: torch.Tensor,
    key_mask: torch.Tensor | None,
    equals: torch.Tensor | None,
    top_k: int,
) -> torch.Tensor:
    """
    The k most attended tokens of each query.

    The softmax keeps the order of the scores q k^T, so the scores are ranked. Ties go to the lower index. Padding is
    never among the k; where there are fewer than k tokens, all are.

    Args:
        query: `[batch, heads, length, head_size]` of the skim-attention; key likewise.
        key_mask: bool `[batch, length]`, False for padding; None for all True.
        equals: int64 `[batch, length]` of `first_of_equals`; None where all tokens differ.
        top_k: k, at least 1.

    Returns:
        bool `[batch, heads, length, length]`.
    """
    batch, heads, length, _ = query.shape
    keys = query.new_ones(batch, length, dtype=torch.bool) if key_mask is None else key_mask
    if is_traced():
        scores = _clean_scores(query, key, keys[:, None, None], None if equals is None else equals[:, None, None])
        return (_rank(scores) < top_k) & keys[:, None, None]
    if top_k >= length:
        return keys[:, None, None].expand(batch, heads, length, length).clone()
    chosen = torch.empty(batch, heads, length, length, dtype=torch.bool, device=query.device)
    step = max(1, CHUNK // (heads * length))
    for document in range(batch):
        allowed = None if bool(keys[document].all()) else keys[document][None, None]
        shared, places, row_of = None, torch.arange(length, device=query.device), None
        if equals is not None:
            # Equal tokens have equal rows: one for all of them.
            shared = equals[document][None, None]
            places, row_of = equals[document].unique(return_inverse=True)
        parts = []
        for rows in places.split(step):
            scores = _clean_scores(query[document][:, rows], key[document], allowed, shared)
            parts.append(_largest(scores, top_k))
        found = torch.cat(parts, 1)
        found = found if allowed is None else found & allowed
        chosen[document] = found if row_of is None else found[:, row_of]
    return chosen


def _clean_scores(
    query: torch.Tensor, key: torch.Tensor, allowed: torch.Tensor | None, equals: torch.Tensor | None
) -> torch.Tensor:
    scores = query @ key.transpose(-1, -2)
    if equals is not None:
        scores = scores.gather(-1, equals.expand(scores.shape))
    return scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)


def _rank(scores: torch.Tensor) -> torch.Tensor:
    """The place of each key among those of its query, the largest score first, ties in order: int64, from 0."""
    return scores.sort(dim=-1, descending=True, stable=True).indices.argsort(dim=-1)


def _largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    """`_rank(scores) < count` without a sort of all scores: those above the count-th, then the first equal to it."""
    threshold = scores.topk(count, dim=-1, sorted=False).values.amin(-1, keepdim=True)
    chosen = scores >= threshold
    tied = (chosen.sum(-1) > count).nonzero(as_tuple=True)
    if len(tied[0]):
        some, least = scores[tied], threshold[tied]
        equal = some == least
        left = count - (some > least).sum(-1, keepdim=True)
        chosen[tied] = (some > least) | (equal & (equal.cumsum(-1) <= left))
    return chosen


def morton_order(centers: torch.Tensor) -> torch.Tensor:
    """
    Tokens along a Z-shaped curve through the page, so that neighbours in the order are neighbours on it.

    Args:
        centers: int64 `[batch, length, 2]`, 0 <= coordinate < 2^20.

    Returns:
        int64 `[batch, length]`: the tokens in order, those in the same place in the order of the sequence.
    """
    code = torch.zeros(centers.shape[:2], dtype=torch.int64, device=centers.device)
    for bit in range(20):
        for axis in range(2):
            code |= ((centers[..., axis] >> bit) & 1) << (2 * bit + axis)
    return code.argsort(dim=-1, stable=True)


def pattern_tables(mask: torch.Tensor, order: torch.Tensor, block: int = BLOCK) -> tuple[BlockTable, ...]:
    """
    The mask as tables for the one sparse attention, with batch, heads and length folded into one sequence.

    The queries of a block are neighbours in `order`, so that their keys overlap; the block's keys are the union of
    theirs, each once. Blocks with about as many keys share a table, so that little of a table is empty.

    Args:
        mask: bool `[batch, heads, length, length]`. Queries without a key have no place, and zero as output.
        order: int64 `[batch, length]`, the tokens of each document in order.

    Returns:
        Tables whose queries and keys are indices into `[batch * heads * length]`, their first dimension 1.
    """
    batch, heads, length, _ = mask.shape
    blocks = -(-length // block)
    places = torch.nn.functional.pad(order, (0, blocks * block - length), value=-1)
    rows = places.clamp(min=0)[:, None, :, None].expand(-1, heads, -1, length)
    members = mask.gather(2, rows) & (places >= 0)[:, None, :, None]
    members = members.view(batch * heads * blocks, block, length)
    start = torch.arange(batch * heads, device=mask.device).repeat_interleave(blocks)[:, None] * length
    queries = places[:, None].expand(-1, heads, -1).reshape(-1, block)
    queries = (queries + start).masked_fill(~members.any(-1), -1)
    union = members.any(1)
    sizes, by_size = union.sum(-1).sort(descending=True)
    tables = []
    for first, last in _even_groups(sizes.tolist()):
        chosen = by_size[first:last]
        # The keys of the union first, in order.
        exists, keys = union[chosen].to(torch.int8).sort(dim=-1, descending=True, stable=True)
        width = int(sizes[first])
        keys, exists = keys[:, :width], exists[:, :width].bool()
        inside = members[chosen].gather(2, keys.unsqueeze(1).expand(-1, block, -1))
        keys = (keys + start[chosen]).masked_fill(~exists, -1)
        tables.append(BlockTable(queries[chosen][None], keys[None], inside[None]))
    return tuple(tables)


def _even_groups(sizes: list[int]) -> list[tuple[int, int]]:
    """Ranges of descending sizes whose smallest is at least EVENNESS of the largest; zeros are left out."""
    groups: list[tuple[int, int]] = []
    first = 0
    for index, size in enumerate([*sizes, 0]):
        if index > first and size < EVENNESS * sizes[first]:
            groups.append((first, index))
            first = index
        if size == 0:
            break
    return groups


def table_products(tables: tuple[BlockTable, ...]) -> int:
    """How many products of a query with a key the tables compute, members or not."""
    return sum(table.queries.numel() * table.keys.shape[2] for table in tables)


__all__ = ["first_of_equals", "morton_order", "pattern_tables", "table_products", "top_k_mask"]
