import pytest
import torch
from tests.family.members.formnet import FORMNET
from tests.family.spec import MASKED_LM, MODEL, TOKENS, Case, assert_close

from broadsheet.modeling import encoder_layer
from broadsheet.modeling.configuration_formnet import FormNetConfig
from broadsheet.modeling.modeling_formnet import FormNetForMaskedLM, FormNetForTokenClassification

# Counted by hand below; millions in the paper: A1 131, A2 217, A3 345, A1 without GCN 104.
PARAMETERS = {"A1": 115.5, "A2": 213.7, "A3": 338.9}


def millions(model):
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


@pytest.mark.parametrize("name", PARAMETERS)
def test_presets(name):
    config = FormNetConfig.from_preset(name)
    size, layers = config.hidden_size, 12
    etc = layers * (4 * size**2 + 8 * size**2)
    gcn = layers * 5 * size**2 + 2 * size**2
    by_hand = (config.vocab_size * size + etc + gcn) / 1e6
    with torch.device("meta"):
        count = millions(FormNetForTokenClassification(config))
    assert count == pytest.approx(by_hand, rel=0.01)
    assert count == pytest.approx(PARAMETERS[name], abs=0.1)


@pytest.mark.parametrize(("name", "count"), [("A1", 99.1), ("A2", 176.9)])
def test_sizes_of_table_3(name, count):
    """ETC and the wider ETC, with Rich Attention alone: 104 and 187 million in the paper."""
    with torch.device("meta"):
        model = FormNetForTokenClassification(FormNetConfig.from_preset(name, use_super_tokens=False))
    assert millions(model) == pytest.approx(count, abs=0.1)


def test_a_preset_takes_settings_and_others_are_refused():
    config = FormNetConfig.from_preset("A2", num_hidden_layers=3, vocab_size=50)
    assert (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) == (768, 12, 3)
    with pytest.raises(ValueError, match="no FormNet 'A4'; choose one of A1, A2, A3"):
        FormNetConfig.from_preset("A4")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"hidden_size": 30, "num_attention_heads": 4}, "no multiple of num_attention_heads"),
        ({"num_attention_heads": 0}, "num_attention_heads=0 is too small; set it to 1 or more"),
        ({"num_attention_heads": -8}, "num_attention_heads=-8 is too small"),
        ({"local_radius": 0}, "local_radius=0 is too small"),
        ({"num_global_tokens": 0}, "num_global_tokens=0 is too small"),
        ({"relative_position_clip": -1}, "relative_position_clip=-1 is too small"),
        ({"use_sequence_axis": True, "use_rich_attention": False}, "set use_rich_attention=True"),
        ({"hidden_dropout_prob": 1.0}, "no dropout rate"),
    ],
)
def test_impossible_configurations(settings, says):
    with pytest.raises(Exception, match=says):
        FormNetConfig(**settings)


@pytest.mark.parametrize("variant", FORMNET.variants, ids=lambda variant: variant.name)
def test_long_documents(variant):
    """1,100 tokens and more: layers and convolutions are made again in the backward pass, by parts."""
    case = Case(FORMNET, variant, MODEL)
    results = []
    for backend in ("eager", "sdpa"):
        model = case.model(attn_implementation=backend)
        output = model(**case.batch(model.config, (1100, 30))).last_hidden_state
        output[0].square().mean().backward()
        results.append((output.detach(), {name: each.grad for name, each in model.named_parameters()}))
    assert_close(results[0][0][0], results[1][0][0])
    for name, gradient in results[0][1].items():
        if gradient is not None:
            assert_close(gradient, results[1][1][name])


@pytest.mark.parametrize(("length", "recomputed"), [(12, False), (13, True)])
def test_global_tokens_do_not_count_as_length(length, recomputed, monkeypatch):
    monkeypatch.setattr(encoder_layer.EncoderLayer, "recompute_length", 12)
    parts = []
    monkeypatch.setattr(encoder_layer, "checkpoint", lambda layer, *part, **_: parts.append(part) or layer(*part))
    model = Case(FORMNET, FORMNET.variants[0], MODEL).model(num_global_tokens=3)
    model(**Case(FORMNET, FORMNET.variants[0], MODEL).batch(model.config, (length,)))
    assert bool(parts) == recomputed


