"""
The sparse encoders that the paper compares with (Pyramidion, Table 2 and appendix C.1), small: LSH and Efficient
attention, each with two heads of local attention, Funnel, and PoWER.

    model = with_sparse_attention(PyramidionForConditionalGeneration(PyramidionConfig.vanilla()), "lsh")
    model = as_funnel(PyramidionForConditionalGeneration(PyramidionConfig.blockwise()), stride=16)
    config = power_config([2048, 512])          # hard elimination, fine-tuned from a Blockwise checkpoint

None is part of the portable models.
"""

from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from broadsheet.modeling.blockwise_attention import Blocks, BlockwiseSelfAttention
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.encoder_layer import merge_heads, split_heads
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.modeling.pyramidion_encoder import PyramidionEncoder, PyramidionEncoderOutput
from broadsheet.modeling.sparse_attention import mask_keys, sparse_attention, window_table

BUCKET, HASHES, LOCAL_HEADS, WINDOW = 64, 4, 2, 64
# What a token's own score is lowered to, so that it attends to itself only where there is nobody else (Reformer).
OWN = -1e5


def efficient_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """
    Shen et al. (2021): softmax(q) over its features times (softmax(k) over the tokens)^T v; linear in the length.

    Shapes: query, key, value `[batch, heads, length, size]`, mask bool `[batch, length]`; returns as value.
    """
    if mask is not None:
        key = key.masked_fill(~mask[:, None, :, None], torch.finfo(key.dtype).min)
    return query.softmax(-1) @ (key.softmax(-2).transpose(-1, -2) @ value)


