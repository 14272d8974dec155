"""Self-attention within blocks of neighbours that do not overlap (Pyramidion, section 3.1)."""

from itertools import product
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .encoder_layer import eager_attention, merge_heads, split_heads
from .matrix_products import Linear, multiply, runs_in_onednn
from .seeded_dropout import draw_seed
from .sparse_attention import BlockTable, sparse_attention
from .tracing import is_traced


class Blocks(NamedTuple):
    """
    How a batch of tokens is cut, made once for all layers of a length.

    Attributes:
        size: tokens of a block; the length is a multiple of it.
        mask: bool `[batch * blocks, 1, 1, size]`, False for padding, True in blocks of padding alone; None for none.
        table: the same for the family's sparse attention.
    """

    size: int
    mask: torch.Tensor | None
    table: BlockTable


def make_blocks(hidden_states: torch.Tensor, mask: torch.Tensor | None, size: int) -> Blocks:
    """
    Args:
        hidden_states: `[batch, length, hidden]`, the length a multiple of `size`.
        mask: bool `[batch, length]`, False for padding; None for none.
        size: tokens of a block.
    """
    places = torch.arange(hidden_states.shape[1], device=hidden_states.device).view(1, -1, size)
    if mask is None:
        return Blocks(size, None, BlockTable(places, places))
    keys = mask.reshape(-1, 1, 1, size)
    table = BlockTable(
        places, places.expand(mask.shape[0], -1, -1).masked_fill(~mask.view(mask.shape[0], -1, size), -1)
    )
    # A softmax needs something to be over.
    return Blocks(size, keys | ~keys.any(-1, keepdim=True), table)


# Tokens of a block from which on, and up to which, `attend_in_cache` is faster than SDPA on the CPU.
LEAST_CACHED, MOST_CACHED = 512, 2048


def attend_in_cache(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, size: int, scaling: float
) -> torch.Tensor:
    """
    Softmax attention within blocks without autograd, one block of one head at a time, in oneDNN's kernels.

    Args:
        query: `[batch, heads, length, head_size]`; key and value likewise.
        mask: that of `Blocks`.
        size: tokens of a block.
        scaling: factor of the scores.

    Returns:
        `[batch, length, hidden]`.
    """
    batch, heads, length, head_size = query.shape
    output = query.new_empty(batch, length, heads, head_size)
    keys = None if mask is None else mask.view(batch, -1, size)
    for document, start in product(range(batch), range(0, length, size)):
        here = slice(start, start + size)
        missing = None if keys is None else ~keys[document, start // size]
        if missing is not None and not missing.any():
            missing = None
        for head in range(heads):
            q, k, v = (each[document, head, here].contiguous() for each in (query, key, value))
            scores = multiply(q * scaling, k.t())
            if missing is not None:
                scores.masked_fill_(missing, torch.finfo(scores.dtype).min)
            output[document, here, head] = multiply(scores.softmax(-1), v)
    return output.flatten(2)


def block_length(length: int, block_size: int | None) -> tuple[int, int]:
    """(tokens of a block, the length padded to a multiple of it) for an input of `length` tokens."""
    if block_size is None or length <= block_size:
        return length, length
    return block_size, -(-length // block_size) * block_size


class BlockwiseSelfAttention(nn.Module):
    """Multi-head attention of each token to those of its block."""

    is_causal = False

    def __init__(self, config: Any):
        super().__init__()
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = Linear(config.hidden_size, config.hidden_size)
        self.key = Linear(config.hidden_size, config.hidden_size)
        self.value = Linear(config.hidden_size, config.hidden_size)

    def forward(
        self, hidden_states: torch.Tensor, blocks: Blocks, received: list[torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: `[batch, length, hidden]`.
            blocks: of `make_blocks`.
            received: where given, the attention that each token receives from real tokens, summed over heads,
                `[batch, length]`, is added to the list.

        Returns:
            `[batch, length, hidden]`, and with the eager backend the probabilities `[batch, heads, length, size]`.
        """
        batch, length = hidden_states.shape[:2]
        query = split_heads(self.query(hidden_states), self.head_size)
        key = split_heads(self.key(hidden_states), self.head_size)
        value = split_heads(self.value(hidden_states), self.head_size)
        dropout = self.dropout if self.training else 0.0
        scaling, backend = self.head_size**-0.5, self.config._attn_implementation
        if dropout and backend != "eager" and received is None and not is_traced():
            # With dropout SDPA keeps all probabilities.
            seed = draw_seed()
            return merge_heads(sparse_attention(query, key, value, blocks.table, scaling, dropout, seed)), None

        fits = LEAST_CACHED <= blocks.size <= MOST_CACHED
        fits = fits and runs_in_onednn(blocks.size**2 * self.head_size, query, key)
        if fits and backend == "sdpa" and not dropout and received is None and not torch.is_grad_enabled():
            return attend_in_cache(query, key, value, blocks.mask, blocks.size, scaling), None

        def cut(tensor: torch.Tensor) -> torch.Tensor:
            """`[batch, heads, length, head_size]` -> `[batch * blocks, heads, size, head_size]`."""
            return tensor.unflatten(2, (-1, blocks.size)).transpose(1, 2).flatten(0, 1)

        mask = blocks.mask
        if received is None and backend != "eager":
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(backend, eager_attention)
        else:
            attend = eager_attention
            if mask is not None:
                lowest = torch.finfo(query.dtype).min
                mask = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill(~mask, lowest)
        output, probabilities = attend(self, cut(query), cut(key), cut(value), mask, scaling=scaling, dropout=dropout)
        if probabilities is not None:
            # [batch * blocks, heads, size, size] -> [batch, heads, length, size]
            probabilities = probabilities.unflatten(0, (batch, -1)).transpose(1, 2).flatten(2, 3)
            if received is not None:
                received.append(self._received(probabilities.detach(), blocks))
        return output.reshape(batch, length, -1), probabilities

    def _received(self, probabilities: torch.Tensor, blocks: Blocks) -> torch.Tensor:
        given = probabilities.sum(1)  # [batch, length, size]
        if blocks.mask is not None:
            given = given * (blocks.table.keys >= 0).flatten(1).unsqueeze(-1)
        return given.unflatten(1, (-1, blocks.size)).sum(2).flatten(1)


__all__ = ["BlockwiseSelfAttention", "Blocks", "block_length", "make_blocks"]
