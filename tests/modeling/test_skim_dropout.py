"""Dropout of skim-attention: one pattern for all layers, the same in the kept and the recomputed form."""

import pytest
import torch
from tests.modeling.skim_inputs import HEADS, attention, backward, key_mask, layout, read_layers, reading

from broadsheet.modeling import attention_blocks, skim_attention
from broadsheet.modeling.encoder_layer import split_heads
from broadsheet.modeling.seeded_dropout import keep_mask, keep_scale
from broadsheet.modeling.skim_attention import read_pattern, skim_probabilities

RATE, SEED = 0.3, 20260117
# Elements of a block: one row at a time, a few rows, two documents, everything at once.
BLOCKS = {"row": 1, "rows": HEADS * 11 * 4, "documents": 2 * HEADS * 11 * 11, "all": 1 << 21}


@pytest.fixture(params=BLOCKS.values(), ids=BLOCKS.keys(), autouse=True)
def _block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_blocks, "CPU_BLOCK", request.param)
    monkeypatch.setattr(skim_attention, "draw_seed", lambda: SEED)


def kept_elements(batch: int, length: int) -> torch.Tensor:
    """What the blocks' seeds keep, `[batch, heads, length, length]`, times the scale."""
    kept = torch.full((batch, HEADS, length, length), torch.nan, dtype=torch.float64)
    for block in attention_blocks.row_blocks(torch.empty(batch, HEADS, length, 5)):
        part = block.of(kept)
        part.copy_(keep_mask(tuple(part.shape), RATE, SEED + block.number))
    return kept * keep_scale(RATE)


@pytest.mark.parametrize("form", ["kept", "recomputed"])
@pytest.mark.parametrize("length", [1, 2, 11])
def test_as_plain_autograd_with_the_same_kept_elements(form: str, length: int) -> None:
    mask = key_mask(3, length)
    actual, actual_gradients = backward(reading(form, layout(3, length), mask, attention(form, RATE)))

    run = reading("plain", layout(3, length), mask)  # for the same parameters and values
    run.module.zero_grad()
    query, key = (split_heads(each(run.layout), 5) for each in (run.module.query, run.module.key))
    dropped = skim_probabilities(query, key, mask) * kept_elements(3, length)
    run.outputs = read_layers(skim_attention.SkimPattern(dropped), run.values)
    expected, expected_gradients = backward(run)

    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(actual_gradients, expected_gradients, rtol=1e-9, atol=1e-11)


def test_all_layers_read_one_pattern() -> None:
    values = torch.eye(11, dtype=torch.float64).expand(2, HEADS, 11, 11)
    for form in ("kept", "recomputed"):
        pattern = attention(form, RATE)(layout(2, 11), key_mask(2, 11))
        first, second = read_pattern(pattern, values), read_pattern(pattern, values)
        assert torch.equal(first, second)
        assert (first == 0).any()
        if pattern.probabilities is not None:
            torch.testing.assert_close(first, pattern.probabilities)


@pytest.mark.parametrize("form", ["kept", "recomputed"])
def test_gradcheck(form: str) -> None:
    module, mask = attention(form, RATE), key_mask(2, 4)

    def function(layout: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return read_layers(module(layout, mask), values)

    values = torch.randn(2, HEADS, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    assert torch.autograd.gradcheck(function, (layout(2, 4), values.requires_grad_()))


@pytest.mark.parametrize("form", ["kept", "recomputed"])
def test_document_of_padding_alone(form: str) -> None:
    mask = key_mask(3, 11)
    mask[1] = False
    outputs, gradients = backward(reading(form, layout(3, 11), mask, attention(form, RATE)))
    assert all(value.isfinite().all() for value in [outputs, *gradients.values()])


@pytest.mark.parametrize("form", ["plain", "kept", "recomputed"])
def test_no_dropout_in_evaluation(form: str) -> None:
    module = attention(form, RATE).eval()
    outputs = reading(form, layout(2, 11), None, module).outputs
    torch.testing.assert_close(outputs, reading("plain", layout(2, 11), None).outputs)


def test_gradient_of_some_inputs_leaves_nothing_behind() -> None:
    results = []
    for form in ("recomputed", "kept"):
        run = reading(form, layout(2, 11), key_mask(2, 11), attention(form, RATE))
        loss = run.outputs.sin().sum()
        torch.autograd.grad(loss, run.values, retain_graph=True)
        loss.backward()
        results.append(run.gradients())
    torch.testing.assert_close(results[1], results[0])
