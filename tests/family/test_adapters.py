"""Low-rank adapters of PEFT on every linear layer."""

import pytest
import torch
from tests.family.members import variants
from tests.family.spec import Case, assert_close, predictions

peft = pytest.importorskip("peft", reason="PEFT is an optional extra")


@variants()
def test_merged_adapters_give_what_they_gave_before(case: Case) -> None:
    """A layer whose weight is read in place of a call would leave its adapter out."""
    model = case.model()
    batch = case.batch(model.config)
    bare = predictions(model(**batch), batch["attention_mask"])
    layers = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=layers, init_lora_weights=False)).double()
    before = predictions(adapted.eval()(**batch), batch["attention_mask"])
    assert any(not torch.allclose(before[name], bare[name]) for name in bare)
    after = predictions(adapted.merge_and_unload()(**batch), batch["attention_mask"])
    assert_close(after, before, 1e-12)
