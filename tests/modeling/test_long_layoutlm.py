"""LongLayoutLM: fast forms equal plain forms on documents of the processor, and its parents' outputs are theirs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.family.spec import assert_close, disturb, gradients, probe_loss
from tests.modeling.recorded_dropout import record_dropout
from tests.tokenizers import tiny_tokenizer
from transformers import (
    BertConfig,
    BertModel,
    BigBirdConfig,
    BigBirdModel,
    LayoutLMConfig,
    LayoutLMModel,
    LongformerConfig,
    LongformerModel,
)

from broadsheet.modeling import sparse_attention
from broadsheet.modeling.configuration_long_layoutlm import LongLayoutLMConfig
from broadsheet.modeling.modeling_long_layoutlm import (
    LongLayoutLMForMaskedLM,
    LongLayoutLMForQuestionAnswering,
    LongLayoutLMForSequenceClassification,
    LongLayoutLMModel,
)
from broadsheet.tokenization.processing_long_layoutlm import PATTERNS, LongLayoutLMProcessor

TINY: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def document(words: int, pages: int, seed: int, coincident: bool = False) -> dict[str, Any]:
    """Words in lines of seven down the pages, some boxes the same."""
    generator = np.random.default_rng(seed)
    place = np.arange(words)
    page_ids = np.sort(generator.integers(0, pages, words))
    x, y = place % 7 * 80.0 + generator.random(words) * 9, place // 7 % 50 * 14.0
    boxes = np.stack([x, y, x + 40, y + 10], 1)
    if coincident:
        boxes[:] = boxes[0]
    text = generator.choice(["payable", "within", "thirty", "days", "$1,234.56"], words).tolist()
    sizes = [(600.0, 800.0) if page % 2 else (842.0, 1000.0) for page in range(pages)]
    return {"words": text, "boxes": boxes.tolist(), "page_ids": page_ids.tolist(), "page_sizes": sizes}


def tiny_model(pattern: str, vocab_size: int, model_class: Any = LongLayoutLMModel, **changes: Any) -> Any:
    settings = {"attention_window": 10, "num_neighbors": 9, "random_block_size": 4, "num_random_blocks": 1}
    config = LongLayoutLMConfig(
        **{**TINY, "attention_pattern": pattern, "vocab_size": vocab_size, "max_position_embeddings": 2002}
        | settings
        | changes
    )
    torch.manual_seed(0)
    return disturb(model_class(config)).double().eval()


def make_batch(pattern: str, documents: list[dict[str, Any]], **changes: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    settings = {"attention_window": 10, "num_neighbors": 9} | changes
    processor = LongLayoutLMProcessor(tiny_tokenizer("bpe"), attention_pattern=pattern, **settings)
    return processor, dict(processor(documents=documents, padding=True, return_tensors="pt"))


DOCUMENTS = {
    "one page": [document(61, 1, 0)],
    "twenty pages": [document(300, 20, 1)],
    "lengths": [document(3, 1, 2), document(1, 1, 3), document(97, 3, 4), document(40, 2, 5)],
    "coincident": [document(50, 1, 6, coincident=True), document(30, 2, 7)],
}


@pytest.mark.parametrize("with_global", [False, True], ids=["", "global"])
@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_fast_form_equals_plain_form(pattern: str, name: str, with_global: bool) -> None:
    processor, batch = make_batch(pattern, DOCUMENTS[name])
    mask = batch["attention_mask"]
    if with_global:
        generator = torch.Generator().manual_seed(0)
        batch["global_attention_mask"] = (torch.rand(mask.shape, generator=generator) < 0.05).long()
        batch["global_attention_mask"][:, 0] = 1
    results = []
    for backend in ("sdpa", "eager"):
        model = tiny_model(pattern, len(processor.tokenizer))
        model.set_attn_implementation(backend)
        outputs = model(**batch)
        probe_loss(outputs, mask).backward()
        results.append((outputs.last_hidden_state, gradients(model)))
    assert_close(results[0][0], results[1][0], 1e-11)
    assert_close(results[0][1], results[1][1], 1e-10)


@pytest.mark.parametrize("with_global", [False, True], ids=["", "global"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_tokens_masked_in_the_midst(pattern: str, with_global: bool) -> None:
    """They neither attend nor are attended to, and those after them keep their attention; all forms agree."""
    processor, batch = make_batch(pattern, DOCUMENTS["lengths"])
    batch["attention_mask"][2, 5:30] = 0
    if with_global:
        batch["global_attention_mask"] = torch.zeros_like(batch["input_ids"])
        batch["global_attention_mask"][:, ::20] = 1
    model = tiny_model(pattern, len(processor.tokenizer))
    maps = model(**batch, output_attentions=True).attentions[0].sum(1)
    real = batch["attention_mask"].bool()
    assert not maps[~real].any()
    if pattern != "distance_sliding_window":
        assert not maps.transpose(1, 2)[~real].any()
    if pattern not in ("distance", "distance_sliding_window"):  # <s> and </s> stand nowhere on the page
        assert maps[real].any(-1).all()
    layer, outputs = model.encoder.layer[0].attention.self, []
    layer.register_forward_hook(lambda _module, _args, output: outputs.append(output[0]))
    for backend in ("eager", "sdpa", "flex_attention"):
        model.set_attn_implementation(backend)
        with torch.no_grad():
            model(**batch)
    for other in outputs[1:]:
        assert_close(other, outputs[0], 1e-12)


@pytest.mark.parametrize(
    ("model_pattern", "pattern", "window"),
    [("distance", "union", 10), ("union", "distance", 10), ("union", "union", 4)],
)
def test_tables_of_another_pattern(model_pattern: str, pattern: str, window: int) -> None:
    """The neighbours are the same; the fast form would attend to what the tables say."""
    processor, batch = make_batch(pattern, [document(30, 1, 0), document(80, 1, 0)], attention_window=window)
    model = tiny_model(model_pattern, len(processor.tokenizer))
    says = rf"tables of document 0 .* pairs .*LongLayoutLMProcessor\(tokenizer, attention_pattern='{model_pattern}'"
    with pytest.raises(ValueError, match=says):
        model(**batch)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_special_tokens_are_nobodys_neighbours(pattern: str) -> None:
    """<s> and </s> reach others under the spatial patterns only when global."""
    processor, batch = make_batch(pattern, [document(30, 1, 0)])
    model = tiny_model(pattern, len(processor.tokenizer))
    attended = model(**batch, output_attentions=True).attentions[0][0].sum(0)
    spatial = pattern in ("distance", "distance_sliding_window")
    ends = [0, len(attended) - 1]
    columns = attended[1:-1][:, ends].sum()
    if pattern == "distance":
        assert columns == 0
    if spatial:
        assert attended[ends].sum() == 0
    else:
        assert columns > 0
    batch["global_attention_mask"] = torch.zeros_like(batch["input_ids"])
    batch["global_attention_mask"][0, 0] = 1
    attended = model(**batch, output_attentions=True).attentions[0][0]
    assert (attended[:, 1:-1, 0] > 0).all()
    assert (attended[:, 0] > 0).all()


def test_union_is_both_sets() -> None:
    maps = {}
    for pattern in ("sliding_window", "distance", "union"):
        processor, batch = make_batch(pattern, [document(80, 2, 0)])
        model = tiny_model(pattern, len(processor.tokenizer))
        maps[pattern] = model(**batch, output_attentions=True).attentions[0] > 0
    assert torch.equal(maps["union"], maps["sliding_window"] | maps["distance"])
    assert maps["distance"].sum(-1).max() == 9
    assert not torch.equal(maps["union"], maps["sliding_window"])


def test_scores_from_neighbours_values_from_the_window() -> None:
    """The k-th score weighs the k-th value of the window, in a loop as the paper's equations have it."""
    processor, batch = make_batch("distance_sliding_window", [document(25, 1, 0)], attention_window=4)
    model = tiny_model("distance_sliding_window", len(processor.tokenizer), attention_window=4)
    layer = model.encoder.layer[0].attention.self
    hidden = torch.randn(1, batch["input_ids"].shape[1], 24, dtype=torch.float64)
    seen = {}
    layer.register_forward_hook(lambda _module, args, output: seen.update(pattern=args[1]))
    model(**batch)
    output = layer(hidden, seen["pattern"], False)[0][0]
    query, key, value = (getattr(layer, name)(hidden)[0].view(-1, 2, 12) for name in ("query", "key", "value"))
    expected = torch.zeros_like(query)
    for token in range(len(query)):
        slots = [
            (int(neighbor), token + slot - 2)
            for slot, neighbor in enumerate(batch["neighbors"][0, token])
            if neighbor >= 0 and 0 <= token + slot - 2 < len(query)
        ]
        for head in range(2):
            if slots:
                scores = torch.stack([query[token, head] @ key[near, head] for near, _ in slots]) * 12**-0.5
                weights = scores.softmax(0)
                expected[token, head] = sum(
                    weight * value[place, head] for weight, (_, place) in zip(weights, slots, strict=True)
                )
    assert_close(output, expected.flatten(1), 1e-12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_dropout_is_an_expectation(pattern: str) -> None:
    """With dropout of the probabilities the mean over many passes comes near the output without."""
    processor, batch = make_batch(pattern, [document(40, 1, 0)])
    model = tiny_model(pattern, len(processor.tokenizer), num_hidden_layers=1, attention_probs_dropout_prob=0.2)
    attention = model.encoder.layer[0].attention.self
    outputs: list[torch.Tensor] = []
    attention.register_forward_hook(lambda _module, _args, output: outputs.append(output[0].detach()))
    model(**batch)
    model.train()
    for _ in range(300):
        model(**batch)
    clean, dropped = outputs[0], torch.stack(outputs[1:])
    assert (dropped.std(0) > 0).any()
    error = (dropped.mean(0) - clean).abs() / (dropped.std(0) / 300**0.5 + 1e-9)
    assert error.mean() < 1.2


def longformer(length: int) -> LongformerModel:
    settings = {**TINY, "vocab_size": 60, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    config = LongformerConfig(attention_window=[6, 6], max_position_embeddings=length + 8, **settings)
    torch.manual_seed(1)
    return disturb(LongformerModel(config)).double().eval()


@pytest.mark.parametrize("globals_", ["none", "first", "some", "all"])
@pytest.mark.parametrize("length", [37, 48])
def test_sliding_window_equals_longformer(length: int, globals_: str, tmp_path: Path) -> None:
    source = longformer(length)
    source.save_pretrained(tmp_path)
    model = LongLayoutLMModel.from_pretrained(tmp_path)
    ids = torch.randint(5, 60, (3, length))
    mask = torch.ones_like(ids)
    mask[1, 20:], mask[2, 1:] = 0, 0
    ids[mask == 0] = 1
    spots = {"none": [], "first": [0], "some": [0, 5, 30], "all": list(range(length))}[globals_]
    is_global = torch.zeros_like(ids)
    is_global[:, spots] = 1
    is_global *= mask
    with torch.no_grad():
        theirs = source(ids, attention_mask=mask, global_attention_mask=is_global)
        ours = model(
            ids, bbox=torch.zeros(3, length, 4, dtype=torch.long), attention_mask=mask, global_attention_mask=is_global
        )
    # Longformer takes its softmax in single precision.
    assert_close(ours.last_hidden_state[mask.bool()], theirs.last_hidden_state[mask.bool()], 1e-6)
    assert_close(ours.pooler_output, theirs.pooler_output, 1e-6)


def big_bird(length: int) -> BigBirdModel:
    settings = {**TINY, "vocab_size": 60, "max_position_embeddings": length}
    torch.manual_seed(1)
    return disturb(BigBirdModel(BigBirdConfig(block_size=4, num_random_blocks=2, **settings))).double()


def big_birds_blocks(source: BigBirdModel, length: int) -> list[torch.Tensor]:
    """The random blocks that its layers draw for this length, in our form."""
    tables = []
    for number, layer in enumerate(source.encoder.layer):
        attention = layer.attention.self
        np.random.seed(number)  # noqa: NPY002, as transformers does
        lengths, counts = attention._get_rand_attn_plan(length, 4, 2)
        drawn = attention._bigbird_block_rand_mask_with_head(
            length, length, 4, 4, source.config.num_attention_heads, lengths, counts
        )
        middle = torch.as_tensor(np.stack(drawn)).long()
        tables.append(torch.nn.functional.pad(middle, (0, 0, 1, 1), value=-1))
    return tables


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_random_blocks_equal_bigbird(training: bool, tmp_path: Path) -> None:
    """In train mode its random blocks; in eval mode block 0, as often as there are random blocks."""
    length = 64
    source = big_bird(length).train(training)
    source.save_pretrained(tmp_path)
    model = LongLayoutLMModel.from_pretrained(tmp_path, count_duplicates=True).train(training)
    ids = torch.randint(5, 60, (2, length))
    mask = torch.ones_like(ids)
    mask[1, 61:] = 0
    model.set_random_blocks(big_birds_blocks(source, length))
    boxes = torch.zeros(2, length, 4, dtype=torch.long)
    ours = model(ids, bbox=boxes, attention_mask=mask)
    theirs = source(ids, attention_mask=mask)
    assert source.attention_type == "block_sparse"
    assert_close(ours.last_hidden_state[mask.bool()], theirs.last_hidden_state[mask.bool()], 1e-10)
    probe_loss({"out": ours.last_hidden_state}, mask).backward()
    probe_loss({"out": theirs.last_hidden_state}, mask).backward()
    for name in ("query", "value"):
        own, other = (getattr(each.encoder.layer[0].attention.self, name).weight.grad for each in (model, source))
        assert_close(own, other, 1e-9)
    if training:
        model.set_random_blocks(None)
        assert (
            model(ids, bbox=boxes, attention_mask=mask).last_hidden_state - ours.last_hidden_state
        ).abs().max() > 1e-3


def test_random_blocks_survive_a_reload(tmp_path: Path) -> None:
    model = tiny_model("sliding_window_random", 60, random_seed=5)
    batch = {"input_ids": torch.randint(5, 60, (1, 90)), "bbox": torch.zeros(1, 90, 4, dtype=torch.long)}
    expected = model(**batch).last_hidden_state
    model.save_pretrained(tmp_path)
    assert torch.equal(LongLayoutLMModel.from_pretrained(tmp_path)(**batch).last_hidden_state, expected)
    other = LongLayoutLMModel.from_pretrained(tmp_path, random_seed=6)
    assert not torch.allclose(other(**batch).last_hidden_state, expected)


def test_blocks_of_both_tables_draw_dropout_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """SW+RAND without global tokens: some blocks attend to all, the others to a few."""
    drawn = record_dropout(monkeypatch)
    monkeypatch.setattr(sparse_attention, "CPU_CHUNK", 1 << 13)
    model = tiny_model("sliding_window_random", 60, attention_probs_dropout_prob=0.5, num_hidden_layers=1).train()
    model(input_ids=torch.randint(5, 60, (1, 900)), bbox=torch.zeros(1, 900, 4, dtype=torch.long))
    assert len(set(drawn)) == len(drawn) > 2


def test_random_blocks_for_another_length_are_refused() -> None:
    model = tiny_model("sliding_window_random", 60)
    batch = {"input_ids": torch.randint(5, 60, (1, 90)), "bbox": torch.zeros(1, 90, 4, dtype=torch.long)}
    model.set_random_blocks([torch.zeros(2, 5, 1, dtype=torch.long)] * 2)
    with pytest.raises(
        ValueError, match=r"heads and 5 blocks, but 90 tokens make \d+ blocks.*set_random_blocks\(None\)"
    ):
        model(**batch)


def test_layout_tables_of_layoutlm(tmp_path: Path) -> None:
    theirs = LayoutLMModel(LayoutLMConfig(vocab_size=60, **{k: v for k, v in TINY.items() if "prob" not in k}))
    theirs.save_pretrained(tmp_path)
    model = tiny_model("sliding_window", 60, LongLayoutLMForMaskedLM)
    model.load_layout_tables(tmp_path)
    for axis in "xyhw":
        name = f"{axis}_position_embeddings"
        own, source = getattr(model.long_layoutlm.embeddings, name), getattr(theirs.embeddings, name)
        assert torch.equal(own.weight, source.weight.double())
    with pytest.raises(ValueError, match="name a LayoutLM of the same hidden_size"):
        tiny_model("sliding_window", 60, hidden_size=32).load_layout_tables(tmp_path)
    bert = BertModel(BertConfig(vocab_size=60, **{k: v for k, v in TINY.items() if "prob" not in k}))
    bert.save_pretrained(tmp_path / "bert")
    with pytest.raises(ValueError, match=r"has no embeddings\.h_position_embeddings.*name a LayoutLM"):
        model.load_layout_tables(tmp_path / "bert")


def test_classes_are_read_globally_and_questions_too() -> None:
    processor, batch = make_batch("distance", [document(12, 1, 0)])
    model = tiny_model("distance", len(processor.tokenizer), LongLayoutLMForSequenceClassification)
    one = torch.zeros_like(batch["input_ids"])
    one[:, 0] = 1
    assert torch.equal(model(**batch).logits, model(**batch, global_attention_mask=one).logits)
    asked = dict(processor(text="How much ?", documents=document(12, 1, 0), return_tensors="pt"))
    reader = tiny_model("distance", len(processor.tokenizer), LongLayoutLMForQuestionAnswering)
    question = (asked["bbox"] == 0).all(-1).long()
    question[:, -1] = 0  # the last </s>
    assert int(question.sum()) > 3
    expected = reader(**asked, global_attention_mask=question)
    assert torch.equal(reader(**asked).start_logits, expected.start_logits)


def test_export_of_spatial_attention() -> None:
    """Exporters take the plain form, which needs the neighbours alone."""
    processor, batch = make_batch("distance", [document(20, 1, 0), document(31, 1, 1)])
    model = tiny_model("distance", len(processor.tokenizer))
    inputs = {name: batch[name] for name in ("input_ids", "bbox", "attention_mask", "neighbors")}
    auto = torch.export.Dim.AUTO
    shapes = {name: {0: auto, 1: auto} for name in inputs}
    program = torch.export.export(model, (), inputs, dynamic_shapes=shapes, strict=False).module()
    _, other = make_batch("distance", [document(9, 1, 2), document(44, 2, 3), document(5, 1, 4)])
    actual = program(**{name: other[name] for name in inputs}).last_hidden_state
    real = other["attention_mask"].bool()
    assert_close(actual[real], model(**other).last_hidden_state[real], 1e-9)
    wide = tiny_model("sliding_window_random", len(processor.tokenizer))
    del inputs["neighbors"], shapes["neighbors"]
    with pytest.raises(ValueError, match="SW\\+RAND depend on the lengths"):
        torch.export.export(wide, (), inputs, dynamic_shapes=shapes, strict=False)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"attention_window": 5}, "even number"),
        ({"num_neighbors": 0}, "num_neighbors=0"),
        ({"position_offset": 4098}, "no position"),
        ({"hidden_size": 770}, "no multiple"),
        ({"num_attention_heads": 0}, "num_attention_heads=0 is too small; set it to 1 or more"),
        ({"num_attention_heads": -12}, "num_attention_heads=-12 is too small"),
        ({"attention_probs_dropout_prob": 1.0}, "no dropout rate"),
    ],
)
def test_impossible_configs(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(Exception, match=says):
        LongLayoutLMConfig(**settings)


def test_parents_that_do_not_fit(tmp_path: Path) -> None:
    LongformerConfig(attention_window=[4, 8], num_hidden_layers=2).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="one for all; start from a checkpoint"):
        LongLayoutLMConfig.from_pretrained(tmp_path)
    BigBirdConfig(rescale_embeddings=True).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="rescales its word embeddings"):
        LongLayoutLMConfig.from_pretrained(tmp_path)


def test_a_big_bird_of_full_attention_becomes_sparse_and_says_so(tmp_path: Path, caplog: Any) -> None:
    BigBirdConfig(attention_type="original_full").save_pretrained(tmp_path)
    assert LongLayoutLMConfig.from_pretrained(tmp_path).attention_pattern == "sliding_window_random"
    assert "attends to everything" in caplog.text
