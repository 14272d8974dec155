"""Where the weights are: in replicas on several devices, or elsewhere until they are needed."""

from dataclasses import replace

import pytest
import torch
from tests.family.members import heads, pyramidion, variants
from tests.family.placement import offloaded, replica
from tests.family.spec import MODEL, Case, assert_close, gradients, predictions, probe_loss


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@variants()
def test_replicas_of_data_parallel(case: Case, backend: str) -> None:
    """`nn.DataParallel`, which Trainer takes on several GPUs without a launcher."""
    if backend not in case.variant.backends:
        pytest.skip(f"this variant has no {backend}")
    case.skip_unless("replicas")
    model = case.model(attn_implementation=backend).train()
    batch = case.batch(model.config)
    results = []
    for each in (model, replica(model)):
        assert (next(each.parameters(), None) is None) == (each is not model)
        model.zero_grad()
        outputs = each(**batch)
        probe_loss(outputs, batch["attention_mask"]).backward()
        results.append((predictions(outputs, batch["attention_mask"]), gradients(model)))
    for actual, expected in zip(results[1], results[0], strict=True):
        assert_close(actual, expected)


def check_offloaded(case: Case) -> None:
    model = case.model()
    batch = case.batch(model.config)
    elsewhere = offloaded(model)
    for with_types in (True, False):
        if not with_types:
            batch.pop("token_type_ids", None)
        with torch.no_grad():
            expected, found = (predictions(each(**batch), batch["attention_mask"]) for each in (model, elsewhere))
        assert_close(found, expected)
        assert all(parameter.is_meta for parameter in elsewhere.parameters())


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@variants()
def test_offloaded_weights(case: Case, backend: str) -> None:
    """accelerate's `cpu_offload` and `device_map`: a weight is on the device only while its module is called."""
    if backend not in case.variant.backends:
        pytest.skip(f"this variant has no {backend}")
    variant = replace(case.variant, config={**case.variant.config, "attn_implementation": backend})
    check_offloaded(replace(case, variant=variant))


@heads(MODEL)
def test_offloaded_weights_of_heads(case: Case) -> None:
    check_offloaded(case)


@pyramidion.variants(*pyramidion.HEADS)
def test_offloaded_weights_of_an_encoder_decoder(case: pyramidion.Case) -> None:
    model, batch = case.model(), case.batch()
    with torch.no_grad():
        expected, found = (pyramidion.results(each(**batch)) for each in (model, offloaded(model)))
    assert_close(found, expected)


@pyramidion.variants(*pyramidion.HEADS)
def test_replicas_of_an_encoder_decoder(case: pyramidion.Case) -> None:
    model, batch = case.model(), case.batch()
    assert_close(pyramidion.results(replica(model)(**batch)), pyramidion.results(model(**batch)))
