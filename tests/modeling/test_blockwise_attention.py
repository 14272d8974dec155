"""Attention within blocks: the form for inference equals the others, with padding and without."""

import pytest
import torch

from broadsheet.modeling import blockwise_attention, matrix_products
from broadsheet.modeling.blockwise_attention import BlockwiseSelfAttention, attend_in_cache, block_length, make_blocks
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig

BATCH, HEADS, SIZE = 3, 2, 6


@pytest.fixture
def module(monkeypatch):
    """Blocks of every size are read by the form for inference, in oneDNN's products."""
    monkeypatch.setattr(blockwise_attention, "LEAST_CACHED", 1)
    monkeypatch.setattr(matrix_products, "WORTHWHILE", 1)
    torch.manual_seed(0)
    config = PyramidionConfig(hidden_size=HEADS * SIZE, num_attention_heads=HEADS, encoder_lengths=None)
    config._attn_implementation = "sdpa"
    return BlockwiseSelfAttention(config).eval()


def inputs(length, padding):
    states = torch.randn(BATCH, length, HEADS * SIZE)
    if not padding:
        return states, None
    mask = torch.ones(BATCH, length, dtype=torch.bool)
    mask[0, length // 2 + 1 :] = False
    mask[1] = False
    return states, mask


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize(("length", "size"), [(12, 4), (7, 7), (1, 1), (9, 3), (6, 1)])
def test_equals_softmax_attention(length, size, padding):
    states, mask = inputs(length, padding)
    states = states.double().unflatten(2, (HEADS, SIZE)).transpose(1, 2)
    query, key, value = states, states.roll(1, 2), states.flip(2)
    blocks = make_blocks(states[:, 0], mask, size)
    found = attend_in_cache(query, key, value, blocks.mask, size, 0.7)
    together = torch.arange(length) // size
    scores = (query @ key.transpose(-1, -2) * 0.7).masked_fill(together[:, None] != together, -torch.inf)
    if mask is not None:
        # In a block of padding alone everybody attends to everybody.
        real = mask | ~mask.view(BATCH, -1, size).any(-1).repeat_interleave(size, 1)
        scores = scores.masked_fill(~real[:, None, None], -torch.inf)
    torch.testing.assert_close(found, (scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
@pytest.mark.parametrize("padding", [False, True])
def test_inference_equals_training(module, monkeypatch, padding):
    states, mask = inputs(12, padding)
    blocks = make_blocks(states, mask, 4)
    calls = []
    attend = blockwise_attention.attend_in_cache
    monkeypatch.setattr(blockwise_attention, "attend_in_cache", lambda *args: calls.append(1) or attend(*args))
    expected, _ = module(states, blocks)
    assert not calls
    with torch.inference_mode():
        found, _ = module(states, blocks)
    assert calls
    torch.testing.assert_close(found, expected.detach())


@pytest.mark.parametrize("reason", ["gradients", "eager", "double", "small blocks", "large blocks", "received"])
def test_otherwise_as_ever(module, monkeypatch, reason):
    monkeypatch.setattr(blockwise_attention, "attend_in_cache", lambda *args: pytest.fail("not here"))
    states, mask = inputs(12, True)
    if reason == "eager":
        module.config._attn_implementation = "eager"
    elif reason == "double":
        module, states = module.double(), states.double()
    elif reason == "small blocks":
        monkeypatch.setattr(blockwise_attention, "LEAST_CACHED", 5)
    elif reason == "large blocks":
        monkeypatch.setattr(blockwise_attention, "MOST_CACHED", 3)
    with torch.set_grad_enabled(reason == "gradients"):
        output, _ = module(states, make_blocks(states, mask, 4), [] if reason == "received" else None)
    assert output.shape == states.shape


def test_block_length():
    assert block_length(5, None) == (5, 5)
    assert block_length(5, 8) == (5, 5)
    assert block_length(9, 4) == (4, 12)
