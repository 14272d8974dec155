"""Where the weights are: in replicas on several devices, or elsewhere until they are needed."""

import pytest
from tests.family.members import variants
from tests.family.placement import replica
from tests.family.spec import Case, assert_close, gradients, predictions, probe_loss


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
