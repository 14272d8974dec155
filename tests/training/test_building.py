"""Models that start from checkpoints of another model type, through the training commands."""

import json

import pytest
import torch
from tests.conversion.test_lambert import TINY as BERT
from tests.conversion.test_lambert import write_bert
from tests.tokenizers import tiny_tokenizer
from transformers import AutoModelForTokenClassification, RobertaConfig, RobertaForMaskedLM

from broadsheet.training.arguments import ModelArguments
from broadsheet.training.building import build
from broadsheet.training.finetune import main
from broadsheet.training.tasks import TokenClassification

NAMES = ["O", "B-X", "I-X"]


def built(folder, **options):
    arguments = ModelArguments(model_name_or_path=str(folder), **options)
    return build(arguments, TokenClassification(), NAMES, [], None)


@pytest.fixture
def bert(tmp_path):
    write_bert(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def roberta(tmp_path):
    tokenizer = tiny_tokenizer("bpe", model_max_length=20)
    config = RobertaConfig(**{**BERT, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id})
    RobertaForMaskedLM(config).save_pretrained(tmp_path / "roberta")
    tokenizer.save_pretrained(tmp_path / "roberta")
    return tmp_path / "roberta"


def test_lambert_from_bert_and_roberta(bert, roberta):
    for folder in (bert, roberta):
        model, processor = built(folder, model_type="lambert", config_overrides="relative_bias=log_buckets")
        assert type(model).__name__ == "LambertForTokenClassification"
        assert model.config.relative_bias == "log_buckets"
        assert list(model.config.id2label.values()) == NAMES
        assert type(processor).__name__ == "LambertProcessor"
        assert processor.id2label == dict(enumerate(NAMES))
        parent = AutoModelForTokenClassification.from_pretrained(folder)
        for name, value in parent.base_model.encoder.named_parameters():
            assert torch.equal(model.lambert.encoder.get_parameter(name), value)


def test_one_bert_starts_long_layoutlm_longformer_and_layoutlm(bert):
    parent = AutoModelForTokenClassification.from_pretrained(bert).base_model
    models = {}
    for wanted, overrides in (("long_layoutlm", "attention_window=40"), ("longformer", "attention_window=40"),
                              ("layoutlm", "max_2d_position_embeddings=64")):  # fmt: skip
        arguments = ModelArguments(model_name_or_path=str(bert), model_type=wanted, config_overrides=overrides)
        models[wanted], processor = build(arguments, TokenClassification(), NAMES, [], None, max_length=33)
        assert processor.id2label == dict(enumerate(NAMES))
        assert list(models[wanted].config.id2label.values()) == NAMES
        for name, value in parent.encoder.named_parameters():
            assert torch.equal(models[wanted].base_model.encoder.get_parameter(name), value), (wanted, name)
    inputs = {"input_ids": torch.randint(5, parent.config.vocab_size, (1, 20))}
    boxes = torch.zeros(1, 20, 4, dtype=torch.long)
    with torch.no_grad():
        wanted = parent.eval()(**inputs).last_hidden_state
        longformer = models["longformer"].base_model.eval()(**inputs).last_hidden_state
        ours = models["long_layoutlm"].base_model.eval()(**inputs, bbox=boxes).last_hidden_state
        layoutlm = models["layoutlm"].base_model.eval()(**inputs, bbox=boxes + 7).last_hidden_state
    assert torch.allclose(longformer, wanted, atol=1e-5)
    assert torch.allclose(ours, wanted, atol=1e-5)
    assert torch.allclose(layoutlm, wanted, atol=1e-5)
    assert models["longformer"].config.max_position_embeddings == 34
    assert models["long_layoutlm"].config.max_position_embeddings == 33


def test_a_baseline_started_from_bert_is_saved_by_its_own_names(bert, tmp_path):
    model, _ = built(bert, model_type="layoutlm")
    model.save_pretrained(tmp_path / "saved")
    loaded, report = type(model).from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not report["missing_keys"]
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)


def test_a_baseline_without_a_processor(bert):
    model, processor = built(bert)
    assert type(model).__name__ == "BertForTokenClassification"
    assert type(processor).__name__ == "TextProcessor"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model_type": "skimming_mask"},
            r"SkimmingMask is made of two checkpoints, and .*bert is one; build it with",
        ),
        (
            {"model_type": "skimformer"},
            r"bert is a bert model, not a skimformer, and cannot become one; .*starts anew",
        ),
        ({"model_type": "roberta"}, r"bert is a bert model, not a roberta, and cannot become one"),
        ({"model_type": "lambda"}, r"no model type 'lambda'; choose one of .*lambert"),
        ({"model_type": "lambert", "config_overrides": "bias=1"}, r"configuration of lambert has no setting 'bias'"),
        (
            {"model_type": "lambert", "config_overrides": "relative_bias=t5"},
            r"LAMBERT can start from: .*relative_bias",
        ),
        ({"config_overrides": "hidden_size=4"}, r"config_overrides are for a new model or type; a checkpoint brings"),
    ],
)
def test_refused(bert, options, message):
    with pytest.raises(ValueError, match=message):
        built(bert, **options)


def test_a_roberta_becomes_no_bert_with_skim_embeddings(roberta):
    with pytest.raises(ValueError, match=r"a bert_with_skim_embeddings starts from bert too"):
        built(roberta, model_type="bert_with_skim_embeddings")


def test_finetune_starts_a_lambert_from_a_bert(arguments, bert, tmp_path):
    flags = arguments(
        model_name_or_path=bert, model_type="lambert", config_overrides="use_horizontal_bias=false", max_length=20,
        stride=4, max_steps=1,
    )  # fmt: skip
    main(flags)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["model_type"] == "lambert"
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out")
    assert model.lambert.relative_bias.horizontal is None
    assert model.lambert.embeddings.layout_adapter.weight.any()
