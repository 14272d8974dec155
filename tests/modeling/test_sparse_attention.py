import pytest
import torch

from broadsheet.modeling import sparse_attention as module
from broadsheet.modeling.seeded_dropout import keep_mask, keep_scale
from broadsheet.modeling.sparse_attention import (
    BlockTable,
    dense_attention,
    dense_counts,
    dense_mask,
    mask_keys,
    sparse_attention,
    window_table,
)

HEADS, SIZE = 2, 5


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "CPU_CHUNK", 300)


def inputs(batch, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, length, HEADS, SIZE)
    return [
        torch.randn(shape, dtype=torch.float64, generator=generator).transpose(1, 2).requires_grad_() for _ in range(3)
    ]


def random_table(batch, length, block, keys, seed=0):
    """Blocks of a random order of the tokens, random keys, random members, some places empty."""
    generator = torch.Generator().manual_seed(seed)
    blocks = -(-length // block)
    queries = torch.full((batch, blocks * block), -1)
    for row in queries:
        row[:length] = torch.randperm(length, generator=generator)
    order = torch.rand(batch, blocks, length, generator=generator).argsort(-1)[..., :keys]
    order = order.masked_fill(torch.rand(order.shape, generator=generator) < 0.2, -1)
    members = torch.rand(batch, blocks, block, order.shape[-1], generator=generator) < 0.6
    return BlockTable(queries.view(batch, blocks, block), order, members)


def gradients(output, tensors, seed=1):
    weight = torch.randn(output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(seed))
    return torch.autograd.grad((output * weight).sum(), tensors)


def assert_equal(first, second, tensors):
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(gradients(first, tensors), gradients(second, tensors), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 63])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (3, 3), (2, 5), (80, 80)])
def test_window_equals_the_dense_form(length, before, after):
    table = window_table(length, before, after, block=8)
    offset = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    assert torch.equal(dense_mask(table, length)[0], (offset >= -before) & (offset <= after))
    tensors = inputs(2, length)
    assert_equal(sparse_attention(*tensors, table, 0.4), dense_attention(*tensors, table, 0.4), tensors)


@pytest.mark.parametrize("length", [1, 9, 31])
@pytest.mark.parametrize("shared", [True, False])
def test_random_tables_equal_the_dense_form(length, shared):
    table = random_table(1 if shared else 3, length, block=4, keys=6)
    tensors = inputs(3, length)
    assert_equal(sparse_attention(*tensors, table, 0.4), dense_attention(*tensors, table, 0.4), tensors)


def test_all_keys_are_full_attention():
    length = 11
    table = BlockTable(torch.arange(length)[None, None], torch.arange(length)[None, None])
    tensors = inputs(2, length)
    full = torch.nn.functional.scaled_dot_product_attention(*tensors, scale=0.4)
    assert_equal(sparse_attention(*tensors, table, 0.4), full, tensors)


def test_a_key_that_stands_twice_counts_twice():
    table = BlockTable(torch.tensor([[[0, 1]]]), torch.tensor([[[1, 1, 0]]]))
    assert dense_counts(table, 2).tolist() == [[[1, 2], [1, 2]]]
    tensors = inputs(1, 2)
    assert_equal(sparse_attention(*tensors, table, 0.4), dense_attention(*tensors, table, 0.4), tensors)


def test_padding_and_documents_of_padding_alone():
    mask = torch.ones(3, 37, dtype=torch.long)
    mask[1, 20:] = 0
    mask[2] = 0
    table = mask_keys(window_table(37, 4, 4, 8), mask)
    tensors = inputs(3, 37)
    output = sparse_attention(*tensors, table, 0.4)
    assert_equal(output, dense_attention(*tensors, table, 0.4), tensors)
    assert torch.equal(output[2], torch.zeros_like(output[2]))
    alone = [tensor[1:2, :, :20] for tensor in tensors]
    torch.testing.assert_close(output[1:2, :, :20], sparse_attention(*alone, window_table(20, 4, 4, 8), 0.4))


def test_tokens_that_attend_to_none_are_zero_and_get_no_gradient():
    table = BlockTable(
        torch.tensor([[[0, 2, -1]]]), torch.tensor([[[0, 1]]]), torch.tensor([[[[1, 1], [0, 0], [1, 1]]]]).bool()
    )
    tensors = inputs(1, 4)
    output = sparse_attention(*tensors, table, 0.4)
    assert output[:, :, 0].abs().min() > 0
    assert torch.equal(output[:, :, 1:], torch.zeros_like(output[:, :, 1:]))
    for gradient in gradients(output, tensors[:1]):
        assert torch.equal(gradient[:, :, 1:], torch.zeros_like(gradient[:, :, 1:]))


def terms(queries, keys):
    sine = torch.sin(queries[..., :, None, 0] + keys[..., None, :, 0])
    return sine * keys[..., None, :, 1] - queries[..., :, None, 1]


def test_additive_terms_and_their_gradients():
    table = random_table(2, 13, block=4, keys=7)
    generator = torch.Generator().manual_seed(4)
    numbers = [
        torch.randn(2, HEADS, 13, 2, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2)
    ]
    tensors = inputs(2, 13)
    sparse = sparse_attention(*tensors, table, 0.4, terms=terms, query_numbers=numbers[0], key_numbers=numbers[1])
    assert_equal(sparse, dense_attention(*tensors, table, 0.4, terms(*numbers)), [*tensors, *numbers])


def test_dropout_is_drawn_from_the_seed_and_its_gradient_is_exact():
    length, rate = 6, 0.3
    table = BlockTable(torch.arange(length)[None, None], torch.arange(length)[None, None])
    tensors = inputs(2, length)
    query, key, value = tensors
    keep = keep_mask((2, 1, HEADS, length, length), rate, 5)[:, 0].double() * keep_scale(rate)
    plain = ((query @ key.transpose(-1, -2) * 0.4).softmax(-1) * keep) @ value
    assert_equal(sparse_attention(*tensors, table, 0.4, dropout=rate, seed=5), plain, tensors)
    other = sparse_attention(*tensors, table, 0.4, dropout=rate, seed=6)
    assert not torch.equal(other, plain)


def test_gradcheck():
    table = mask_keys(window_table(5, 1, 1, 2), torch.tensor([[1, 1, 1, 1, 0]]))
    assert torch.autograd.gradcheck(lambda *qkv: sparse_attention(*qkv, table, 0.4), inputs(1, 5))


def test_half_precision_is_near_and_keeps_its_type():
    table = window_table(33, 4, 4, 8)
    tensors = [tensor.detach().bfloat16() for tensor in inputs(2, 33)]
    output = sparse_attention(*tensors, table, 0.4)
    assert output.dtype == torch.bfloat16
    exact = dense_attention(*(tensor.double() for tensor in tensors), table, 0.4)
    torch.testing.assert_close(output.double(), exact, rtol=2e-2, atol=2e-2)


def test_half_precision_gradients_of_keys_in_many_blocks():
    table = window_table(256, 256, 256, 4)
    made = []
    for attend, dtype in ((sparse_attention, "bfloat16"), (dense_attention, "bfloat16"), (dense_attention, "float64")):
        tensors = [tensor.detach().bfloat16().to(getattr(torch, dtype)).requires_grad_() for tensor in inputs(1, 256)]
        output = attend(*tensors, table, 0.4)
        made.append(torch.autograd.grad((output + output.square()).sum(), tensors))
    for by_blocks, in_one, exact in zip(*made, strict=True):
        assert by_blocks.dtype == torch.bfloat16
        assert (by_blocks - exact).norm() < 1.5 * (in_one - exact).norm()
