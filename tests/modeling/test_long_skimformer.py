import pytest
import torch

from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_long_skimformer import (
    LongSkimformerForQuestionAnswering,
    LongSkimformerForSequenceClassification,
    LongSkimformerForTokenClassification,
    LongSkimformerModel,
)
from broadsheet.modeling.modeling_skimformer import SkimformerForTokenClassification
from broadsheet.modeling.skim_window_attention import SkimWindowAttention

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "hidden_layout_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "skim_attention_head_size": 8,
    "intermediate_size": 64,
    "num_attention_heads_layout_encoder": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def make_batch(length=37, lengths=(37, 20, 5), seed=0):
    generator = torch.Generator().manual_seed(seed)
    bbox = torch.randint(0, 500, (len(lengths), length, 4), generator=generator)
    bbox[..., 2:] += bbox[..., :2]
    mask = (torch.arange(length) < torch.tensor(lengths)[:, None]).long()
    input_ids = torch.randint(1, 99, mask.shape, generator=generator)
    labels = (input_ids % 2).masked_fill(mask == 0, -100)
    return {"input_ids": input_ids, "bbox": bbox, "attention_mask": mask, "labels": labels}


def step(model, batch, backend="sdpa", recompute=8192, dropout=0.0, **inputs):
    """Logits of the real tokens and all gradients of one training step."""
    model.set_attn_implementation(backend)
    model.train()
    model.zero_grad()
    for module in model.modules():
        if isinstance(module, SkimWindowAttention):
            module.dropout, module.recompute_length = dropout, recompute
    torch.manual_seed(1)
    outputs = model(**batch, **inputs)
    outputs.loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return outputs.logits[batch["attention_mask"].bool()], gradients


def assert_same(first, second, rename=lambda name: name):
    torch.testing.assert_close(first[0], second[0], rtol=1e-12, atol=1e-12)
    for name, gradient in first[1].items():
        torch.testing.assert_close(gradient, second[1][rename(name)], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("contextualize", [False, True])
@pytest.mark.parametrize("window", [74, 80, 200])
def test_equals_the_full_skimformer_where_the_window_covers_the_input(contextualize, window):
    torch.manual_seed(0)
    full = SkimformerForTokenClassification(SkimformerConfig(**SIZES, contextualize_layout=contextualize)).double()
    config = LongSkimformerConfig(**SIZES, contextualize_layout=contextualize, attention_window=window)
    long = LongSkimformerForTokenClassification(config).double()
    weights = {name.replace("skimformer.", "long_skimformer."): value for name, value in full.state_dict().items()}
    missing = long.load_state_dict(weights, strict=False).missing_keys
    assert all("_global." in name for name in missing)
    batch = make_batch()
    assert_same(step(full, batch), step(long, batch), lambda name: name.replace("skimformer.", "long_skimformer."))


def global_mask(*places, shape=(3, 37)):
    mask = torch.zeros(shape, dtype=torch.long)
    for row, token in places:
        mask[row, token] = 1
    return mask


@pytest.mark.parametrize(
    "places", [(), ((0, 0), (0, 7), (1, 3)), ((0, 36), (1, 0), (1, 1), (2, 0), (2, 4)), ((1, 30),)]
)
@pytest.mark.parametrize("length", [37, 64])
def test_plain_kept_and_recomputed_agree_with_global_tokens(places, length):
    torch.manual_seed(0)
    config = LongSkimformerConfig(**SIZES, contextualize_layout=True, attention_window=6)
    model = LongSkimformerForTokenClassification(config).double()
    batch = make_batch(length)
    mask = global_mask(*places, shape=(3, length))
    plain = step(model, batch, "eager", global_attention_mask=mask)
    assert_same(plain, step(model, batch, global_attention_mask=mask))
    assert_same(plain, step(model, batch, recompute=5, global_attention_mask=mask))
    with_dropout = [step(model, batch, recompute=n, dropout=0.2, global_attention_mask=mask) for n in (5, 8192)]
    assert_same(*with_dropout)
    assert not torch.equal(with_dropout[0][0], plain[0])


def test_a_question_is_read_globally():
    torch.manual_seed(0)
    model = LongSkimformerForQuestionAnswering(LongSkimformerConfig(**SIZES, attention_window=8)).eval()
    batch = {name: value for name, value in make_batch().items() if name != "labels"}
    batch["bbox"] = batch["bbox"].clamp(min=1)
    batch["bbox"][:, :4] = 0
    asked = global_mask(*((row, token) for row in range(3) for token in range(4)))
    answers = model(**batch)
    assert torch.equal(answers.start_logits, model(**batch, global_attention_mask=asked).start_logits)
    none = torch.zeros_like(asked)
    assert not torch.equal(answers.start_logits, model(**batch, global_attention_mask=none).start_logits)


def test_a_global_token_in_padding_is_none():
    model = LongSkimformerForTokenClassification(LongSkimformerConfig(**SIZES, attention_window=6)).double()
    batch = make_batch()
    assert_same(step(model, batch), step(model, batch, global_attention_mask=global_mask((1, 30))))


def test_a_global_token_sees_and_is_seen_by_all_others_do_not_see_far():
    torch.manual_seed(0)
    model = LongSkimformerModel(LongSkimformerConfig(**SIZES, attention_window=6)).eval()
    batch = {name: value[:1] for name, value in make_batch().items() if name != "labels"}
    attention = model(**batch, global_attention_mask=global_mask((0, 9))[:1], output_attentions=True).attentions[0]
    places = torch.arange(37)
    seen = ((places[:, None] - places).abs() <= 3) | (places == 9) | (places == 9)[:, None]
    assert torch.equal(attention[0].gt(0).all(0), seen)
    torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention.sum(-1)))


def test_classification_reads_the_whole_document_through_its_first_token():
    torch.manual_seed(0)
    model = LongSkimformerForSequenceClassification(LongSkimformerConfig(**SIZES, attention_window=2)).eval()
    batch = {name: value[:1] for name, value in make_batch().items() if name != "labels"}
    other = {**batch, "input_ids": batch["input_ids"].clone()}
    other["input_ids"][0, -1] += 1
    assert not torch.equal(model(**batch).logits, model(**other).logits)
    none = torch.zeros_like(batch["input_ids"])
    windowed = [model(**inputs, global_attention_mask=none).logits for inputs in (batch, other)]
    assert torch.equal(*windowed)


@pytest.mark.slow
def test_8192_tokens():
    config = LongSkimformerConfig(**SIZES, contextualize_layout=True, attention_window=256)
    model = LongSkimformerForTokenClassification(config).float()
    batch = make_batch(8192, (8192, 5000))
    kept = step(model, batch)
    recomputed = step(model, batch, recompute=2048)
    torch.testing.assert_close(kept[0], recomputed[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_window": 7}, "attention_window=7 is no even number"),
        ({"attention_window": 0}, "attention_window=0 is no even number"),
        ({"mask_layout_contextualizer": False}, "always masked"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(Exception, match=message):
        LongSkimformerConfig(**SIZES, **changes)


def test_global_mask_of_another_shape_is_refused():
    model = LongSkimformerModel(LongSkimformerConfig(**SIZES))
    batch = {name: value for name, value in make_batch().items() if name != "labels"}
    with pytest.raises(ValueError, match="global_attention_mask has the shape"):
        model(**batch, global_attention_mask=torch.zeros(3, 36))
