import numpy as np
import pytest
import torch
from tests.tokenizers import tiny_tokenizer
from torch import nn

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.masking import MaskedLMCollator
from broadsheet.training.arguments import ModelArguments
from broadsheet.training.baselines import TRAINABLE, position_settings
from broadsheet.training.building import build
from broadsheet.training.masked_lm import MaskedLM, language_modeling_head, logits_where, measure
from broadsheet.training.pretraining_arguments import CorpusArguments

SIZES = "hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=32,"
SIZES += "hidden_dropout_prob=0.0,attention_probs_dropout_prob=0.0"
OWN = {
    "skimformer": ",hidden_layout_size=16,skim_attention_head_size=8",
    "long_skimformer": ",hidden_layout_size=16,skim_attention_head_size=8,attention_window=8",
    "longformer": ",attention_window=8",
    "big_bird": ",block_size=4,num_random_blocks=1",
}
MODELS = ["skimformer", "long_skimformer", "bert", "roberta", "layoutlm", "longformer", "big_bird"]
LENGTH = 64


def make(model_type, tmp_path, kind="wordpiece"):
    tiny_tokenizer(kind).save_pretrained(tmp_path / "tokenizer")
    arguments = ModelArguments(
        model_type=model_type,
        tokenizer_name=str(tmp_path / "tokenizer"),
        config_overrides=SIZES + OWN.get(model_type, ""),
    )
    torch.manual_seed(0)
    return build(arguments, MaskedLM, [], [], None, LENGTH)


def batch_for(network, processor, count=4):
    texts = [["Invoice", "number", "payable", "within", "thirty", "days"] * (8 - 2 * row) for row in range(count)]
    boxes = [[[10 * i % 900, 20, 10 * i % 900 + 40, 40] for i in range(len(text))] for text in texts]
    windows = processor(text=texts, boxes=boxes, truncation=True, max_length=LENGTH)
    features = [{key: windows[key][row] for key in windows} for row in range(count)]
    return MaskedLMCollator(processor)(features)


@pytest.mark.parametrize("model_type", MODELS)
def test_loss_and_gradients_equal_those_of_full_logits(model_type, tmp_path):
    network, processor = make(model_type, tmp_path)
    # Full windows: BigBird's sparse attention is drawn at random in training, so this compares in evaluation mode.
    network.eval()
    batch = batch_for(network, processor)
    assert batch["input_ids"].shape[1] > 40
    labels = batch.pop("labels")
    full = network(**batch).logits
    expected = nn.functional.cross_entropy(full.flatten(0, 1), labels.flatten(), ignore_index=-100)
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    network.zero_grad(set_to_none=True)
    with logits_where(language_modeling_head(network), labels != -100):
        logits = network(**batch).logits
    assert logits.shape == ((labels != -100).sum(), network.config.vocab_size)
    loss = nn.functional.cross_entropy(logits, labels[labels != -100])
    loss.backward()
    torch.testing.assert_close(loss, expected)
    for name, parameter in network.named_parameters():
        if gradients[name] is None:
            assert parameter.grad is None, name
        else:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-6, rtol=1e-4, msg=name)
    # The hook is gone.
    assert network(**batch).logits.shape == full.shape


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
@pytest.mark.parametrize("model_type", MODELS)
def test_every_model_reads_windows_of_the_full_length(model_type, kind, tmp_path):
    network, processor = make(model_type, tmp_path, kind)
    batch = batch_for(network, processor)
    assert ("bbox" in batch) == (model_type in ("skimformer", "long_skimformer", "layoutlm"))
    batch.pop("labels")
    batch = {key: value.repeat(1, LENGTH, *[1] * (value.ndim - 2))[:, :LENGTH] for key, value in batch.items()}
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    batch["input_ids"] = batch["input_ids"].masked_fill(batch["input_ids"] == processor.tokenizer.pad_token_id, 30)
    with torch.no_grad():
        logits = network.eval()(**batch).logits
    assert logits.shape == (4, LENGTH, len(processor.tokenizer))
    assert torch.isfinite(logits).all()


def test_padding_changes_no_prediction_of_models_that_count_positions_after_it(tmp_path):
    for model_type in ("roberta", "longformer"):
        network, processor = make(model_type, tmp_path)
        assert network.config.max_position_embeddings == LENGTH + processor.tokenizer.pad_token_id + 1
        batch = batch_for(network.eval(), processor)
        batch.pop("labels")
        length = int(batch["attention_mask"][3].sum())
        with torch.no_grad():
            padded = network(**batch).logits[3, :length]
            alone = network(**{key: value[3:, :length] for key, value in batch.items()}).logits[0]
        torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-4)


def test_position_settings():
    assert position_settings("bert", 128, 0) == {"max_position_embeddings": 128}
    assert position_settings("roberta", 128, 1) == {"max_position_embeddings": 130}
    assert position_settings("skimformer", 128, 0) == {}
    assert set(MODELS) <= set(TRAINABLE)


def test_measure_weighs_by_the_token():
    metrics = measure(np.array([6.0, 0.0, 1.0]), np.array([3, 0, 1]))
    assert metrics["loss"] == pytest.approx(7 / 4)
    assert metrics["perplexity"] == pytest.approx(np.exp(7 / 4))


def test_a_model_without_a_head():
    with pytest.raises(InputError, match="Linear has no masked LM head"):
        language_modeling_head(nn.Linear(1, 1))


def test_defaults_are_the_papers():
    assert CorpusArguments().max_length == 512
    assert CorpusArguments().stride == 0
