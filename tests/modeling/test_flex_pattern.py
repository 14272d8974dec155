"""LongLayoutLM's patterns by FlexAttention are those of the plain form, and give its outputs."""

from typing import Any

import pytest
import torch
from tests.family.spec import assert_close
from tests.modeling.test_long_layoutlm import DOCUMENTS, document, make_batch, tiny_model
from torch.nn.attention.flex_attention import create_mask

from broadsheet.modeling import attention_pattern, flex_kernel, long_layoutlm_patterns
from broadsheet.modeling.attention_pattern import AttentionPattern, attention_map
from broadsheet.modeling.flex_kernel import BLOCK
from broadsheet.modeling.flex_table import pack_table
from broadsheet.modeling.long_layoutlm_patterns import make_patterns
from broadsheet.modeling.sparse_attention import dense_mask, window_table
from broadsheet.tokenization.processing_long_layoutlm import PATTERNS

FLEX = tuple(pattern for pattern in PATTERNS if pattern != "distance_sliding_window")
HEADS = 2


def add_globals(batch: dict[str, torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)
    batch["global_attention_mask"] = (torch.rand(batch["input_ids"].shape, generator=generator) < 0.02).long()
    batch["global_attention_mask"][:, 0] = 1


def layer_pattern(config: Any, batch: dict[str, torch.Tensor], **form: Any) -> AttentionPattern:
    """The pattern of the last layer, as the model makes it."""
    tables = tuple(batch.get(f"block_{name}") for name in ("queries", "keys", "members"))
    given = (batch["attention_mask"], batch.get("global_attention_mask"), batch.get("neighbors"), tables)
    return make_patterns(config, batch["input_ids"].shape, *given, device=torch.device("cpu"), **form)[-1]


@pytest.mark.parametrize("with_global", [False, True], ids=["", "global"])
@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("pattern", FLEX)
def test_the_mask_is_that_of_the_plain_form(pattern: str, name: str, with_global: bool) -> None:
    """Pair by pair; no block of the mask is missing, and all pairs of full blocks attend."""
    processor, batch = make_batch(pattern, DOCUMENTS[name])
    if with_global:
        add_globals(batch)
    config = tiny_model(pattern, len(processor.tokenizer)).config
    documents, length = batch["input_ids"].shape
    zeros = torch.zeros(documents, HEADS, length, 4)
    expected = attention_map(zeros, zeros, layer_pattern(config, batch, plain=True), 1.0) > 0
    flex = layer_pattern(config, batch, plain=False, flex=True).flex
    assert flex is not None
    made = create_mask(flex.block_mask.mask_mod, documents, HEADS, length, length, device="cpu")
    assert torch.equal(made, expected)
    assert torch.equal(flex.queries[:, None].expand(-1, HEADS, -1), expected.any(-1))
    count = -(-length // BLOCK)
    padded = torch.zeros(documents, HEADS, count * BLOCK, count * BLOCK, dtype=torch.bool)
    padded[..., :length, :length] = expected
    by_block = padded.view(documents, HEADS, count, BLOCK, count, BLOCK)
    blocks = flex.block_mask.to_dense().bool().expand(documents, HEADS, -1, -1)
    assert not (by_block.any(5).any(3) & ~blocks).any()
    if flex.block_mask.full_kv_num_blocks is not None:
        full = torch.zeros(documents, 1, count, count, dtype=torch.bool)
        order = flex.block_mask.full_kv_indices.long()
        full.scatter_(-1, order, torch.arange(count) < flex.block_mask.full_kv_num_blocks[..., None])
        assert torch.equal(full.expand(-1, HEADS, -1, -1), by_block.all(5).all(3))


@pytest.mark.parametrize("with_global", [False, True], ids=["", "global"])
@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_equals_the_other_forms(pattern: str, name: str, with_global: bool) -> None:
    processor, batch = make_batch(pattern, DOCUMENTS[name])
    if with_global:
        add_globals(batch)
    outputs = []
    for backend in ("flex_attention", "sdpa", "eager"):
        model = tiny_model(pattern, len(processor.tokenizer))
        model.set_attn_implementation(backend)
        with torch.no_grad():
            outputs.append(model(**batch).last_hidden_state)
    assert_close(outputs[0], outputs[1], 1e-12)
    assert_close(outputs[0], outputs[2], 1e-12)


@pytest.mark.parametrize("length", [40, 300])
def test_a_table_that_documents_share(length: int) -> None:
    """Without padding the window's table has one row for all."""
    model, ids = tiny_model("sliding_window", 60), torch.randint(5, 60, (3, length))
    boxes, outputs = torch.zeros(3, length, 4, dtype=torch.long), []
    for backend in ("flex_attention", "sdpa"):
        model.set_attn_implementation(backend)
        with torch.no_grad():
            outputs.append(model(ids, bbox=boxes).last_hidden_state)
    assert_close(*outputs, 1e-12)


def test_blocks_that_count_several_times() -> None:
    """BigBird's way in eval mode: block 0, as often as there are random blocks; but not for global tokens."""
    processor, batch = make_batch("sliding_window_random", DOCUMENTS["lengths"])
    add_globals(batch)
    model = tiny_model("sliding_window_random", len(processor.tokenizer), count_duplicates=True)
    length = batch["input_ids"].shape[1]
    batch["attention_mask"][:] = 1
    blocks = torch.zeros(HEADS, -(-length // 4), 2, dtype=torch.long)
    model.set_random_blocks([blocks, blocks])
    outputs = {}
    for backend in ("flex_attention", "sdpa", "eager"):
        model.set_attn_implementation(backend)
        with torch.no_grad():
            outputs[backend] = model(**batch).last_hidden_state
    assert_close(outputs["flex_attention"], outputs["sdpa"], 1e-7)  # the weights are in single precision
    assert_close(outputs["flex_attention"], outputs["eager"], 1e-7)
    model.config.count_duplicates = False
    with torch.no_grad():
        assert (model(**batch).last_hidden_state - outputs["eager"]).abs().max() > 1e-3


def test_bits_are_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few of the table's blocks are packed at once."""
    table = window_table(300, 40, 35, 16)
    expected = dense_mask(table, 300)
    for chunk in (1, 1 << 22):
        monkeypatch.setattr("broadsheet.modeling.flex_table.CHUNK", chunk)
        bits = pack_table(table, 300)
        place = torch.arange(3 * BLOCK)
        made = (bits[:, :, place // 32] >> (place % 32).to(torch.int32)) & 1 != 0
        assert torch.equal(made[:, :300, :300], expected)
        assert not made[:, 300:].any()
        assert not made[:, :, 300:].any()


@pytest.mark.parametrize("pattern", FLEX)
def test_most_blocks_are_left_out(pattern: str) -> None:
    """What the kernel visits grows with the length, not with its square."""
    counts = []
    for pages in (4, 8):
        _, batch = make_batch(pattern, [document(350 * pages, pages, 0)])
        config = tiny_model(pattern, 60, random_block_size=16, num_random_blocks=0).config
        flex = layer_pattern(config, batch, plain=False, flex=True).flex
        assert flex is not None
        blocks = flex.block_mask.to_dense()[0, 0]
        counts.append(float(blocks.sum() / len(blocks)))
    assert counts[1] < 1.2 * counts[0] < 11, counts


@pytest.mark.parametrize("pattern", FLEX)
def test_flex_attention_is_what_runs(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every layer, its mask made once for all that share it; where it cannot, the one sparse attention."""
    ran: list[Any] = []
    made: list[Any] = []
    own = attention_pattern.flex_pattern_attention
    monkeypatch.setattr(attention_pattern, "flex_pattern_attention", lambda *args: ran.append(args[3]) or own(*args))
    table = long_layoutlm_patterns.flex_table
    monkeypatch.setattr(long_layoutlm_patterns, "flex_table", lambda *args: made.append(1) or table(*args))
    processor, batch = make_batch(pattern, [document(40, 1, 0)])
    model = tiny_model(pattern, len(processor.tokenizer))
    model.set_attn_implementation("flex_attention")
    with torch.no_grad():
        inferred = model(**batch).last_hidden_state
        assert len(ran) == model.config.num_hidden_layers
        if pattern != "sliding_window_random":  # each layer draws its own
            assert len(made) == 1
            assert ran[0] is ran[1]
        maps = model(**batch, output_attentions=True).attentions
    assert maps[0].shape[-1] == batch["input_ids"].shape[1]
    trained = model(**batch).last_hidden_state
    model.train().config.attention_probs_dropout_prob = 0.5
    with torch.no_grad():
        model(**batch)
    model.eval()
    monkeypatch.setattr(flex_kernel, "can_flex", lambda device, head_size: False)
    with torch.no_grad():
        without = model(**batch).last_hidden_state
    assert len(ran) == model.config.num_hidden_layers
    assert torch.equal(trained, without)
    assert_close(inferred, without, 1e-12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_training_takes_the_form_that_has_gradients(pattern: str) -> None:
    processor, batch = make_batch(pattern, [document(20, 1, 0)])
    gradients = []
    for backend in ("sdpa", "flex_attention"):
        model = tiny_model(pattern, len(processor.tokenizer)).train()
        model.set_attn_implementation(backend)
        model(**batch).last_hidden_state.square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert gradient is None or torch.equal(gradient, gradients[1][name]), name


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("with_global", [False, True], ids=["", "global"])
@pytest.mark.parametrize("pattern", FLEX)
def test_on_cuda(pattern: str, with_global: bool) -> None:
    """At 4,096 tokens, equal to the other forms and without a tensor of length x length for each head."""
    heads, sizes = 4, {"attention_window": 512, "num_neighbors": 128}
    documents = [document(4000, 6, 0), document(900, 2, 1)]
    processor, batch = make_batch(pattern, documents, **sizes)
    if with_global:
        add_globals(batch)
    batch = {name: tensor.cuda() for name, tensor in batch.items()}
    length = batch["input_ids"].shape[1]
    model = tiny_model(
        pattern,
        len(processor.tokenizer),
        hidden_size=128,
        num_attention_heads=heads,
        random_block_size=64,
        num_random_blocks=3,
        max_position_embeddings=length + 2,
        **sizes,
    )
    model = model.float().cuda()
    outputs, peaks = [], []
    for backend in ("eager", "sdpa", "flex_attention"):
        model.set_attn_implementation(backend)
        for _ in range(2):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            with torch.no_grad():
                output = model(**batch).last_hidden_state[batch["attention_mask"].bool()]
        peaks.append(torch.cuda.max_memory_allocated() - before)
        outputs.append(output)
    for other in outputs[:2]:
        torch.testing.assert_close(outputs[2], other, rtol=0, atol=1e-4)
    # The scores alone have 4 bytes for each document, head, query and key.
    assert peaks[2] < 2 * heads * length * length * 4 < peaks[0]
