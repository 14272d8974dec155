"""Half precision: autocast, and whole models in half."""

import pytest
import torch
from tests.family.members import variant_heads, variants
from tests.family.spec import MODEL, Case, gradients, predictions, probe_loss

# bfloat16 has eight bits of mantissa: outputs of a few layers are off by a few of its steps, on average.
TOLERANCE = 6 * torch.finfo(torch.bfloat16).eps


def assert_near(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> None:
    """Off by little on average, relative to the mean size of what is compared."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].isfinite().all(), name
        error = (actual[name].double() - value.double()).abs().mean()
        assert error <= tolerance * value.double().abs().mean(), name


@variant_heads()
def test_bf16_autocast(case: Case) -> None:
    results = []
    for autocast in (False, True):
        model = case.model(torch.float32)
        batch = case.labelled_batch(model.config)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            outputs = model(**batch)
            loss = probe_loss(outputs, batch["attention_mask"])
        loss.backward()
        if case.head != MODEL:
            assert outputs.loss.isfinite()
        results.append((predictions(outputs, batch["attention_mask"]), gradients(model)))
    assert_near(results[1][0], results[0][0], TOLERANCE)
    all_gradients = [torch.cat([value.flatten() for value in gradient.values()]) for _, gradient in results]
    assert_near({"gradients": all_gradients[1]}, {"gradients": all_gradients[0]}, 4 * TOLERANCE)
    assert {gradient.dtype for gradient in results[1][1].values()} == {torch.float32}


@variants()
def test_bf16_autocast_with_dropout(case: Case) -> None:
    model = case.model(torch.float32, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).train()
    batch = case.batch(model.config)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**batch)
    probe_loss(outputs, batch["attention_mask"]).backward()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@variant_heads()
def test_model_in_half(case: Case, dtype: torch.dtype, backend: str) -> None:
    """In half precision near the same rounded weights in float32: layout arithmetic loses nothing more."""
    model = case.model(dtype, attn_implementation=backend)
    batch = case.labelled_batch(model.config)
    outputs = model(**batch)
    if case.head != MODEL:
        assert outputs.loss.isfinite()
    probe_loss(outputs, batch["attention_mask"]).backward()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
    half = predictions(outputs, batch["attention_mask"])
    assert {value.dtype for value in half.values()} == {dtype}
    exact = predictions(model.float()(**batch), batch["attention_mask"])
    assert_near(half, exact, TOLERANCE)


@variants()
def test_layout_survives_a_cast_batch(case: Case) -> None:
    """`BatchEncoding.to(dtype)` casts no layout that the model needs exact; int boxes stay int."""
    model = case.model(torch.bfloat16)
    batch = case.batch(model.config)
    expected = model(**batch).last_hidden_state
    cast = {name: value.to(torch.bfloat16) if value.is_floating_point() else value for name, value in batch.items()}
    if all(cast[name] is batch[name] for name in batch):
        return
    with pytest.raises(ValueError, match="float32"):
        assert torch.equal(model(**cast).last_hidden_state, expected)
