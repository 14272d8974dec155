"""Learning rates of their own for parts of a model: what a warm start adds has more to learn than what it brings."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from broadsheet.tokenization.input_checks import InputError


def check_learning_rates(rates: Mapping[str, Any], model: nn.Module) -> dict[str, float]:
    """
    The rates, each of the parameters whose names contain its key.

    Raises:
        InputError: a rate that is no number above 0, or a key that no parameter's name contains, or two do.
    """
    names = [name for name, _ in model.named_parameters()]
    for part, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or rate <= 0:
            raise InputError(f"learning_rates gives {part} the rate {rate!r}; it is a number above 0.")
        if not any(part in name for name in names):
            raise InputError(
                f"learning_rates names {part!r}, which is in no parameter's name; see named_parameters()."
            )
    for name in names:
        found = [part for part in rates if part in name]
        if len(found) > 1:
            raise InputError(f"learning_rates gives {name} two rates, by {found[0]!r} and {found[1]!r}; keep one.")
    return {part: float(rate) for part, rate in rates.items()}


def set_learning_rates(optimizer: torch.optim.Optimizer, model: nn.Module, rates: Mapping[str, float]) -> None:
    """Split the groups of a new optimizer, so that the named parts have their rates; all else stays as it is."""
    rate_of = {
        parameter: rate for part, rate in rates.items() for name, parameter in model.named_parameters() if part in name
    }
    groups = list(optimizer.param_groups)
    optimizer.param_groups.clear()
    for group in groups:
        parts: dict[float, list[Any]] = {}
        for parameter in group["params"]:
            parts.setdefault(rate_of.get(parameter, group["lr"]), []).append(parameter)
        for rate, parameters in parts.items():
            optimizer.add_param_group({**group, "params": parameters, "lr": rate})