def test_four_thousand_tokens():
    case = Case(FORMNET, FORMNET.variants[0], MASKED_LM)
    model = case.model(torch.float32, local_radius=84)
    batch = case.labelled_batch(model.config, (4096,))
    outputs = model(**batch)
    outputs.loss.backward()
    assert outputs.loss.isfinite()


def test_without_positions_the_order_of_the_sequence_is_unknown():
    """`relative_position_clip=0` leaves ETC alone without any position."""
    case = Case(FORMNET, FORMNET.variants[3], MODEL)
    for clip, same in ((0, True), (3, False)):
        model = case.model(relative_position_clip=clip, local_radius=50)
        batch = case.batch(model.config, (9,))
        order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
        moved = {name: value[:, order] for name, value in batch.items()}
        first, second = (model(**each).last_hidden_state for each in (batch, moved))
        assert torch.allclose(first[:, order], second) == same


def test_rich_attention_sees_the_page_and_not_the_sequence():
    case = Case(FORMNET, FORMNET.variants[1], MODEL)
    for axis, same in ((False, True), (True, False)):
        model = case.model(use_sequence_axis=axis, local_radius=50)
        batch = case.batch(model.config, (9,))
        order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
        moved = {name: value[:, order] for name, value in batch.items()}
        first, second = (model(**each).last_hidden_state for each in (batch, moved))
        assert torch.allclose(first[:, order], second) == same


def test_the_global_token_carries_what_is_out_of_reach():
    case = Case(FORMNET, FORMNET.variants[1], MODEL)
    model = case.model(local_radius=1)
    batch = case.batch(model.config, (30,))
    before = model(**batch)
    batch["input_ids"][0, 29] = (batch["input_ids"][0, 29] + 1) % 50
    after = model(**batch)
    assert (before.pooler_output != after.pooler_output).all()
    assert (before.last_hidden_state[0, 0] != after.last_hidden_state[0, 0]).any()


def test_decode():
    names = ["O", "B-x", "I-x", "E-x", "S-x"]
    case = Case(FORMNET, FORMNET.variants[0], TOKENS)
    model = case.model(num_labels=5)
    model.config.id2label = dict(enumerate(names))
    batch = case.batch(model.config, (9, 5))
    logits = model(**batch).logits
    decoded = model.decode(logits, batch["attention_mask"])
    assert (decoded[1, 5:] == -1).all()
    for row, length in zip(decoded, (9, 5), strict=True):
        open_entity = False
        for label in row[:length].tolist():
            assert open_entity == (names[label][0] in "IE")
            open_entity = names[label][0] in "BI"
        assert not open_entity


def test_decode_refuses_logits_that_are_not_finite():
    model = Case(FORMNET, FORMNET.variants[0], TOKENS).model(num_labels=2)
    model.config.id2label = {0: "O", 1: "title"}
    logits = torch.zeros(2, 3, 2)
    logits[1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match="logits of token 2 of sequence 1 are not finite; check the checkpoint"):
        model.decode(logits)
    # Tokens that are passed over are not asked about.
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    assert model.decode(logits, mask).tolist() == [[0, 0, 0], [0, 0, -1]]
    logits[0, 0, 1] = torch.inf
    with pytest.raises(ValueError, match="logits of token 0 of sequence 0 are not finite"):
        model.decode(logits, mask)
    with pytest.raises(ValueError, match=r"pass \[batch, length, labels\]"):
        model.decode(logits[0])


def test_masked_lm_ties_its_decoder():
    config = FormNetConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_graph_layers=1, num_attention_heads=2
    )
    model = FormNetForMaskedLM(config)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
