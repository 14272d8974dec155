"""Long documents compute most of a layer again in the backward pass: the same values, gradients and dropout."""

import pytest
import torch

from broadsheet.modeling import encoder_layer
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_skimformer import SkimformerForTokenClassification

LENGTH = 23


def model(contextualize: bool = True, dropout: float = 0.0) -> SkimformerForTokenClassification:
    config = SkimformerConfig(
        vocab_size=50,
        hidden_size=24,
        hidden_layout_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_attention_heads_layout_encoder=2,
        skim_attention_head_size=8,
        intermediate_size=40,
        contextualize_layout=contextualize,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=3,
    )
    torch.manual_seed(0)
    return SkimformerForTokenClassification(config).double().train()


def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "input_ids": torch.randint(1, 50, (2, LENGTH), generator=generator),
        "bbox": torch.randint(0, 500, (2, LENGTH, 4), generator=generator).sort(-1).values,
        "attention_mask": torch.tensor([[1] * LENGTH, [1] * 9 + [0] * (LENGTH - 9)]),
        "labels": torch.randint(0, 3, (2, LENGTH), generator=generator),
    }


def run(each: SkimformerForTokenClassification) -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    each.zero_grad()
    outputs = each(**batch())
    outputs.logits.sin().sum().backward()  # the loss itself is computed in float32
    found = {name: parameter.grad.clone() for name, parameter in each.named_parameters() if parameter.grad is not None}
    return {"logits": outputs.logits.detach(), **found}


@pytest.mark.parametrize("part", [1, 7, LENGTH, 100])
def test_same_values_and_gradients(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    each = model()
    expected = run(each)
    monkeypatch.setattr(encoder_layer.EncoderLayer, "recompute_length", LENGTH - 1)
    monkeypatch.setattr(encoder_layer, "RECOMPUTE_PART", part)
    torch.testing.assert_close(run(each), expected)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_backward_draws_the_dropout_of_forward(checkpointing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same draws, a small step along the gradient changes the loss by what the gradient says."""
    monkeypatch.setattr(encoder_layer.EncoderLayer, "recompute_length", 0)
    monkeypatch.setattr(encoder_layer, "RECOMPUTE_PART", 7)
    each = model(dropout=0.3)
    if checkpointing:
        each.activation_checkpointing_enable()
    run(each)
    parameter = each.skimformer.encoder.layer[0].intermediate.dense.weight
    direction, step = parameter.grad.clone(), 1e-5

    def loss(shift: float) -> float:
        with torch.no_grad():
            parameter.add_(direction, alpha=shift)
            torch.manual_seed(2)
            value = each(**batch()).logits.sin().sum().item()
            parameter.sub_(direction, alpha=shift)
        return value

    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(direction.square().sum().item(), rel=1e-4)


def test_less_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    each = model(contextualize=False)

    def kept() -> int:
        sizes = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            held.append(tensor)
            return tensor

        held: list[torch.Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            each(**batch())
        return sum(sizes.values())

    everything = kept()
    monkeypatch.setattr(encoder_layer.EncoderLayer, "recompute_length", 0)
    assert kept() < 0.75 * everything