def hash_buckets(vectors: torch.Tensor, count: int, hashes: int, seed: int) -> torch.Tensor:
    """Buckets by random rotations: `[batch, heads, length, size]` -> int64 `[hashes, batch, heads, length]`."""
    generator = torch.Generator().manual_seed(seed)
    shape = (hashes, vectors.shape[-1], max(1, count // 2))
    rotations = torch.randn(shape, generator=generator, dtype=torch.float64).to(vectors)
    rotated = torch.einsum("bhns,rsc->rbhnc", vectors.detach(), rotations)
    return torch.cat([rotated, -rotated], -1).argmax(-1)


def lsh_attention(
    query: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    bucket: int = BUCKET,
    hashes: int = HASHES,
    seed: int = 0,
    plain: bool = False,
) -> torch.Tensor:
    """
    Kitaev et al. (2020): queries are the keys, normalised; tokens are sorted by bucket and cut into chunks of
    `bucket`, and each attends to those of its bucket in its own chunk and the one before; hashes are weighted by their
    sums of exponentials.

    Args:
        query: `[batch, heads, length, size]`; value likewise.
        mask: bool `[batch, length]`, False for padding.
        bucket: tokens of a chunk.
        hashes: parallel hashes.
        seed: of the rotations.
        plain: with masks over all pairs, for tests.
    """
    length = query.shape[2]
    count = max(2, -(-length // bucket))
    real = torch.ones(query.shape[0], length, dtype=torch.bool, device=query.device) if mask is None else mask
    real = real.unsqueeze(1).expand(query.shape[:3])
    attend = _dense_round if plain else _chunked_round
    outputs, sums = [], []
    for buckets in hash_buckets(query, count, hashes, seed):
        # Padding behind all buckets; equal ones in the order of the text.
        order = buckets.masked_fill(~real, count).sort(dim=-1, stable=True).indices
        output, total = attend(query, value, buckets, real, order, bucket)
        outputs.append(output)
        sums.append(total)
    weights = torch.stack(sums).softmax(0).unsqueeze(-1)
    return (weights * torch.stack(outputs)).sum(0)


def _scores(query: torch.Tensor, key: torch.Tensor, allowed: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    scores = query @ nn.functional.normalize(key, dim=-1).transpose(-1, -2)
    return scores.masked_fill(own, OWN).masked_fill(~allowed, torch.finfo(scores.dtype).min)


def _dense_round(query: Any, value: Any, buckets: Any, real: Any, order: Any, size: int) -> tuple[Any, Any]:
    places = torch.zeros_like(order).scatter_(
        -1, order, torch.arange(order.shape[-1], device=order.device).expand_as(order)
    )
    chunk = places // size
    distance = chunk.unsqueeze(-1) - chunk.unsqueeze(-2)
    allowed = (buckets.unsqueeze(-1) == buckets.unsqueeze(-2)) & (distance >= 0) & (distance <= 1)
    allowed &= real.unsqueeze(-2)
    scores = _scores(
        query, query, allowed, torch.eye(query.shape[2], dtype=torch.bool, device=query.device).expand_as(allowed)
    )
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def _chunked_round(query: Any, value: Any, buckets: Any, real: Any, order: Any, size: int) -> tuple[Any, Any]:
    length = query.shape[2]
    missing = -length % size

    def cut(tensor: torch.Tensor, fill: int) -> torch.Tensor:
        """By bucket, in chunks: `[batch, heads, length, ...]` -> `[batch, heads, chunks, size, ...]`."""
        index = order.view(*order.shape, *[1] * (tensor.dim() - 3)).expand(*order.shape, *tensor.shape[3:])
        pads = [0, 0] * (tensor.dim() - 3) + [0, missing]
        return nn.functional.pad(tensor.gather(2, index), pads, value=fill).unflatten(2, (-1, size))

    def with_previous(tensor: torch.Tensor, fill: int) -> torch.Tensor:
        before = torch.cat([torch.full_like(tensor[:, :, :1], fill), tensor[:, :, :-1]], 2)
        return torch.cat([before, tensor], 3)

    q, v, b, r = cut(query, 0), cut(value, 0), cut(buckets, -1), cut(real.long(), 0)
    place = cut(torch.arange(length, device=order.device).expand_as(order), -2)
    keys_real = with_previous(r, 0).bool().unsqueeze(-2)
    allowed = (b.unsqueeze(-1) == with_previous(b, -1).unsqueeze(-2)) & keys_real
    own = place.unsqueeze(-1) == with_previous(place, -1).unsqueeze(-2)
    scores = _scores(q, with_previous(q, 0), allowed, own)
    output = (scores.softmax(-1) @ with_previous(v, 0)).flatten(2, 3)[:, :, :length]
    back = order.argsort(-1)
    total = scores.logsumexp(-1).flatten(2, 3)[:, :, :length].gather(2, back)
    return output.gather(2, back.unsqueeze(-1).expand(*back.shape, output.shape[-1])), total


class SparseSelfAttention(BlockwiseSelfAttention):
    """LSH or Efficient attention in place of the encoder's, its first two heads local."""

    def __init__(self, config: Any, kind: str):
        super().__init__(config)
        if kind not in ("lsh", "efficient"):
            raise ValueError(f"There is no sparse attention {kind!r}; choose lsh or efficient.")
        self.kind = kind

    def forward(self, hidden_states: torch.Tensor, blocks: Blocks, received: Any = None) -> tuple[torch.Tensor, None]:
        """`[batch, length, hidden]` -> the same; `blocks` is one block of all tokens (`block_size=None`)."""
        query, key, value = (
            split_heads(projection(hidden_states), self.head_size) for projection in (self.query, self.key, self.value)
        )
        mask = None if blocks.mask is None else (blocks.table.keys >= 0).flatten(1)
        table = window_table(hidden_states.shape[1], WINDOW, WINDOW, 2 * WINDOW, hidden_states.device)
        table = table if mask is None else mask_keys(table, mask)
        near, far = slice(0, LOCAL_HEADS), slice(LOCAL_HEADS, None)
        local = sparse_attention(query[:, near], key[:, near], value[:, near], table, self.head_size**-0.5)
        if self.kind == "lsh":
            other = lsh_attention(query[:, far], value[:, far], mask)
        else:
            other = efficient_attention(query[:, far], key[:, far], value[:, far], mask)
        return merge_heads(torch.cat([local, other], 1)), None


def with_sparse_attention(model: PyramidionForConditionalGeneration, kind: str) -> PyramidionForConditionalGeneration:
    """The model with that attention in each encoder layer; it must have `block_size=None` and more than two heads."""
    if model.config.block_size is not None or model.config.num_attention_heads <= LOCAL_HEADS:
        raise ValueError("Sparse attentions replace full attention of more than two heads; set block_size=None.")
    layer: Any
    for layer in model.pyramidion.encoder.layer:
        attention = SparseSelfAttention(model.config, kind)
        attention.load_state_dict(layer.attention.self.state_dict())
        layer.attention.self = attention
    return model


class FunnelEncoder(PyramidionEncoder):
    """
    Funnel as the paper adapted it: the first layer at full length, strided means of its output through the others, and
    the result repeated to full length and added to the first layer's output, which the decoder reads whole.
    """

    stride = 1

    def forward(  # type: ignore[override]
        self, input_ids: Any = None, attention_mask: Any = None, bbox: Any = None, *args: Any, **kwargs: Any
    ) -> BaseModelOutput:
        """As the encoder's, without boxes and recorded states."""
        mask = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
        states, real, blocks = self._cut(self.embeddings(input_ids), mask)
        first = self.layer[0](states, blocks)[:, : input_ids.shape[1]]
        missing = -first.shape[1] % self.stride
        weights = nn.functional.pad(mask, (0, missing)).unflatten(1, (-1, self.stride)).to(first.dtype)
        windows = nn.functional.pad(first, (0, 0, 0, missing)).unflatten(1, (-1, self.stride))
        counts = weights.sum(2, keepdim=True)
        pooled = (windows * weights.unsqueeze(-1)).sum(2) / counts.clamp(min=1)
        length = pooled.shape[1]
        states, _, blocks = self._cut(pooled, counts.squeeze(-1) > 0)
        for layer in self.layer[1:]:
            states = layer(states, blocks)
        upsampled = states[:, :length].repeat_interleave(self.stride, 1)[:, : first.shape[1]]
        output = (first + upsampled).masked_fill(~mask.unsqueeze(-1), 0.0)
        return PyramidionEncoderOutput(last_hidden_state=output, attention_mask=mask)


def as_funnel(model: PyramidionForConditionalGeneration, stride: int) -> PyramidionForConditionalGeneration:
    """The model, which must not pool, as a Funnel: `stride` neighbours become one after the first encoder layer."""
    if model.config.encoder_lengths is not None or stride < 1:
        raise ValueError("A Funnel pools by its stride, 1 or more; set encoder_lengths=None.")
    encoder: Any = model.pyramidion.encoder
    encoder.__class__ = FunnelEncoder
    encoder.stride = stride
    return model


# PoWER's choice: the tokens that received most attention, as they are.
POWER = {"scorer": "attention", "operator": "hard"}


def power_config(lengths: list[int], **overrides: Any) -> PyramidionConfig:
    """
    PoWER with fixed rates: after each layer the tokens that received most attention stay, without gradient to the
    choice. Load a Blockwise checkpoint into it (`from_pretrained(path, config=...)`) and fine-tune for ten epochs.
    """
    settings = {**POWER, "encoder_lengths": lengths, "num_hidden_layers": len(lengths)}
    return PyramidionConfig.shallow(**{**settings, **overrides})


def as_power(model: PyramidionForConditionalGeneration, lengths: list[int]) -> PyramidionForConditionalGeneration:
    """A Blockwise as a PoWER with the same weights: as `power_config`."""
    if model.config.encoder_lengths is not None:
        raise ValueError("PoWER starts from a model that does not pool; set encoder_lengths=None.")
    settings = {**model.config.to_dict(), **POWER, "encoder_lengths": lengths}
    power = PyramidionForConditionalGeneration(PyramidionConfig(**settings))
    power.load_state_dict(model.state_dict())
    return power
