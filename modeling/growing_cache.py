"""A cache of keys and values with room behind them, so that writing a token copies no other."""

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from .tracing import is_traced

# Tokens that the first room holds at least.
FIRST_ROOM = 64


class GrowingLayer(DynamicLayer):
    """
    `DynamicLayer`, which copies everything to append a token and to reorder beams, with rooms that the tokens are
    written into; full ones are moved to others of twice the size. When beams change places, only the tokens are copied
    that were written since their histories parted. Equal bit for bit. Where gradients are wanted, in graphs, and for
    beams on a GPU, which would have to wait for their numbers, it is `DynamicLayer` itself.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._rooms: tuple[torch.Tensor, ...] = ()
        # What stands in the rooms. Who crops the cache puts other tensors into its place.
        self._written: torch.Tensor | None = None
        # int64 [batch, batch]: how many tokens from the first on two rows have in common at least; None: unknown.
        self._common: torch.Tensor | None = None
        self._copies_beams = False

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append `[batch, heads, new, size]`, and return all: `[batch, heads, length, size]`."""
        if self._copies_beams or is_traced() or torch.is_grad_enabled():
            return super().update(key_states, value_states, *args, **kwargs)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self.keys is not self._written:
            self._common = None
        if not self._fits(end):
            self._rooms = tuple(
                _move(kept, new, start, max(FIRST_ROOM, 2 * end))
                for kept, new in ((self.keys, key_states), (self.values, value_states))
            )
        self.keys, self.values = (
            _write(room, new, start, end) for room, new in zip(self._rooms, (key_states, value_states), strict=True)
        )
        self._written = self.keys
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:  # type: ignore[override]
        """Put the tokens of the rows `beam_idx` int64 `[batch]` into the rows, in place where they stand in rooms."""
        length = self.get_seq_length()
        self._copies_beams = beam_idx.device.type != "cpu"
        if self._copies_beams or is_traced() or torch.is_grad_enabled() or not self._fits(length):
            super().reorder_cache(beam_idx)  # type: ignore[arg-type]
            return
        moved = (beam_idx != torch.arange(len(beam_idx))).nonzero().flatten()
        sources = beam_idx[moved]
        common = beam_idx.new_zeros((len(beam_idx),) * 2) if self._common is None else self._common
        if len(moved):
            start = int(common[moved, sources].min())
            for room in self._rooms:
                new = room[:, :, start:length]
                new.index_copy_(0, moved, new.index_select(0, sources))
        self._common = torch.where(beam_idx.unsqueeze(1) == beam_idx, length, common[beam_idx][:, beam_idx])

    def _fits(self, end: int) -> bool:
        if self._written is None or self.keys is not self._written:
            return False
        # What was made in inference mode can be written to there alone.
        readable = torch.is_inference_mode_enabled() or not self._rooms[0].is_inference()
        return readable and end <= self._rooms[0].shape[-2]


def _move(kept: Any, new: torch.Tensor, length: int, size: int) -> torch.Tensor:
    room = new.new_empty(*new.shape[:-2], size, new.shape[-1])
    if length:
        room[..., :length, :] = kept
    return room


def _write(room: torch.Tensor, new: torch.Tensor, start: int, end: int) -> torch.Tensor:
    room[..., start:end, :] = new
    return room[..., :end, :]


def give_room(cache: Cache) -> None:
    """Let the layers of a cache in which nothing stands yet grow by rooms, those of transformers' plain kind."""
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]


__all__ = ["GrowingLayer", "give_room"]
