"""The paper's sparse baselines: fast forms against plain ones, padding, a training step."""

import pytest
import torch
from benchmarks.entry import Size
from benchmarks.sparse_baselines import (
    as_funnel,
    as_power,
    efficient_attention,
    hash_buckets,
    lsh_attention,
    power_config,
    with_sparse_attention,
)
from benchmarks.steps import build, make_step

from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration

TINY = {
    "vocab_size": 60, "hidden_size": 24, "intermediate_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
    "decoder_layers": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_source_length": 64,
}  # fmt: skip


def heads(length: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, 3, length, 6, generator=generator, dtype=torch.float64) for _ in range(3))


@pytest.mark.parametrize("length", [5, 16, 37])
@pytest.mark.parametrize("masked", [False, True])
def test_lsh_by_chunks_is_the_dense_one(length, masked):
    query, _, value = heads(length)
    mask = torch.arange(length) < torch.tensor([[length], [length // 2]]) if masked else None
    real = slice(None) if mask is None else mask
    results = []
    for plain in (True, False):
        inputs = query.clone().requires_grad_(), value.clone().requires_grad_()
        output = lsh_attention(*inputs, mask, bucket=4, hashes=3, plain=plain).transpose(1, 2)[real]
        output.sin().sum().backward()
        results.append((output, inputs[0].grad, inputs[1].grad))
    for actual, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(actual, expected)


def test_near_vectors_share_buckets():
    query, _, _ = heads(50)
    buckets = hash_buckets(query, 8, 4, seed=1)
    assert buckets.shape == (4, 2, 3, 50)
    assert (buckets == hash_buckets(query * 3 + 1e-6, 8, 4, seed=1)).double().mean() > 0.99
    assert buckets.min() >= 0
    assert buckets.max() < 8


@pytest.mark.parametrize("masked", [False, True])
def test_efficient_is_its_dense_product(masked):
    query, key, value = heads(17)
    mask = torch.arange(17) < torch.tensor([[17], [5]]) if masked else None
    columns = key if mask is None else key.masked_fill(~mask[:, None, :, None], -torch.inf)
    expected = (query.softmax(-1) @ columns.softmax(-2).transpose(-1, -2)) @ value
    torch.testing.assert_close(efficient_attention(query, key, value, mask), expected)


def baseline(name: str) -> PyramidionForConditionalGeneration:
    torch.manual_seed(0)
    if name == "funnel":
        return as_funnel(PyramidionForConditionalGeneration(PyramidionConfig.blockwise(**TINY, block_size=8)), 4)
    if name == "power":
        return PyramidionForConditionalGeneration(power_config([32, 16], **TINY, block_size=8))
    return with_sparse_attention(PyramidionForConditionalGeneration(PyramidionConfig.vanilla(**TINY)), name)


@pytest.mark.parametrize("name", ["lsh", "efficient", "funnel", "power"])
def test_baselines_train_and_write(name):
    model = baseline(name).double()
    ids, mask = torch.randint(3, 60, (2, 45)), torch.arange(45) < torch.tensor([[45], [9]])
    labels = torch.randint(3, 60, (2, 6))
    outputs = model(input_ids=ids, attention_mask=mask, labels=labels)
    outputs.loss.backward()
    names = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    assert names == []
    other = model(input_ids=ids.masked_fill(~mask, 5), attention_mask=mask, labels=labels)
    torch.testing.assert_close(other.logits, outputs.logits)
    expected = {"funnel": 45, "power": 16}.get(name, 45)
    assert outputs.encoder_last_hidden_state.shape[1] == expected
    written = model.eval().generate(input_ids=ids, attention_mask=mask, max_new_tokens=4, min_new_tokens=4)
    assert written.shape == (2, 5)
    if name in ("funnel", "power"):
        alone = model(input_ids=ids[1:, :9], labels=labels[1:]).logits
        torch.testing.assert_close(alone[0], outputs.logits[1])


@pytest.mark.parametrize("step", ["training", "generation"])
@pytest.mark.parametrize("name", ["lsh-2+2", "efficient-2+2", "power-2+2", "funnel-2+2"])
def test_a_step_of_the_benchmark(name, step):
    size, device = Size(16, 2, 0.1, tiny=True), torch.device("cpu")
    model = build(name, size, device)
    before = model.lm_head.weight.clone()
    make_step(model, step, size, device)()
    assert torch.equal(before, model.lm_head.weight) == (step == "generation")


def test_power_starts_from_a_blockwise_checkpoint(tmp_path):
    """Equal to it where nothing is eliminated."""
    first = PyramidionForConditionalGeneration(PyramidionConfig.blockwise(**TINY, block_size=8)).eval()
    first.save_pretrained(tmp_path)
    config = power_config([32, 16], **TINY, block_size=8)
    model = PyramidionForConditionalGeneration.from_pretrained(tmp_path, config=config).eval()
    ids, target = torch.randint(3, 60, (2, 16)), torch.full((2, 3), 5)
    expected = first(input_ids=ids, decoder_input_ids=target).logits
    assert torch.equal(model(input_ids=ids, decoder_input_ids=target).logits, expected)
    alike = as_power(first, [32, 16]).eval()
    assert torch.equal(alike(input_ids=ids, decoder_input_ids=target).logits, expected)
    longer = torch.randint(3, 60, (1, 40))
    found, wanted = (each(input_ids=longer, decoder_input_ids=target[:1]).logits for each in (alike, model))
    assert torch.equal(found, wanted)


def test_refusals():
    with pytest.raises(ValueError, match="set block_size=None"):
        with_sparse_attention(PyramidionForConditionalGeneration(PyramidionConfig.blockwise(**TINY)), "lsh")
    with pytest.raises(ValueError, match="no sparse attention 'other'"):
        with_sparse_attention(PyramidionForConditionalGeneration(PyramidionConfig.vanilla(**TINY)), "other")
    pooled = PyramidionForConditionalGeneration(power_config([32, 16], **TINY))
    for convert, setting in ((as_funnel, 4), (as_power, [32, 16])):
        with pytest.raises(ValueError, match="set encoder_lengths=None"):
            convert(pooled, setting)
