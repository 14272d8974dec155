"""Checks that several configurations make of their fields."""

from typing import Any

from transformers.activations import ACT2FN


def check_least(config: Any, **least: int) -> None:
    """Raise ValueError where a field of the config is smaller than the least value given for it."""
    for name, value in least.items():
        if getattr(config, name) < value:
            raise ValueError(f"{name}={getattr(config, name)} is too small; set it to {value} or more.")


def check_activations(config: Any, *names: str) -> None:
    """Raise ValueError where one of these fields of the config names no activation."""
    for name in names:
        if getattr(config, name) not in ACT2FN:
            raise ValueError(
                f"{name}={getattr(config, name)!r} is no activation; set it to one of transformers.activations.ACT2FN "
                "(gelu, relu, ...)."
            )
