from pathlib import Path
from typing import Any

import pytest
import torch
from tests.hub.models import DOCUMENT, TYPES, heads, tiny

from broadsheet.lora import lora_config
from broadsheet.tokenization.input_checks import InputError

peft = pytest.importorskip("peft", reason="PEFT is an optional extra")
CHOSEN = ("ForTokenClassification", "ForSequenceClassification", "ForConditionalGeneration")
HEADS = [(name, head) for name in TYPES for head in heads(name).values() if head in CHOSEN]


def labelled(head: str, batch: Any, model: Any) -> dict[str, Any]:
    """The batch with labels of the head."""
    if head == "ForQuestionAnswering":
        one = torch.ones(len(batch["input_ids"]), dtype=torch.long)
        return {**batch, "start_positions": one, "end_positions": one}
    if head == "ForSequenceClassification":
        return {**batch, "labels": torch.zeros(len(batch["input_ids"]), dtype=torch.long)}
    return {**batch, "labels": batch["input_ids"] % (3 if head == "ForTokenClassification" else 60)}


@pytest.mark.parametrize(("model_type", "head"), HEADS)
def test_trained_and_merged(model_type: str, head: str, tmp_path: Path) -> None:
    model, processor = tiny(model_type, head)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs = labelled(head, processor(**DOCUMENT, return_tensors="pt"), model)
    names = [name for name, _ in model.named_parameters()]
    adapted = peft.get_peft_model(model, lora_config(model, r=2, init_lora_weights=False))
    trained = {name for name, value in adapted.named_parameters() if value.requires_grad}
    assert any("lora_" in name for name in trained)
    optimizer = torch.optim.SGD([value for value in adapted.parameters() if value.requires_grad], lr=0.01)
    adapted.eval()
    for _ in range(2):
        optimizer.zero_grad()
        adapted(**inputs).loss.backward()
        optimizer.step()
    parameters = dict(adapted.named_parameters())
    unused = [name for name in trained if parameters[name].grad is None or not parameters[name].grad.any()]
    if model_type.startswith("long_"):
        # A document's label is read from the first token, a global one, whose projections alone count in the last
        # layer; words are labelled without global tokens.
        of_document = head == "ForSequenceClassification"
        odd = [name for name in unused if ("_global" in name) is of_document]
        assert all(".layer.2." in name for name in unused if of_document)
        unused = odd
    assert not unused
    with torch.no_grad():
        expected = adapted(**inputs)[1]
    merged = adapted.merge_and_unload()
    assert type(merged) is type(tiny(model_type, head)[0])
    assert [name for name, _ in merged.named_parameters()] == names
    changed = {name for name, value in merged.state_dict().items() if not torch.equal(value, before[name])}
    assert any(name.endswith(("query.weight", "value.weight")) for name in changed)
    merged.save_pretrained(tmp_path)
    again = type(merged).from_pretrained(tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs)[1], expected, rtol=1e-4, atol=1e-4)


def test_other_models_are_refused() -> None:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    with pytest.raises(InputError, match="no LoRA targets for a 'bert'"):
        lora_config(BertModel(BertConfig(**sizes, vocab_size=10)))
