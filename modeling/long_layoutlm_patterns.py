"""The five patterns of LongLayoutLM, made once per forward pass from the config and the batch."""

from typing import Any

import torch
from torch import nn

from .attention_pattern import AttentionPattern
from .crossed_attention import make_crossing
from .flex_random_blocks import flex_random_blocks
from .flex_table import flex_table
from .global_tokens import GlobalTokens, add_global_tokens, find_global_tokens
from .random_blocks import dense_blocks, draw_random_blocks, random_blocks
from .sparse_attention import BlockTable, mask_padding, window_table
from .tracing import is_traced

# Queries in a block of the window's table: half the window, within what matrix products do well.
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 256
Tables = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]


def make_patterns(
    config: Any,
    input_shape: torch.Size,
    attention_mask: torch.Tensor | None,
    global_attention_mask: torch.Tensor | None,
    neighbors: torch.Tensor | None,
    tables: Tables,
    device: torch.device,
    plain: bool,
    given_blocks: list[torch.Tensor] | None = None,
    flex: bool = False,
) -> list[AttentionPattern]:
    """
    The pattern of each layer.

    Args:
        config: `LongLayoutLMConfig`.
        input_shape: (batch, length).
        attention_mask: `[batch, length]`, 0 for padding, or None.
        global_attention_mask: `[batch, length]`, 1 for global tokens, or None.
        neighbors: int `[batch, length, M]`, or None where the pattern needs none.
        tables: `block_queries`, `block_keys`, `block_members` of the collator, or None.
        device: where the tokens are.
        plain: make the plain form.
        given_blocks: random blocks of each layer, instead of drawn ones.
        flex: make FlexAttention's form, unless `plain`. DISTANCE+SW has none: there a pair's score is that of a query
            and another token than the one whose value it weighs, and FlexAttention has one key for both.

    Raises:
        ValueError: where a tensor is missing or of another shape, naming the remedy.
    """
    tokens = _find_global(global_attention_mask, attention_mask, input_shape)
    pattern, length = config.attention_pattern, input_shape[1]
    if config.neighbors_needed:
        neighbors = _check_neighbors(neighbors, input_shape, config)
    mask = attention_mask
    if pattern == "sliding_window_random":
        return _random_patterns(config, input_shape, mask, tokens, device, plain, given_blocks, flex)
    if pattern == "distance_sliding_window":
        assert neighbors is not None
        real = torch.ones(input_shape, dtype=torch.bool, device=device) if mask is None else mask.bool()
        made = AttentionPattern(crossing=make_crossing(neighbors, real, tokens), tokens=tokens, mask=mask)
    elif plain:
        counts = torch.zeros(1, 1, length, length, dtype=torch.bool, device=device)
        if pattern != "distance":
            place = torch.arange(length, device=device)
            counts = counts | ((place[:, None] - place).abs() <= config.attention_window // 2)
        if pattern != "sliding_window":
            assert neighbors is not None
            counts = counts | _dense_neighbors(neighbors).unsqueeze(1)
        made = AttentionPattern(counts=counts, tokens=tokens, mask=mask)
    else:
        if pattern == "sliding_window":
            half = config.attention_window // 2
            block = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, half))
            table = window_table(length, half, half, block, device)
        else:
            assert neighbors is not None
            table = _check_tables(tables, input_shape)
            _check_pairs(table, neighbors, config)
        table = table if mask is None else mask_padding(table, mask)
        table = add_global_tokens(table, tokens)
        if flex:
            made = AttentionPattern(flex=flex_table(table, *input_shape), tokens=tokens, mask=mask)
        else:
            made = AttentionPattern(table=table, tokens=tokens, mask=mask)
    return [made] * config.num_hidden_layers


