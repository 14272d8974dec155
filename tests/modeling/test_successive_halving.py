"""Successive halving top-k: the plain form against the paper's algorithm, the fast form against the plain one."""

import math

import pytest
import torch

from broadsheet.modeling.successive_halving import (
    descending,
    padded_length,
    plain_successive_halving,
    play,
    successive_halving_topk,
)
from broadsheet.modeling.topk_operators import chamfer_cosine, hard_topk

FORMS = (plain_successive_halving, successive_halving_topk)
SIZES = [(2, 64, 8, 5), (3, 57, 8, 4), (1, 8, 8, 3), (2, 9, 8, 3), (2, 33, 1, 3)]


def entries(batch: int, length: int, size: int, dtype: torch.dtype = torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.rand(batch, length, size, generator=generator, dtype=dtype) * 2 - 1
    return embeddings, torch.rand(batch, length, generator=generator, dtype=dtype)


def halve_by_hand(embeddings: torch.Tensor, scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Algorithm 1 of the paper, with loops, for one document: rounds of sorting and of a softmax of each pair."""
    vectors, values = list(embeddings), [float(score) for score in scores]
    while len(values) > k:
        order = sorted(range(len(values)), key=lambda place: -values[place])
        vectors, values = [vectors[place] for place in order], [values[place] for place in order]
        count = len(values)
        next_vectors, next_values = [], []
        for i in range(count // 2):
            j = count - 1 - i
            first = math.exp(20 ** values[i] - 20 ** values[j])
            first, second = first / (first + 1), 1 / (first + 1)
            next_vectors.append(first * vectors[i] + second * vectors[j])
            next_values.append(first * values[i] + second * values[j])
        vectors, values = next_vectors, next_values
    return torch.stack(vectors), torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("form", FORMS)
def test_the_papers_algorithm(form):
    embeddings, scores = entries(1, 64, 5)
    chosen, values = form(embeddings, scores, 8, preserve_order=False)
    by_hand, hand_values = halve_by_hand(embeddings[0], scores[0], 8)
    torch.testing.assert_close(chosen[0], by_hand)
    torch.testing.assert_close(values[0], hand_values)


@pytest.mark.parametrize("masked", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("peak", ["power", "exponential"])
@pytest.mark.parametrize("preserve_order", [True, False], ids=["in order", "as played"])
@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize(("batch", "length", "k", "size"), SIZES)
def test_fast_form_is_the_plain_one(batch, length, k, size, sort, preserve_order, peak, masked):
    embeddings, scores = entries(batch, length, size)
    counts = torch.tensor([length, 0, k + 1])[:batch] if masked else torch.full((batch,), length)
    mask = torch.arange(length) < counts[:, None] if masked else None
    real = torch.arange(k) < counts.clamp(max=k)[:, None]
    results = []
    for form in FORMS:
        vectors, values = embeddings.clone().requires_grad_(), scores.clone().requires_grad_()
        chosen, survivors = form(vectors, values, k, mask, peak, 20.0, sort, preserve_order)
        weights = torch.arange(chosen.numel(), dtype=torch.float64).view_as(chosen).sin()
        loss = (chosen * weights)[real].sum() + (survivors * weights[..., 0])[real].sum()
        loss.backward()
        results.append((chosen[real], survivors[real], vectors.grad, values.grad))
    for fast, plain in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(fast, plain, rtol=0, atol=1e-9)


@pytest.mark.parametrize("peak", ["power", "exponential"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("in_cache", [True, False], ids=["small", "large"])
def test_gradients(in_cache, sort, masked, peak, monkeypatch):
    monkeypatch.setattr("broadsheet.modeling.successive_halving.IN_CACHE", 1 << 20 if in_cache else 0)
    embeddings, scores = entries(2, 13, 3)
    mask = torch.arange(13) < torch.tensor([[13], [6]]) if masked else None
    inputs = embeddings.requires_grad_(), scores.requires_grad_()
    real = slice(None) if mask is None else torch.arange(4) < mask.sum(1, keepdim=True)

    def chosen(vectors, values):
        picked, survivors = successive_halving_topk(vectors, values, 4, mask, peak, sort=sort)
        return picked[real], survivors[real]

    assert torch.autograd.gradcheck(chosen, inputs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_changes_not_a_bit(dtype, sort, form):
    """Whatever stands in it and however much there is: alone, in its own tournament, and in a much longer one."""
    for length in (5, 16, 17, 31, 50):
        embeddings, scores = entries(1, length, 6, dtype)
        results = []
        for total in (max(length, 16), 64, 130, 512):
            vectors = torch.full((1, total, 6), 1e30, dtype=dtype)
            values = torch.full((1, total), 9.0, dtype=dtype)
            vectors[:, :length], values[:, :length] = embeddings, scores
            mask = torch.arange(total)[None] < length
            vectors.requires_grad_()
            values.requires_grad_()
            chosen, survivors = form(vectors, values, 16, mask, sort=sort)
            count = min(length, 16)
            (chosen[:, :count].sum() + survivors[:, :count].sum()).backward()
            assert (vectors.grad[:, length:] == 0).all()
            assert (values.grad[:, length:] == 0).all()
            results.append((chosen[:, :count], survivors[:, :count], vectors.grad[:, :length]))
        for other in results[1:]:
            for actual, expected in zip(other, results[0], strict=True):
                assert torch.equal(actual, expected)


@pytest.mark.parametrize("in_cache", [True, False], ids=["small", "large"])
def test_padding_is_never_read(in_cache, monkeypatch):
    monkeypatch.setattr("broadsheet.modeling.successive_halving.IN_CACHE", 1 << 20 if in_cache else 0)
    embeddings, scores = entries(2, 20, 4)
    mask = torch.arange(20) < torch.tensor([[20], [11]])
    results = []
    for padding in (0.0, math.nan):
        embeddings[1, 11:], scores[1, 11:] = padding, padding
        inputs = embeddings.clone().requires_grad_(), scores.clone().requires_grad_()
        outputs = successive_halving_topk(*inputs, 8, mask)
        results.append([*outputs, *torch.autograd.grad(outputs, inputs, [torch.ones_like(each) for each in outputs])])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_a_document_of_padding_alone_is_empty(form):
    embeddings, scores = entries(2, 20, 4)
    mask = torch.arange(20) < torch.tensor([[20], [0]])
    embeddings[1] = math.nan
    vectors, values = form(embeddings, scores, 8, mask)
    assert not vectors[1].any()
    assert not values[1].any()


@pytest.mark.parametrize("k", [8, 4])
@pytest.mark.parametrize("form", FORMS)
def test_padding_comes_last_wherever_it_stood(form, k):
    embeddings, scores = entries(1, 8, 3)
    mask = torch.tensor([[False, True, False, True, True, False, False, False]])
    vectors, values = form(embeddings, scores, k, mask)
    assert torch.equal(vectors[0, :3], embeddings[0, [1, 3, 4]])
    assert torch.equal(values[0, :3], scores[0, [1, 3, 4]])
    assert not vectors[0, 3:].any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("wide", "narrow"), [(torch.float64, torch.float32), (torch.float32, torch.bfloat16)])
def test_embeddings_and_scores_of_two_precisions(form, wide, narrow):
    embeddings, scores = entries(2, 16, 4)
    for one, other in ((wide, narrow), (narrow, wide)):
        inputs = embeddings.to(one).requires_grad_(), scores.to(other).requires_grad_()
        outputs = form(*inputs, 4)
        assert [each.dtype for each in outputs] == [one, other]
        gradients = torch.autograd.grad(outputs, inputs, [torch.ones_like(each) for each in outputs])
        assert [each.dtype for each in gradients] == [one, other]


@pytest.mark.parametrize("form", FORMS)
def test_padding_among_the_survivors_is_empty(form):
    """What stands behind the real survivors is 0 and passes no gradient on, even where a loss takes it along."""
    embeddings, scores = entries(2, 20, 4)
    mask = torch.arange(20) < torch.tensor([[5], [0]])
    vectors, values = embeddings.requires_grad_(), scores.requires_grad_()
    chosen, survivors = form(vectors, values, 8, mask)
    assert not chosen[0, 5:].any()
    assert not chosen[1].any()
    (chosen.sum() + survivors.sum()).backward()
    expected = mask.double()
    assert torch.equal(values.grad, expected)
    assert torch.equal(vectors.grad, expected.unsqueeze(-1).expand_as(vectors))


@pytest.mark.parametrize("preserve_order", [True, False], ids=["in order", "as played"])
@pytest.mark.parametrize("form", FORMS)
def test_few_entries_pass_as_they_are(form, preserve_order):
    embeddings, scores = entries(1, 32, 4)
    mask = torch.arange(32)[None] < 7
    chosen, survivors = form(embeddings, scores, 8, mask, preserve_order=preserve_order)
    assert torch.equal(chosen[:, :7], embeddings[:, :7])
    assert torch.equal(survivors[:, :7], scores[:, :7])


@pytest.mark.parametrize("form", FORMS)
def test_order_is_preserved(form):
    """With the place as the embedding and scores far apart, survivors are all but their stronger halves."""
    places = torch.arange(64, dtype=torch.float64).view(1, 64, 1)
    scores = torch.randperm(64, generator=torch.Generator().manual_seed(3)).double()[None] / 16
    chosen, survivors = form(places, scores, 8)
    assert (chosen[0, 1:, 0] > chosen[0, :-1, 0]).all()
    strongest = scores[0].topk(8).indices.sort().values.double()
    torch.testing.assert_close(chosen[0, :, 0], strongest, rtol=0, atol=1e-3)
    torch.testing.assert_close(survivors[0], scores[0, strongest.long()], rtol=0, atol=1e-3)
    played, _ = form(places, scores, 8, preserve_order=False)
    torch.testing.assert_close(played[0, :, 0].sort().values, chosen[0, :, 0])
    assert not torch.equal(played, chosen)


@pytest.mark.parametrize("form", FORMS)
def test_equal_scores_meet_in_the_order_of_the_text(form):
    embeddings = torch.eye(8, dtype=torch.float64)[None]
    chosen, _ = form(embeddings, torch.full((1, 8), 0.5, dtype=torch.float64), 4)
    expected = (torch.eye(8) + torch.eye(8).flip(1))[:4].double() / 2
    torch.testing.assert_close(chosen[0], expected)


@pytest.mark.parametrize(("k", "low", "high"), [(2048, 0.985, 0.990), (512, 0.968, 0.979), (128, 0.910, 0.940)])
def test_quality_is_the_papers(k, low, high):
    """Appendix B.5: uniform embeddings and scores, 8,192 entries of 32."""
    embeddings, scores = entries(2, 8192, 32, torch.float32)
    true = hard_topk(embeddings, scores, k)[0]
    qualities = [chamfer_cosine(form(embeddings, scores, k)[0], true).item() for form in FORMS]
    assert low < qualities[0] < high
    assert qualities[1] == pytest.approx(qualities[0], abs=1e-4)


def test_sorting_helps():
    embeddings, scores = entries(2, 4096, 32, torch.float32)
    true = hard_topk(embeddings, scores, 512)[0]
    errors = [
        1 - chamfer_cosine(successive_halving_topk(embeddings, scores, 512, sort=sort)[0], true).item()
        for sort in (True, False)
    ]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    """20^4 overflows float16: the weights are computed in float32."""
    embeddings, scores = entries(2, 64, 8, torch.float32)
    embeddings, scores = embeddings.to(dtype), (scores * 4).to(dtype)
    chosen, survivors = successive_halving_topk(embeddings, scores, 8)
    assert chosen.dtype == survivors.dtype == dtype
    expected, _ = successive_halving_topk(embeddings.double(), scores.double(), 8)
    torch.testing.assert_close(chosen.double(), expected, rtol=0, atol=2e-2)


def test_autocast():
    embeddings, scores = entries(2, 64, 8, torch.float32)
    expected = successive_halving_topk(embeddings, scores, 8)
    vectors, values = embeddings.requires_grad_(), scores.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        chosen, survivors = successive_halving_topk(vectors, values, 8)
        (chosen.sum() + survivors.sum()).backward()
    assert torch.equal(chosen, expected[0])
    assert torch.equal(survivors, expected[1])
    assert values.grad.isfinite().all()


def test_rounds():
    """The first meets the last; the scores of the next round are the pairs'."""
    _, scores = entries(2, 32, 1, torch.float32)
    rounds, survivors = play(scores, 4, False, "power", 20.0, True)
    assert [each.order.shape[1] for each in rounds] == [32, 16, 8]
    for order, values, weights in rounds:
        assert torch.equal(order, scores.sort(dim=1, descending=True, stable=True).indices)
        assert torch.equal(values, scores.gather(1, order))
        expected = torch.softmax(torch.stack([20**values, 20 ** values.flip(1)]), 0)[0]
        torch.testing.assert_close(weights, expected)
        half = values.shape[1] // 2
        scores = (weights * values)[:, :half] + (weights * values).flip(1)[:, :half]
    torch.testing.assert_close(survivors, scores)


def test_places_of_sorted_values():
    values = torch.tensor([[0.0, -0.0, 3.0, -1.5, 3.0, -math.inf, 1e-30]])
    assert descending(values).tolist() == [[2, 4, 6, 0, 1, 3, 5]]
    assert descending(values.double()).tolist() == [[2, 4, 6, 0, 1, 3, 5]]


def test_padded_lengths():
    assert [padded_length(n, 8) for n in (1, 8, 9, 16, 17, 100)] == [8, 8, 16, 16, 32, 128]


def test_bad_input():
    embeddings, scores = entries(2, 8, 3)
    with pytest.raises(ValueError, match=r"cannot choose k=9 of 8 entries; .*leave shorter inputs unpooled"):
        successive_halving_topk(embeddings, scores, 9)
    with pytest.raises(ValueError, match=r"cannot choose k=0"):
        successive_halving_topk(embeddings, scores, 0)
    with pytest.raises(ValueError, match=r"embeddings of the shape \[8, 3\]"):
        successive_halving_topk(embeddings[0], scores, 4)
    with pytest.raises(ValueError, match=r"mask has the shape \[2, 7\]"):
        successive_halving_topk(embeddings, scores, 4, torch.ones(2, 7))
