"""The cache with room is transformers' own, bit for bit, whatever is done to it."""

import copy

import pytest
import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, StaticLayer

from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.growing_cache import FIRST_ROOM, GrowingLayer, give_room


def states(length, seed, batch=2):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, 3, length, 4, generator=generator) for _ in range(2)]


def both(length, seed, *layers):
    batch = 2 if layers[0].keys is None else len(layers[0].keys)
    found = [layer.update(*states(length, seed, batch)) for layer in layers]
    for kept in zip(*found, strict=True):
        assert torch.equal(*kept)
    assert layers[0].get_seq_length() == layers[1].get_seq_length()
    return found[0]


@torch.no_grad()
def test_equals_transformers():
    layers = GrowingLayer(), DynamicLayer()
    both(5, 0, *layers)
    for step in range(1, 3 * FIRST_ROOM):
        both(1, step, *layers)
    both(7, 900, *layers)
    for each in layers:
        each.crop(-4)
    both(1, 902, *layers)
    for each in layers:
        each.batch_repeat_interleave(2)
    both(1, 903, *layers)
    for each in layers:
        each.batch_select_indices(torch.tensor([3, 0]))
    both(1, 904, *layers)
    both(1, 905, *copy.deepcopy(layers))
    both(1, 906, *layers)
    for step in range(907, 910):
        for each in layers:
            each.reorder_cache(torch.tensor([1, 0]))
        both(1, step, *layers)
    for each in layers:
        each.reset()
    both(2, 910, *layers)


@torch.no_grad()
def test_a_token_copies_no_other():
    layer = GrowingLayer()
    layer.update(*states(5, 0))
    place = layer.keys.data_ptr()
    for step in range(5, FIRST_ROOM):
        layer.update(*states(1, step))
    assert layer.keys.data_ptr() == place
    layer.update(*states(1, 99))
    assert layer.keys.data_ptr() != place


@torch.no_grad()
@pytest.mark.parametrize("seed", range(6))
def test_beams_are_reordered_as_in_transformers(seed):
    """Two documents of three beams that part and meet, further tokens, rooms that grow, a cropped cache."""
    generator = torch.Generator().manual_seed(seed)
    layers = GrowingLayer(), DynamicLayer()
    for each in layers:
        each.update(*states(1, 0, batch=6))
    for step in range(1, 3 * FIRST_ROOM):
        if step % 50 == 0:
            for each in layers:
                each.crop(-7)
        if torch.rand((), generator=generator) < 0.8:
            beams = torch.cat(
                [torch.randint(3, (3,), generator=generator), torch.randint(3, 6, (3,), generator=generator)]
            )
            for each in layers:
                each.reorder_cache(beams)
            assert torch.equal(layers[0].keys, layers[1].keys)
            assert torch.equal(layers[0].values, layers[1].values)
        both(1, step, *layers)


@torch.no_grad()
def test_only_what_was_written_since_beams_parted_is_copied():
    layer = GrowingLayer()
    for step in range(10):
        layer.update(*states(1, step))
    layer.reorder_cache(torch.tensor([0, 0]))
    layer.update(*states(1, 10))
    layer.keys[:, :, :10] = 0  # they have these in common: not read again
    layer.reorder_cache(torch.tensor([1, 0]))
    assert torch.equal(layer.keys[:, :, :10], torch.zeros(2, 3, 10, 4))
    assert torch.equal(layer.keys[:, :, 10:], states(1, 10)[0].flip(0))


@torch.no_grad()
def test_what_was_cropped_is_not_written_over():
    """A view that somebody holds stays as it was."""
    layer = GrowingLayer()
    held = layer.update(*states(5, 0))[0]
    before = held.clone()
    layer.crop(-3)
    layer.update(*states(2, 1))
    assert torch.equal(held, before)


def test_gradients_and_inference_mode():
    layers = GrowingLayer(), DynamicLayer()
    with torch.inference_mode():
        both(2, 0, *layers)
    with torch.no_grad():
        both(1, 1, *layers)
        both(1, 2, *layers)
    with torch.inference_mode():
        both(1, 3, *layers)
    new = [each.requires_grad_() for each in states(1, 4)]
    layer = GrowingLayer()
    layer.update(*new)
    layer.update(*new)[0].sum().backward()
    assert torch.equal(new[0].grad, torch.full_like(new[0], 2.0))


def test_only_plain_layers_are_replaced():
    cache = DynamicCache(config=PyramidionConfig())
    cache.layers[0] = StaticLayer(max_cache_len=4)
    give_room(cache)
    assert [type(layer) for layer in cache.layers] == [StaticLayer] + [GrowingLayer] * 5
