"""Inputs for the tests of skim-attention: a module in one of its forms, and layers that read its pattern."""

from dataclasses import dataclass, field

import torch

from broadsheet.modeling.skim_attention import SkimAttention, SkimPattern, read_pattern

FORMS = ("plain", "kept", "settled", "recomputed")
LAYOUT, HEADS, HEAD_SIZE, VALUE_SIZE = 6, 2, 5, 3


def attention(form: str, dropout: float = 0.0) -> SkimAttention:
    """A module in training mode whose inputs take the form; the same parameters each time."""
    torch.manual_seed(7)
    recompute_length = 0 if form == "recomputed" else 1 << 20
    module = SkimAttention(LAYOUT, HEADS, HEAD_SIZE, dropout, recompute_length).double()
    if form == "settled":  # kept, and two of the five layers settle together, twice
        module.settle_length, module.settle_every = 0, 2
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def layout(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Layout embeddings `[batch, length, LAYOUT]` that want a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, LAYOUT, dtype=torch.float64, generator=generator).requires_grad_()


def key_mask(batch: int, length: int) -> torch.Tensor:
    """bool `[batch, 1, 1, length]`: documents of different lengths, at least one token each."""
    lengths = torch.tensor([max(1, length - 4 * row) for row in range(batch)])
    return (torch.arange(length) < lengths[:, None])[:, None, None, :]


def read_layers(pattern: SkimPattern, values: torch.Tensor, layers: list[torch.Tensor] | None = None) -> torch.Tensor:
    """Five layers, each reading what the layer before it made."""
    for index in range(5):
        values = read_pattern(pattern, torch.tanh(values / (index + 1)).to(values.dtype)) + values
        if layers is not None:
            layers.append(values)
    return values


@dataclass
class Reading:
    """A forward pass, with what gradients are wanted of."""

    module: SkimAttention
    layout: torch.Tensor
    values: torch.Tensor
    pattern: SkimPattern
    outputs: torch.Tensor
    layers: list[torch.Tensor] = field(default_factory=list)

    def gradients(self) -> dict[str, torch.Tensor]:
        """All gradients there are."""
        found = {"layout": self.layout.grad, "values": self.values.grad}
        found |= {name: parameter.grad for name, parameter in self.module.named_parameters()}
        return {name: gradient.clone() for name, gradient in found.items() if gradient is not None}


def reading(
    form: str,
    layout: torch.Tensor,
    mask: torch.Tensor | None,
    module: SkimAttention | None = None,
    dtype: torch.dtype = torch.float64,
    wants: str = "all",
) -> Reading:
    """A forward pass through five layers; `wants` names what needs a gradient: all, layout, values or parameters."""
    module = (attention(form) if module is None else module).to(dtype)
    layout = layout.detach().to(dtype).requires_grad_(wants in ("all", "layout"))
    module.requires_grad_(wants in ("all", "parameters"))
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(len(layout), HEADS, layout.shape[1], VALUE_SIZE, dtype=torch.float64, generator=generator)
    values = values.to(dtype).requires_grad_(wants in ("all", "values"))
    pattern, layers = module(layout, mask, plain=form == "plain"), list[torch.Tensor]()
    return Reading(module, layout, values, pattern, read_layers(pattern, values, layers), layers)


def backward(run: Reading) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The outputs of a forward pass, and the gradients of a scalar that depends on each of them."""
    weights = torch.sin(torch.arange(run.outputs.numel(), dtype=torch.float64)).view(run.outputs.shape)
    (run.outputs * weights).sum().backward()
    return run.outputs.detach(), run.gradients()
