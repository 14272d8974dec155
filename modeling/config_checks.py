"""Checks that several configurations make of their fields."""

from typing import Any


def check_least(config: Any, **least: int) -> None:
    """Raise ValueError where a field of the config is smaller than the least value given for it."""
    for name, value in least.items():
        if getattr(config, name) < value:
            raise ValueError(f"{name}={getattr(config, name)} is too small; set it to {value} or more.")