def _random_patterns(
    config: Any,
    input_shape: torch.Size,
    mask: torch.Tensor | None,
    tokens: GlobalTokens | None,
    device: torch.device,
    plain: bool,
    given: list[torch.Tensor] | None,
    flex: bool,
) -> list[AttentionPattern]:
    if is_traced():
        raise ValueError(
            "The random blocks of SW+RAND depend on the lengths of the documents, which a compiler or exporter does "
            "not see; run this model as it is, or set attention_pattern to another pattern."
        )
    batch, length = input_shape
    # Up to the last token: tokens that are masked before it keep their places in the blocks.
    places = torch.arange(1, length + 1, device=device).expand(batch, -1)
    lengths = (places if mask is None else places * mask.bool()).amax(-1)
    size, heads = config.random_block_size, config.num_attention_heads
    blocks = [-(-int(own) // size) for own in lengths]
    patterns = []
    for layer in range(config.num_hidden_layers):
        seed = config.random_seed * 1000 + layer
        if given is not None and given[layer].shape[:2] != (heads, -(-length // size)):
            raise ValueError(
                f"The random blocks given for layer {layer} are for {given[layer].shape[0]} heads and "
                f"{given[layer].shape[1]} blocks, but {length} tokens make {-(-length // size)} blocks for each of "
                f"{heads} heads; give as many, or call set_random_blocks(None) to draw them."
            )
        drawn = [
            draw_random_blocks(own, heads, config.num_random_blocks, seed, config.global_blocks)
            if given is None
            else given[layer]
            for own in blocks
        ]
        made = random_blocks(lengths, length, size, drawn, config.global_blocks, config.count_duplicates)
        if plain:
            patterns.append(AttentionPattern(counts=dense_blocks(made, length), tokens=tokens, mask=mask))
        elif flex:
            form = flex_random_blocks(made, length, mask, tokens, config.count_duplicates)
            patterns.append(AttentionPattern(flex=form, tokens=tokens, mask=mask))
        else:
            patterns.append(AttentionPattern(blocks=made, tokens=tokens, mask=mask))
    return patterns


def _find_global(
    global_attention_mask: torch.Tensor | None, attention_mask: torch.Tensor | None, input_shape: torch.Size
) -> GlobalTokens | None:
    if global_attention_mask is None:
        return None
    if global_attention_mask.shape != input_shape:
        raise ValueError(
            f"global_attention_mask has the shape {list(global_attention_mask.shape)} but the tokens need "
            f"{list(input_shape)}; pad it like input_ids."
        )
    return find_global_tokens(global_attention_mask, attention_mask)


def _check_neighbors(neighbors: torch.Tensor | None, input_shape: torch.Size, config: Any) -> torch.Tensor:
    needed = config.neighbors_needed
    crossed = config.attention_pattern == "distance_sliding_window"
    size = f"attention_window={config.attention_window}" if crossed else f"num_neighbors={needed}"
    remedy = (
        f"make the batch with LongLayoutLMProcessor(tokenizer, attention_pattern={config.attention_pattern!r}, {size})"
    )
    if neighbors is None:
        raise ValueError(f"neighbors is missing, which {config.attention_pattern} needs; {remedy}.")
    if neighbors.shape != (*input_shape, needed):
        raise ValueError(
            f"neighbors has the shape {list(neighbors.shape)} but this model needs {[*input_shape, needed]}; {remedy}."
        )
    if not is_traced() and bool(((neighbors < -1) | (neighbors >= input_shape[1])).any()):
        raise ValueError(f"neighbors holds tokens outside -1..{input_shape[1] - 1}; {remedy}.")
    return neighbors.long()


def _check_tables(tables: Tables, input_shape: torch.Size) -> BlockTable:
    remedy = (
        'let the processor pad the batch (padding=True, return_tensors="pt"), or collate with '
        "LayoutDataCollator(processor)"
    )
    for name, table in zip(("block_queries", "block_keys", "block_members"), tables, strict=True):
        if table is None:
            raise ValueError(f"{name} is missing, which this attention_pattern needs; {remedy}.")
    queries, keys, members = tables
    assert queries is not None
    assert keys is not None
    assert members is not None
    if len({input_shape[0], len(queries), len(keys), len(members)}) > 1 or members.shape != (
        *queries.shape,
        keys.shape[-1],
    ):
        raise ValueError(
            f"The block tables have the shapes {list(queries.shape)}, {list(keys.shape)} and {list(members.shape)}, "
            f"which fit neither each other nor a batch of {input_shape[0]}; {remedy}."
        )
    if int(torch.maximum(queries.max(), keys.max())) >= input_shape[1]:
        raise ValueError(f"The block tables name tokens beyond the {input_shape[1]} of the batch; {remedy}.")
    return BlockTable(queries.long(), keys.long(), members.bool())


def _check_pairs(table: BlockTable, neighbors: torch.Tensor, config: Any) -> None:
    """Refuse tables made for another pattern or window, which would be attended to all the same."""
    attends = table.queries >= 0
    own = attends.sum((1, 2))
    place = torch.arange(neighbors.shape[1], device=neighbors.device)
    counted = (neighbors >= 0) & (place < own[:, None])[..., None]
    size = f"num_neighbors={config.num_neighbors}"
    expected = torch.zeros_like(own)
    if config.attention_pattern == "union":
        half = config.attention_window // 2
        size = f"{size}, attention_window={config.attention_window}"
        counted = counted & ((neighbors - place[:, None]).abs() > half)
        before = nn.functional.pad(place.clamp(max=half).cumsum(0), (1, 0))
        expected = own + 2 * before[own]
    expected = expected + counted.sum((1, 2))
    found = (table.allowed() & attends.unsqueeze(-1)).sum((1, 2, 3))
    wrong = (found != expected).nonzero()
    if len(wrong):
        document = int(wrong[0])
        raise ValueError(
            f"The block tables of document {document} of the batch hold {int(found[document])} pairs of tokens where "
            f"this model's pattern has {int(expected[document])}; make the batch with "
            f"LongLayoutLMProcessor(tokenizer, attention_pattern={config.attention_pattern!r}, {size})."
        )


def _dense_neighbors(neighbors: torch.Tensor) -> torch.Tensor:
    """`[batch, length, M]` -> bool `[batch, length, length]`."""
    batch, length, _ = neighbors.shape
    wide = torch.zeros(batch, length, length + 1, dtype=torch.bool, device=neighbors.device)
    return wide.scatter(-1, torch.where(neighbors < 0, length, neighbors), True)[..., :length]


__all__ = ["make_patterns"]
