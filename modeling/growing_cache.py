"""A cache of keys and values with room behind them, so that writing a token copies no other."""

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from .tracing import is_traced

# Tokens that the first room holds at least.
FIRST_ROOM = 64


class GrowingLayer(DynamicLayer):
    """
    `DynamicLayer`, which copies everything to append a token, with rooms that the tokens are written into; full ones
    are moved to others of twice the size. Equal bit for bit. Where gradients are wanted, in graphs, and for beams,
    whose tokens are all copied when they are reordered, it is `DynamicLayer` itself.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._rooms: tuple[torch.Tensor, ...] = ()
        # What stands in the rooms. Who crops the cache puts other tensors into its place.
        self._written: torch.Tensor | None = None
        self._holds_beams = False

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append `[batch, heads, new, size]`, and return all: `[batch, heads, length, size]`."""
        if self._holds_beams or is_traced() or torch.is_grad_enabled():
            return super().update(key_states, value_states, *args, **kwargs)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
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
        """Put the tokens of the beams `beam_idx` int64 `[batch]` into the rows."""
        self._holds_beams = True
        super().reorder_cache(beam_idx)  # type: ignore[arg-type]

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
