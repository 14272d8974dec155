"""Training in several processes: DistributedDataParallel waits for the gradient of every parameter."""

from collections.abc import Iterator

import pytest
import torch
from tests.family.members import pyramidion, variant_heads
from tests.family.members.long_layoutlm import LONG_LAYOUTLM
from tests.family.spec import MODEL, TOKENS, Case
from torch.nn.parallel import DistributedDataParallel


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def train(model: torch.nn.Module, batch: dict[str, torch.Tensor], checkpointing: bool) -> None:
    """Two steps; under gradient checkpointing Trainer does not let DDP look for unused parameters."""
    if checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    wrapped = DistributedDataParallel(model.train(), find_unused_parameters=False)
    for _ in range(2):
        wrapped(**batch).loss.backward()
    missing = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    assert missing == []


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "checkpointed"])
@variant_heads(MODEL)
def test_every_parameter_has_a_gradient(case: Case, checkpointing: bool) -> None:
    config = case.config()
    batches = [case.labelled_batch(config)]
    if "global_attention_mask" in batches[0]:  # a batch may have no global token
        batches.append({**batches[0], "global_attention_mask": torch.zeros_like(batches[0]["attention_mask"])})
    for batch in batches:
        train(case.model(), batch, checkpointing)


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "checkpointed"])
@pyramidion.variants(*(head for head in pyramidion.HEADS if head != MODEL))
def test_every_parameter_of_an_encoder_decoder_has_a_gradient(case: pyramidion.Case, checkpointing: bool) -> None:
    train(case.model(), case.batch(), checkpointing)


def test_in_one_process_the_projections_of_global_tokens_rest() -> None:
    """An optimiser would decay them."""
    torch.distributed.destroy_process_group()
    case = Case(LONG_LAYOUTLM, LONG_LAYOUTLM.variants[0], TOKENS)
    batch = case.labelled_batch(case.config())
    del batch["global_attention_mask"]
    model = case.model().train()
    model(**batch).loss.backward()
    resting = [name for name, each in model.named_parameters() if each.grad is None]
    assert resting
    assert all("_global." in name for name in resting)
