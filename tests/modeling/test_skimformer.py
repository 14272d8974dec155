"""Skimformer's own: sizes, configuration, what the paper fixes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members.skimformer import SKIMFORMER
from tests.family.spec import MODEL, Case, Variant, assert_close

from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_skimformer import SkimformerForMaskedLM, SkimformerModel


def tiny(**config: Any) -> Case:
    return Case(SKIMFORMER, Variant("own", config), MODEL)


@pytest.mark.parametrize(("contextualize", "count"), [(False, 99_275_322), (True, 113_451_066)])
def test_parameters_of_the_papers_size(contextualize: bool, count: int) -> None:
    with torch.device("meta"):
        model = SkimformerForMaskedLM(SkimformerConfig(contextualize_layout=contextualize))
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert model.num_parameters() == count


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"hidden_size": 100}, "hidden_size=100 is no multiple of num_attention_heads=12; change one"),
        (
            {"contextualize_layout": True, "skim_input": "position"},
            'skim_input="position" has no layout to contextualise; set contextualize_layout=False',
        ),
        (
            {"contextualize_layout": True, "hidden_layout_size": 100},
            "hidden_layout_size=100 is no multiple of num_attention_heads_layout_encoder=12; change one",
        ),
        ({"num_attention_heads": 0}, "num_attention_heads=0 is too small; set it to 1 or more"),
        ({"num_attention_heads": -12}, "num_attention_heads=-12 is too small"),
        ({"attention_head_size": 0}, "attention_head_size=0 is too small"),
        (
            {"contextualize_layout": True, "num_attention_heads_layout_encoder": 0},
            "num_attention_heads_layout_encoder=0 is too small",
        ),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob=1.0 is no dropout rate; set it to"),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob=-0.1 is no dropout rate"),
        ({"classifier_dropout": 2}, "classifier_dropout=2 is no dropout rate"),
        ({"skim_input": "boxes"}, "skim_input"),
        ({"num_hidden_layers": "twelve"}, "num_hidden_layers"),
    ],
)
def test_impossible_configs(config: dict[str, Any], says: str) -> None:
    with pytest.raises(Exception, match=says):
        SkimformerConfig(**config)


def test_configs_that_are_possible() -> None:
    assert SkimformerConfig(hidden_size=100, attention_head_size=9).value_head_size == 9
    assert SkimformerConfig().value_head_size == 64
    assert SkimformerConfig(hidden_layout_size=100).contextualize_layout is False
    assert SkimformerConfig(hidden_dropout_prob=0, classifier_dropout=0.5).hidden_dropout_prob == 0


def test_config_json_round_trip(tmp_path: Path) -> None:
    changed = {
        "vocab_size": 77,
        "attention_head_size": 9,
        "skim_input": "degraded",
        "contextualize_layout": True,
        "mask_layout_contextualizer": False,
        "skim_recompute_length": 100,
        "classifier_dropout": 0.25,
        "layer_norm_eps": 1e-5,
        "pad_token_id": None,
        "id2label": {0: "a", 1: "b", 2: "c"},
    }
    config = SkimformerConfig(**changed)
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "skimformer"
    reloaded = SkimformerConfig.from_pretrained(tmp_path)
    assert {name: getattr(reloaded, name) for name in changed} == changed
    assert reloaded.to_dict() == config.to_dict()
    assert SkimformerConfig.from_pretrained(tmp_path, skim_input="uniform").skim_input == "uniform"
    with pytest.raises(Exception, match="no layout to contextualise"):
        SkimformerConfig.from_pretrained(tmp_path, skim_input="position")


def test_eps_reaches_every_norm() -> None:
    model = SkimformerForMaskedLM(tiny(contextualize_layout=True, layer_norm_eps=0.125).config())
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) == 2 + 2 * 2 + 3 * 2 + 1
    assert {norm.eps for norm in norms} == {0.125}


def test_no_padding_token() -> None:
    model = SkimformerModel(tiny(pad_token_id=None).config())
    assert model.text_embeddings.word_embeddings.padding_idx is None


def test_the_attention_is_blind_to_words() -> None:
    """Other words, same boxes: the same attention, other outputs."""
    case = tiny(contextualize_layout=True)
    model = case.model()
    batch = case.batch(model.config)
    first = model(**batch, output_attentions=True)
    batch["input_ids"] = batch["input_ids"].flip(1)
    second = model(**batch, output_attentions=True)
    assert torch.equal(first.attentions[0], second.attentions[0])
    assert not torch.allclose(first.last_hidden_state, second.last_hidden_state)


def test_no_order_but_that_of_the_boxes() -> None:
    """There is no 1-D position: permuting tokens with their boxes permutes the outputs."""
    case = tiny()
    model = case.model()
    batch = case.batch(model.config, (9,))
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    permuted = {name: value[:, order] for name, value in batch.items()}
    assert_close(model(**permuted).last_hidden_state, model(**batch).last_hidden_state[:, order])


def test_uniform_attention_is_one_in_n() -> None:
    case = tiny(skim_input="uniform")
    model = case.model()
    batch = case.batch(model.config, (5, 9))
    attention = model(**batch, output_attentions=True).attentions[0]
    for row, length in enumerate((5, 9)):
        expected = torch.full_like(attention[row, :, :, :length], 1 / length)
        torch.testing.assert_close(attention[row, :, :, :length], expected, rtol=1e-12, atol=0)
        assert (attention[row, :, :, length:] == 0).all()


@pytest.mark.parametrize("skim_input", ["uniform", "position"])
def test_inputs_that_need_no_boxes(skim_input: str) -> None:
    case = tiny(skim_input=skim_input)
    model = case.model()
    batch = case.batch(model.config)
    expected = model(**batch).last_hidden_state
    batch.pop("bbox")
    assert torch.equal(model(**batch).last_hidden_state, expected)


def test_token_types_are_zero_when_omitted() -> None:
    case = tiny()
    model = case.model()
    batch = case.batch(model.config)
    batch["token_type_ids"].zero_()
    expected = model(**batch).last_hidden_state
    batch.pop("token_type_ids")
    assert_close(model(**batch).last_hidden_state, expected)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_recomputed_is_kept_in_the_whole_model(training: bool) -> None:
    """The same outputs and gradients, with the same dropout, on both sides of skim_recompute_length."""
    results = []
    for length in (4, 4096):
        case = tiny(skim_recompute_length=length, attention_probs_dropout_prob=0.2, hidden_dropout_prob=0.1)
        model = case.model().train(training)
        batch = case.batch(model.config)
        torch.manual_seed(3)
        outputs = model(**batch).last_hidden_state
        outputs[batch["attention_mask"].bool()].sin().sum().backward()
        results.append((outputs, {name: parameter.grad for name, parameter in model.named_parameters()}))
    torch.testing.assert_close(results[0], results[1], rtol=1e-8, atol=1e-9)


def test_unmasked_contextualizer_is_the_authors() -> None:
    """`mask_layout_contextualizer=False`: padding [0, 0, 0, 0] is read like a token, as in their implementation."""
    case = tiny(contextualize_layout=True, mask_layout_contextualizer=False)
    model = case.model()
    batch = case.batch(model.config, (6,), pad_to=12)
    padded = model(**batch).last_hidden_state[:, :6]
    with_tokens = model.layout_encoder(model.layout_embeddings(batch["bbox"]), None)
    pattern = model.skim_attention(with_tokens, batch["attention_mask"].bool()[:, None, None])
    states = model.text_embeddings(batch["input_ids"], batch["token_type_ids"], None)
    assert_close(padded, model.encoder(states, *pattern)[:, :6])
    masked = tiny(contextualize_layout=True).model()
    assert not torch.allclose(masked(**batch).last_hidden_state[:, :6], padded)
    alone = case.batch(model.config, (6,))
    assert_close(masked(**alone).last_hidden_state, model(**alone).last_hidden_state)
