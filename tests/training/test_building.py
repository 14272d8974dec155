"""Models that start from checkpoints of another model type, through the training commands."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.conversion.test_lambert import TINY as BERT
from tests.conversion.test_lambert import write_bert
from tests.tokenizers import tiny_tokenizer
from transformers import (
    AutoModelForTokenClassification,
    BertForTokenClassification,
    LongformerConfig,
    LongformerModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForTokenClassification,
)

from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import ModelArguments
from broadsheet.training.building import build, load
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


@pytest.mark.parametrize(
    ("parent", "wanted"),
    [
        (BertForTokenClassification, "lambert"),
        (RobertaForTokenClassification, "lambert"),
        (BertForTokenClassification, "layoutlm"),
        (BertForTokenClassification, "bert_with_skim_embeddings"),
    ],
)
def test_as_many_labels_of_other_names_get_a_new_head(tmp_path, parent, wanted):
    found = parent.config_class.model_type
    tokenizer = tiny_tokenizer("wordpiece" if found == "bert" else "bpe", model_max_length=20)
    sizes = {**BERT, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    numbers = {name: index for index, name in enumerate(NAMES)}
    theirs = parent(parent.config_class(**sizes, id2label=dict(enumerate(NAMES)), label2id=numbers))
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    arguments = ModelArguments(model_name_or_path=str(tmp_path), model_type=wanted)
    kept, _ = build(arguments, TokenClassification(), NAMES, [], None)
    assert torch.equal(kept.classifier.weight, theirs.classifier.weight)
    new, _ = build(arguments, TokenClassification(), ["O", "B-Y", "I-Y"], [], None)
    assert new.config.id2label == {0: "O", 1: "B-Y", 2: "I-Y"}
    assert not torch.isclose(new.classifier.weight, theirs.classifier.weight).any()
    assert 0.01 < new.classifier.weight.std() < 0.03
    assert not new.classifier.bias.any()
    own, before = new.base_model.state_dict(), kept.base_model.state_dict()
    fresh = [name for name in own if not torch.equal(own[name], before[name])]
    assert not [name for name in fresh if "embeddings.word" in name or "encoder." in name]


@pytest.mark.parametrize("fault", ["missing", "cut"])
def test_weights_that_cannot_be_read(bert, tmp_path, fault):
    model, processor = built(bert, model_type="lambert")
    for part in (model, processor):
        part.save_pretrained(tmp_path / "broken")
    weights = tmp_path / "broken" / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    if fault == "cut":
        weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"The weights of .*broken cannot be read \(.*\); save or copy them again"):
        built(tmp_path / "broken")
    with pytest.raises(InputError, match="cannot be read"):
        load(str(tmp_path / "broken"), TokenClassification())


def test_pages_are_stacked_as_asked(bert):
    for wanted, default in (("lambert", "page"), ("long_layoutlm", "stack")):
        assert built(bert, model_type=wanted)[1].page_stacking == default
        for stacking in ("page", "stack"):
            assert built(bert, model_type=wanted, page_stacking=stacking)[1].page_stacking == stacking
    with pytest.raises(InputError, match="A bert_with_skim_embeddings has no page_stacking; leave it out"):
        built(bert, model_type="bert_with_skim_embeddings", page_stacking="page")


def test_one_bert_starts_long_layoutlm_longformer_and_layoutlm(bert):
    parent = AutoModelForTokenClassification.from_pretrained(bert).base_model
    models = {}
    for wanted, overrides in (("long_layoutlm", "attention_window=40"), ("longformer", "attention_window=40"),
                              ("layoutlm", "max_2d_position_embeddings=64")):  # fmt: skip
        arguments = ModelArguments(model_name_or_path=str(bert), model_type=wanted, config_overrides=overrides)
        length = 20 if wanted == "layoutlm" else 33
        models[wanted], processor = build(arguments, TokenClassification(), NAMES, [], None, max_length=length)
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


@pytest.mark.parametrize("wanted", ["long_layoutlm", "longformer", "layoutlm"])
def test_the_tokenizer_names_as_many_tokens_as_the_model_reads(bert, wanted):
    """Whoever loads the model cuts windows of that length, not of the parent's."""
    arguments = ModelArguments(model_name_or_path=str(bert), model_type=wanted)
    length = {"layoutlm": 20}.get(wanted, 33)
    _, processor = build(arguments, TokenClassification(), NAMES, [], None, max_length=length)
    assert processor.tokenizer.model_max_length == length


def test_a_new_long_layoutlm_names_its_length_too():
    arguments = ModelArguments(model_type="long_layoutlm", config_overrides="hidden_size=24,num_hidden_layers=1")
    _, processor = build(arguments, TokenClassification(), NAMES, [["some", "words"]], None, max_length=700)
    assert processor.tokenizer.model_max_length == 700


@pytest.mark.parametrize("wanted", ["bert", "layoutlm"])
def test_windows_beyond_a_baselines_positions_are_refused(bert, wanted):
    arguments = ModelArguments(model_name_or_path=str(bert), model_type=wanted)
    with pytest.raises(InputError, match=r"reads up to 20 tokens; set --max_length, now 40"):
        build(arguments, TokenClassification(), NAMES, [], None, max_length=40)


@pytest.mark.parametrize("wanted", ["long_layoutlm", "longformer", "layoutlm"])
def test_settings_that_change_the_encoders_size_are_refused(bert, wanted):
    with pytest.raises(InputError, match=r"intermediate\.dense"):
        built(bert, model_type=wanted, config_overrides="intermediate_size=64")


@pytest.mark.parametrize("setting", ["intermediate_size=64", "max_position_embeddings=100"])
def test_a_longformers_encoder_keeps_its_size(tmp_path, setting):
    tokenizer = tiny_tokenizer("bpe")
    sizes = {**BERT, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "attention_window": [4, 4]}
    LongformerModel(LongformerConfig(**sizes)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="but the settings make it"):
        built(tmp_path, model_type="long_layoutlm", config_overrides=setting)


def test_a_bert_without_all_weights_starts_no_baseline(bert):
    weights = load_file(bert / "model.safetensors")
    name = next(name for name in weights if "layer.0.attention.self.query.weight" in name)
    save_file({other: value for other, value in weights.items() if other != name}, bert / "model.safetensors")
    for wanted in ("layoutlm", "longformer", "long_layoutlm"):
        with pytest.raises(InputError, match=r"lacks? .*layer\.0\.attention\.self\.query\.weight"):
            built(bert, model_type=wanted)


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
