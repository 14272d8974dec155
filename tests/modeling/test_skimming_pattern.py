"""The k most attended tokens, ties and padding; tables equal to the mask; the attention over them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.modeling.recorded_dropout import record_dropout

from broadsheet.modeling.skimming_attention import SkimmingPattern, dense_pattern, skimming_attention
from broadsheet.modeling.skimming_pattern import (
    first_of_equals,
    morton_order,
    pattern_tables,
    table_products,
    top_k_mask,
)
from broadsheet.modeling.sparse_attention import dense_counts


def by_definition(scores: torch.Tensor, keys: torch.Tensor, top_k: int) -> torch.Tensor:
    """For each query all tokens sorted by (score, index), padding left out, the first k taken."""
    chosen = torch.zeros(scores.shape, dtype=torch.bool)
    batch, heads, length, _ = scores.shape
    for document in range(batch):
        real = [index for index in range(length) if keys[document, index]]
        for head in range(heads):
            for query in range(length):
                row = scores[document, head, query]
                for index in sorted(real, key=lambda index, row=row: (-float(row[index]), index))[:top_k]:
                    chosen[document, head, query, index] = True
    return chosen


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 14), top_k=st.integers(1, 16))
def test_the_k_most_attended(seed: int, length: int, top_k: int) -> None:
    """Scores of small integers, so that ties abound; padding at any place."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randint(-1, 2, (2, 3, length, 2), generator=generator).double()
    key = torch.randint(-1, 2, (2, 3, length, 2), generator=generator).double()
    keys = torch.rand(2, length, generator=generator) < 0.7
    expected = by_definition(query @ key.transpose(-1, -2), keys, top_k)
    assert torch.equal(top_k_mask(query, key, keys, None, top_k), expected)
    everything = torch.ones_like(keys)
    expected = by_definition(query @ key.transpose(-1, -2), everything, top_k)
    assert torch.equal(top_k_mask(query, key, None, None, top_k), expected)


def test_traced_and_not_traced_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randint(-1, 2, (2, 3, 9, 2), generator=generator).double()
    key = torch.randint(-1, 2, (2, 3, 9, 2), generator=generator).double()
    keys = torch.rand(2, 9, generator=generator) < 0.7
    expected = [top_k_mask(query, key, keys, None, k) for k in (1, 4, 9, 12)]
    monkeypatch.setattr("broadsheet.modeling.skimming_pattern.is_traced", lambda: True)
    for k, mask in zip((1, 4, 9, 12), expected, strict=True):
        assert torch.equal(top_k_mask(query, key, keys, None, k), mask)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 3, 9, 4, generator=generator) for _ in range(2))
    expected = top_k_mask(query, key, None, None, 4)
    monkeypatch.setattr("broadsheet.modeling.skimming_pattern.CHUNK", 60)
    assert torch.equal(top_k_mask(query, key, None, None, 4), expected)


def test_coincident_tokens_tie_exactly() -> None:
    """Rounding that differs from place to place must not decide between tokens with the same box."""
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(4, (1, 40), generator=generator)
    equals = first_of_equals(codes)
    for index in range(40):
        assert equals[0, index] == codes[0].tolist().index(codes[0, index])
    exact = torch.randn(1, 2, 4, 3, generator=generator, dtype=torch.float64)
    key = exact[:, :, codes[0]] * (1 + 1e-14 * torch.randn(40, 1, generator=generator, dtype=torch.float64))
    query = torch.randn(1, 2, 4, 3, generator=generator, dtype=torch.float64)[:, :, codes[0]]
    scores = (query @ exact.transpose(-1, -2))[..., codes[0]]
    query = query * (1 + 1e-14 * torch.randn(40, 1, generator=generator, dtype=torch.float64))
    expected = by_definition(scores, torch.ones(1, 40, dtype=torch.bool), 7)
    assert torch.equal(top_k_mask(query, key, None, equals, 7), expected)
    assert not torch.equal(top_k_mask(query, key, None, None, 7), expected)


def test_morton_order_is_the_curve() -> None:
    """Of a 4 x 4 grid, the quarters one after the other, each in the shape of a Z."""
    centers = torch.tensor([[x, y] for y in range(4) for x in range(4)])[None]
    expected = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert morton_order(centers)[0].tolist() == expected
    same = torch.full((1, 5, 2), 700)
    assert morton_order(same)[0].tolist() == [0, 1, 2, 3, 4]
    far = torch.tensor([[[2000, 0], [0, 2000], [1999, 1999]]])
    assert morton_order(far)[0].tolist() == [0, 1, 2]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    length=st.integers(1, 30),
    block=st.sampled_from([1, 4, 7]),
    density=st.sampled_from([0.05, 0.3, 1.0]),
)
def test_tables_say_what_the_mask_says(seed: int, length: int, block: int, density: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(2, 3, length, length, generator=generator) < density
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(2)])
    tables = pattern_tables(mask, order, block)
    counts = sum((dense_counts(table, 6 * length)[0] for table in tables), torch.zeros(6 * length, 6 * length).long())
    expected = torch.block_diag(*mask.flatten(0, 1).long())
    assert torch.equal(counts, expected)
    places = torch.cat([table.queries.flatten() for table in tables]) if tables else torch.zeros(0)
    assert sorted(places[places >= 0].tolist()) == mask.any(-1).flatten().nonzero().flatten().tolist()


