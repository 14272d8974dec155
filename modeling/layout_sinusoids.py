"""LAMBERT's layout embedding: sines and cosines of the four coordinates of a box."""

import torch


def sinusoidal_layout(bbox: torch.Tensor, size: int) -> torch.Tensor:
    """
    For each coordinate t of a box sin(t theta), then cos(t theta), theta a geometric sequence of size/8 factors from 1
    to 500; the four coordinates one after the other.

    Args:
        bbox: float32 (or float64) `[batch, length, 4]`, in units of the page's height. Half precision would err by up
            to 0.94 in sin(500 t).
        size: the size of the embedding, a multiple of 8.

    Returns:
        `[batch, length, size]` in the dtype of `bbox`.
    """
    exponents = torch.linspace(0, 1, size // 8, dtype=bbox.dtype, device=bbox.device)
    angles = bbox.unsqueeze(-1) * 500**exponents
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)
