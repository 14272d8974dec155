import json

import numpy as np
import pytest
import torch
from datasets import Dataset

from broadsheet.training.arguments import DataArguments, FamilyTrainingArguments, ModelArguments, RunArguments, parse
from broadsheet.training.class_weights import WeightedLoss, balanced_weights
from broadsheet.training.finetune import finetune

KINDS = [RunArguments, DataArguments, ModelArguments, FamilyTrainingArguments]
TINY = "hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=32,layout_init=normal"


def test_weights_are_inverse_shares():
    windows = Dataset.from_dict({"labels": [[0, 0, 0, -100, 2], [0, 0, 0]]})
    weights = balanced_weights(windows, 4)
    assert weights.tolist() == pytest.approx([7 / (2 * 6), 1, 7 / 2, 1])
    shares = np.array([6, 0, 1, 0]) / 7
    assert float((weights.numpy() * shares).sum()) == pytest.approx(1)
    assert balanced_weights(Dataset.from_dict({"labels": [0, 0, 1]}), 2).tolist() == pytest.approx([0.75, 1.5])


def test_accumulated_batches_add_up():
    """Two batches with the count of both are one large batch; equal weights are the plain loss."""
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 9, 3), torch.randint(3, (6, 9))
    labels[:, 4:] = -100
    labels[0, 1:] = -100
    loss = WeightedLoss(torch.tensor([0.5, 1.0, 4.0]))
    count = (labels >= 0).sum()
    whole = loss({"logits": logits}, labels, count)
    parts = [loss({"logits": logits[part]}, labels[part], count) for part in (slice(2), slice(2, 6))]
    assert torch.allclose(whole, sum(parts))
    assert torch.allclose(whole, loss({"logits": logits}, labels))
    plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert torch.allclose(WeightedLoss(torch.ones(3))({"logits": logits}, labels), plain)
    assert not torch.allclose(whole, plain)


@pytest.mark.parametrize("pattern", ["distance", "sliding_window_random", "distance_sliding_window"])
def test_finetune_a_long_layoutlm(arguments, tmp_path, pattern):
    """Neighbours are made with the windows, tables in the collator; weights go into the loss and the record."""
    overrides = f"{TINY},attention_pattern={pattern},num_neighbors=8,attention_window=8,random_block_size=4"
    flags = arguments(model_type="long_layoutlm", config_overrides=overrides, class_weights="train", max_length=128)
    results = finetune(*parse(KINDS, flags, "program", "text"))
    assert results["budget"]["class_weights"] == "train"
    assert results["metrics"]["test"]["documents"] == 3
    saved = json.loads((tmp_path / "out" / "processor_config.json").read_text())
    assert saved["attention_pattern"] == pattern
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["max_position_embeddings"] == 128
    flags = arguments(model_type="long_layoutlm", config_overrides=overrides, max_length=128, overwrite=True)
    assert finetune(*parse(KINDS, flags, "program", "text"))["budget"]["training_loss"] != pytest.approx(
        results["budget"]["training_loss"]
    )
