"""Global tokens (Longformer, section 3.1): all tokens attend to them, and they attend to all tokens."""

from typing import NamedTuple

import torch
from torch import nn

from .layout_embeddings import is_traced
from .sparse_attention import BlockTable


class GlobalTokens(NamedTuple):
    """
    The global tokens of a batch, G at most in a document.

    Attributes:
        tokens: int64 `[batch, G]`, their places in ascending order; -1 for none.
        mask: bool `[batch, length]`, the tokens that they attend to: all but padding.
    """

    tokens: torch.Tensor
    mask: torch.Tensor


def default_global_mask(bbox: torch.Tensor | None, given: torch.Tensor | None, question: bool) -> torch.Tensor | None:
    """
    The mask of global tokens as given, or where none is: each document's first token, and with `question` all tokens
    before the first that stands on a page.

    Args:
        bbox: int `[batch, length, 4]`; special tokens and questions have [0, 0, 0, 0]. Nothing else has a default.
        given: `[batch, length]`, or None.

    Returns:
        `[batch, length]`.
    """
    if given is not None or bbox is None or bbox.dim() != 3:
        return given
    first = torch.zeros(bbox.shape[:2], dtype=torch.long, device=bbox.device)
    first[:, 0] = 1
    if not question:
        return first
    on_page = (bbox != 0).any(-1)
    before = (on_page.cumsum(-1) == 0) & on_page.any(-1, keepdim=True)
    return first | before.long()


def find_global_tokens(
    global_attention_mask: torch.Tensor, attention_mask: torch.Tensor | None
) -> GlobalTokens | None:
    """
    Args:
        global_attention_mask: `[batch, length]`, 1 for global tokens. Padding is never global.
        attention_mask: `[batch, length]`, 0 for padding, or None.

    Returns:
        None where no token is global.
    """
    everything = torch.ones_like(global_attention_mask, dtype=torch.bool)
    mask = everything if attention_mask is None else attention_mask.bool()
    is_global = global_attention_mask.bool() & mask
    # A tracer cannot look at the mask: there every token has a place.
    count = mask.shape[1] if is_traced() else int(is_global.sum(-1).max())
    if count == 0:
        return None
    # Global places first, in order. (ONNX exporters know topk but no stable sort.)
    length = mask.shape[1]
    places = torch.arange(length, device=mask.device)
    order = torch.where(is_global, length - places, -places).topk(count, dim=-1).indices
    return GlobalTokens(order.masked_fill(~is_global.gather(1, order), -1), mask)


def add_global_tokens(table: BlockTable, tokens: GlobalTokens | None) -> BlockTable:
    """
    The table in which every query also attends to the global tokens, each once.

    The global tokens' own places are emptied: their outputs come from `global_rows`.
    """
    if tokens is None:
        return table
    batch, blocks = tokens.tokens.shape[0], table.queries.shape[1]
    places = torch.arange(tokens.mask.shape[1], device=tokens.mask.device)
    is_global = (tokens.tokens[:, :, None] == places).any(1)

    def empty_globals(places: torch.Tensor) -> torch.Tensor:
        places = places.expand(batch, -1, -1)
        marked = is_global.gather(1, places.clamp(min=0).flatten(1)).view_as(places)
        return places.masked_fill(marked, -1)

    shared = tokens.tokens.unsqueeze(1).expand(-1, blocks, -1)
    keys = torch.cat([shared, empty_globals(table.keys)], -1)
    members = table.members
    if members is not None:
        added = members.new_ones(()).expand(*members.shape[:3], shared.shape[-1])
        members = torch.cat([added, members], -1)
    return BlockTable(empty_globals(table.queries), keys, members)


def with_idle_projections(output: torch.Tensor, inputs: torch.Tensor, *projections: nn.Module) -> torch.Tensor:
    """
    `output` as it is, where the `projections` of `inputs` have no part in it, as those of global tokens without any.

    In training by several processes they get gradients of zero: DistributedDataParallel waits for every parameter's.
    """
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not several or not any(each.training for each in projections) or not torch.is_grad_enabled() or is_traced():
        return output
    # Called, on no tokens: what wraps a projection takes part too.
    for project in projections:
        output = output + project(inputs[:, :0]).sum()
    return output


def gather_global(tensor: torch.Tensor, tokens: GlobalTokens) -> torch.Tensor:
    """`[batch, heads, length, size]` -> `[batch, heads, G, size]`, the rows of the global tokens."""
    index = tokens.tokens.clamp(min=0)[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[-1])
    return tensor.gather(2, index)


def global_probabilities(query: torch.Tensor, key: torch.Tensor, tokens: GlobalTokens, scaling: float) -> torch.Tensor:
    """
    Attention of the global tokens over the whole document.

    Shapes: query and key `[batch, heads, length, head_size]` of the global projections; returns
    `[batch, heads, G, length]`.
    """
    scores = gather_global(query, tokens) @ key.transpose(-1, -2) * scaling
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    scores = scores.masked_fill(~tokens.mask[:, None, None, :], torch.finfo(scores.dtype).min)
    return scores.softmax(-1).to(query.dtype)


def put_global_rows(output: torch.Tensor, rows: torch.Tensor, tokens: GlobalTokens) -> torch.Tensor:
    """`output` `[batch, heads, length, size]`, zero at global tokens, with `rows` `[batch, heads, G, size]` there."""
    rows = rows.masked_fill((tokens.tokens < 0)[:, None, :, None], 0.0).to(output.dtype)
    index = tokens.tokens.clamp(min=0)[:, None, :, None].expand_as(rows)
    return output.scatter_add(2, index, rows)


def global_rows(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    tokens: GlobalTokens,
    scaling: float,
    dropout: float = 0.0,
) -> torch.Tensor:
    """The outputs of the global tokens, `[batch, heads, G, head_size]`, from the global projections of all tokens."""
    probabilities = global_probabilities(query, key, tokens, scaling)
    return nn.functional.dropout(probabilities, dropout) @ value
