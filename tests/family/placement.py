"""Models whose weights are where other libraries put them."""

import copy
from typing import Any

import torch
from accelerate import cpu_offload
from torch import nn


def replica(model: nn.Module) -> Any:
    """A model as `torch.nn.parallel.replicate` makes it for each device: modules without parameters of their own."""
    modules = list(model.modules())
    copies: list[Any] = [module._replicate_for_data_parallel() for module in modules]
    by_module = dict(zip(modules, copies, strict=True))
    for each in copies:
        each._former_parameters = {}
    for module, each in by_module.items():
        for name, child in module._modules.items():
            each._modules[name] = None if child is None else by_module[child]
        for name, parameter in module._parameters.items():
            each._parameters.pop(name, None)
            if parameter is None:
                each._parameters[name] = None
                continue
            tensor = parameter.view_as(parameter)  # on a device of its own it were a copy
            setattr(each, name, tensor)
            each._former_parameters[name] = tensor
    return by_module[model]


def offloaded(model: nn.Module) -> Any:
    """A copy whose weights lie on the meta device but for the calls of the modules that they belong to."""
    return cpu_offload(copy.deepcopy(model), execution_device=torch.device("cpu"))