def test_products_are_skipped() -> None:
    """Tokens that attend to their neighbours in the order: little more than the members is computed."""
    length, reach = 512, 16
    places = torch.arange(length)
    mask = ((places[:, None] - places).abs() <= reach).expand(1, 2, -1, -1)
    shuffled = torch.randperm(length, generator=torch.Generator().manual_seed(0))
    mask = mask[:, :, shuffled][..., shuffled]
    tables = pattern_tables(mask, shuffled.argsort()[None])
    assert table_products(tables) < 1.05 * 2 * length * (64 + 2 * reach)
    assert table_products(tables) < 0.2 * mask.numel()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_forms_agree_in_value_and_gradient(dropout: float) -> None:
    generator = torch.Generator().manual_seed(2)
    mask = torch.rand(2, 3, 21, 21, generator=generator) < 0.3
    mask[..., 0] = True
    order = torch.stack([torch.randperm(21, generator=generator) for _ in range(2)])
    tensors = [torch.randn(2, 3, 21, 5, generator=generator, dtype=torch.float64) for _ in range(3)]
    module = torch.nn.Module().train()
    patterns = {
        "eager": dense_pattern(mask, True, "eager"),
        "sdpa": dense_pattern(mask, False, "sdpa"),
        "sparse": SkimmingPattern(tables=pattern_tables(mask, order, 4)),
    }
    results = {}
    for name, pattern in patterns.items():
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        torch.manual_seed(0)
        # The sparse form draws its dropout in an order of its own: only without dropout must it be equal.
        output, probabilities = skimming_attention(
            module, *inputs, scaling=0.7, dropout=dropout, skimming_pattern=pattern
        )
        assert (probabilities is not None) == (name == "eager")
        assert output.shape == (2, 21, 3, 5)
        (output * torch.arange(output.numel()).view(output.shape).sin()).sum().backward()
        results[name] = [output.detach(), *(tensor.grad for tensor in inputs)]
    for name in ("sdpa", "sparse"):
        for actual, expected in zip(results[name], results["eager"], strict=True):
            if dropout:
                assert actual.isfinite().all()
            else:
                torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_sparse_dropout_keeps_the_mean_and_follows_the_seed() -> None:
    generator = torch.Generator().manual_seed(2)
    mask = torch.rand(1, 2, 16, 16, generator=generator) < 0.5
    mask[..., 0] = True
    query, key, value = (torch.randn(1, 2, 16, 4, generator=generator) for _ in range(3))
    pattern = SkimmingPattern(tables=pattern_tables(mask, torch.arange(16)[None], 4))
    module = torch.nn.Module()

    def run(seed: int, dropout: float) -> torch.Tensor:
        torch.manual_seed(seed)
        return skimming_attention(module, query, key, value, dropout=dropout, skimming_pattern=pattern)[0]

    assert torch.equal(run(1, 0.2), run(1, 0.2))
    assert not torch.equal(run(1, 0.2), run(2, 0.2))
    mean = torch.stack([run(seed, 0.2) for seed in range(600)]).mean(0)
    torch.testing.assert_close(mean, run(0, 0.0), rtol=0, atol=0.12)


def test_no_two_tables_draw_the_same_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = record_dropout(monkeypatch)
    generator = torch.Generator().manual_seed(2)
    mask = torch.ones(1, 2, 256, 256, dtype=torch.bool)
    mask[:, :, :128, 9:] = False
    tables = pattern_tables(mask, torch.arange(256)[None])
    assert len(tables) > 1
    query, key, value = torch.randn(3, 1, 2, 256, 4, generator=generator)
    skimming_attention(
        torch.nn.Module(), query, key, value, dropout=0.5, skimming_pattern=SkimmingPattern(None, tables)
    )
    assert len(set(drawn)) == len(drawn) > 1


def test_a_backbone_alone_has_no_pattern() -> None:
    tensor = torch.zeros(1, 1, 2, 2)
    with pytest.raises(ValueError, match="backbone of a SkimmingMask"):
        skimming_attention(torch.nn.Module(), tensor, tensor, tensor)
