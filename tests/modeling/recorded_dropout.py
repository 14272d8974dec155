"""Which random numbers dropout takes."""

import pytest
import torch

from broadsheet.modeling import sparse_attention


def record_dropout(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, ...]]:
    """From here on, for each use of dropout in sparse attention what its seed draws."""
    drawn: list[tuple[float, ...]] = []
    drop = sparse_attention.drop

    def record(values: torch.Tensor, rate: float, seed: int) -> torch.Tensor:
        drawn.append(tuple(drop(torch.ones(64), rate, seed).tolist()))
        return drop(values, rate, seed)

    monkeypatch.setattr(sparse_attention, "drop", record)
    return drawn
