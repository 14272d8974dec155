import math

import pytest
import torch

from broadsheet.modeling.etc_attention import EtcSelfAttention, etc_pattern
from broadsheet.modeling.relative_positions import RelativePositions
from broadsheet.modeling.rich_attention import RichAttention
from broadsheet.modeling.sparse_attention import differentiable_terms
from broadsheet.modeling.tracing import is_traced

HEADS, SIZE = 2, 4


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rich(num_axes=2, seed=1, scale=1.0):
    module = RichAttention(num_axes, HEADS, SIZE).double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(scale * randn(*parameter.shape, seed=seed + number))
    return module


def some_places(batch, length, axes=2, seed=5):
    """On a grid coarse enough for ties, up to a page wide."""
    generator = torch.Generator().manual_seed(seed)
    return 100.0 * torch.randint(0, 11, (batch, length, axes), generator=generator, dtype=torch.float64)


def by_the_paper(module, query, key, places):
    """Eq. 1 to 4 for one pair after the other."""
    batch, heads, length, _ = query.shape
    scores = torch.zeros(batch, heads, length, length, dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        for axis in range(module.num_axes):
            joined = torch.cat([query[b, h, i], key[b, h, j]])
            numbers = []
            for affine in (module.order, module.distance):
                weight = torch.cat([affine.query[axis, h], affine.key[axis, h]])
                numbers.append(weight @ joined + affine.bias[axis, h])
            x_i, x_j = places[b, i, axis], places[b, j, axis]
            order, distance = float(x_i < x_j), math.log(1 + abs(x_i - x_j))
            p, mu = 1 / (1 + torch.exp(-numbers[0])), numbers[1]
            scores[b, h, i, j] += order * torch.log(p) + (1 - order) * torch.log(1 - p)
            scores[b, h, i, j] -= module.theta[axis, h] ** 2 * (distance - mu) ** 2 / 2
    return scores


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_plain_form_is_the_paper(axes):
    module, query, key = rich(axes, scale=0.4), randn(1, HEADS, 5, SIZE), randn(1, HEADS, 5, SIZE, seed=2)
    places = some_places(1, 5, axes)
    expected = by_the_paper(module, query, key, places) + axes * math.log(2)
    torch.testing.assert_close(module.dense_terms(query, key, places), expected, rtol=1e-12, atol=1e-12)


def test_no_log_of_a_sigmoid():
    """A map that is sure of itself costs what it misses, not infinity."""
    module = rich(scale=300.0)
    terms = module.dense_terms(randn(1, HEADS, 6, SIZE), randn(1, HEADS, 6, SIZE, seed=2), some_places(1, 6))
    assert terms.isfinite().all()
    terms.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def attention(positions, hidden=HEADS * SIZE, dropout=0.0):
    module = EtcSelfAttention(hidden, HEADS, dropout, positions).double()
    with torch.no_grad():
        for number, parameter in enumerate(module.named_parameters()):
            if not parameter[0].startswith("positions"):
                parameter[1].copy_(0.5 * randn(*parameter[1].shape, seed=20 + number))
    return module


def patterns(length, radius, num_global, mask=None, batch=2, axes=2):
    """The same pattern for the plain form, the fast form, and the form by blocks for compilers."""
    shape = torch.Size((batch, length))
    places = some_places(batch, length, axes)
    made = [
        etc_pattern(mask, shape, places, radius, num_global, plain, torch.device("cpu")) for plain in (True, False)
    ]
    return *made, made[1]._replace(table=None)


def run(module, hidden, pattern):
    output = module(hidden, *pattern)
    output = output[0] if isinstance(output, tuple) else output
    weight = torch.sin(torch.arange(output.numel(), dtype=torch.float64)).view_as(output)
    gradients = torch.autograd.grad((output * weight).sum(), [hidden, *module.parameters()])
    return output, gradients


@pytest.mark.parametrize("positions", ["rich", "three axes", "relative", "none"])
@pytest.mark.parametrize(("length", "radius", "num_global"), [(1, 3, 1), (7, 1, 1), (50, 5, 2), (37, 100, 1)])
@pytest.mark.parametrize("padded", [False, True])
def test_forms_agree_in_values_and_gradients(positions, length, radius, num_global, padded):
    axes = 3 if positions == "three axes" else 2
    module = attention(
        {
            "rich": rich,
            "three axes": lambda: rich(3),
            "relative": lambda: relative(3),
            "none": lambda: None,
        }[positions]()
    )
    mask = None
    if padded:
        mask = torch.ones(2, length, dtype=torch.long)
        mask[1, length // 2 :] = 0
    hidden = randn(2, length + num_global, HEADS * SIZE, seed=3).requires_grad_()
    plain, *others = (
        run(module, hidden, pattern) for pattern in patterns(length, radius, num_global, mask, axes=axes)
    )
    for output, gradients in others:
        torch.testing.assert_close(output, plain[0], rtol=0, atol=1e-12)
        for mine, theirs in zip(gradients, plain[1], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-11)


def relative(clip):
    module = RelativePositions(clip, HEADS, SIZE).double()
    with torch.no_grad():
        module.weight.copy_(randn(*module.weight.shape, seed=8))
    return module


def test_everybody_sees_the_global_tokens_and_they_see_all():
    module = attention(None)
    plain, _, _ = patterns(20, 2, 2)
    hidden = randn(2, 22, HEADS * SIZE, seed=3)
    _, probabilities = module(hidden, *plain)
    assert (probabilities[..., 20:] > 0).all()
    offset = torch.arange(20)[None, :] - torch.arange(20)[:, None]
    assert ((probabilities[:, :, :, :20] > 0) == (offset.abs() <= 2)).all()
    changed = hidden.clone()
    changed[:, 19] += 1
    before, after = module(hidden, *plain)[0], module(changed, *plain)[0]
    assert (before[:, 20:] != after[:, 20:]).any(-1).all()
    assert torch.equal(before[:, :17], after[:, :17])


@pytest.mark.parametrize("num_axes", [1, 2, 3])
def test_zero_maps_and_theta_are_plain_attention_the_global_token_included(num_axes):
    zero, none = attention(RichAttention(num_axes, HEADS, SIZE)), attention(None)
    hidden = randn(2, 31, HEADS * SIZE, seed=3)
    for with_terms, without in zip(patterns(30, 4, 1, axes=num_axes), patterns(30, 4, 1), strict=True):
        outputs = [module(hidden, *each) for module, each in ((zero, with_terms), (none, without))]
        for mine, theirs in zip(*(each if isinstance(each, tuple) else (each,) for each in outputs), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["rich", "relative"])
def test_gradient_written_out_equals_autograd(kind):
    module = rich() if kind == "rich" else relative(3)
    length, block = 6, 4
    query, key = randn(1, HEADS, block, SIZE), randn(1, HEADS, length, SIZE, seed=2)
    numbers = [part.detach().unsqueeze(1) for part in module.numbers(query, key, some_places(1, length))]
    terms = module.terms(num_global=2)
    made, pull_back = differentiable_terms(terms, [part.clone() for part in numbers])
    numbers = [part.requires_grad_() for part in numbers]
    expected = terms(*numbers)
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-13)
    gradient = randn(*made.shape, seed=7)
    by_autograd = torch.autograd.grad(expected, numbers, gradient, allow_unused=True)
    for mine, theirs in zip(pull_back(gradient.clone()), by_autograd, strict=True):
        theirs = torch.zeros_like(mine) if theirs is None else theirs
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)
    assert (made[..., :2] == 0).all()


@pytest.mark.parametrize("fast", [True, False])
def test_figure_5(fast):
    """
    "If x_i is a noun and x_j an adjective, and x_i attends to x_j, then x_j stands to its left, and near."

    Of three adjectives crow attends to cunning: lazy is in the wrong order, sly is too far.
    """
    words = ["The", "sly", "fox", "and", "the", "cunning", "crow", "taunted", "lazy", "dogs"]
    nouns, adjectives = {"fox", "crow", "dogs"}, {"sly", "cunning", "lazy"}
    hidden = torch.zeros(1, len(words) + 1, 2, dtype=torch.float64)
    for place, word in enumerate(words):
        hidden[0, place] = torch.tensor([word in nouns, word in adjectives], dtype=torch.float64)
    module = EtcSelfAttention(2, 1, 0.0, RichAttention(1, 1, 2)).double()
    with torch.no_grad():
        for projection in (module.query, module.key, module.value):
            projection.weight.copy_(torch.eye(2))
            projection.bias.zero_()
        module.query.weight.copy_(torch.tensor([[0.0, 0], [30, 0]]))  # nouns look for adjectives
        order, distance = module.positions.order, module.positions.distance
        order.query[0, 0, 1], order.key[0, 0, 1] = -0.25, -0.5  # an adjective after its noun is wrong
        distance.bias.fill_(math.log(2))  # the next word
        module.positions.theta.fill_(3.0)
    places = torch.arange(len(words), dtype=torch.float64)[None, :, None]
    pattern = etc_pattern(None, torch.Size((1, len(words))), places, 20, 1, True, torch.device("cpu"))
    probabilities = module(hidden, *pattern)[1][0, 0]
    crow = dict(zip(words, probabilities[words.index("crow")].tolist(), strict=False))
    assert crow["cunning"] > 0.9
    assert crow["lazy"] < 0.01
    assert crow["sly"] < 0.01
    for noun, adjective in (("fox", "sly"), ("dogs", "lazy")):
        assert probabilities[words.index(noun)].argmax() == words.index(adjective)
    if fast:
        fast_pattern = etc_pattern(None, torch.Size((1, len(words))), places, 20, 1, False, torch.device("cpu"))
        torch.testing.assert_close(module(hidden, *fast_pattern), module(hidden, *pattern)[0])


def test_nothing_of_the_size_of_all_pairs_in_the_fast_form():
    length, largest = 1000, 0
    module = attention(rich())
    _, fast, blocks = patterns(length, 4, 1, batch=1)
    hidden = randn(1, length + 1, HEADS * SIZE, seed=3).requires_grad_()

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else (result,):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.numel())
            return result

    for pattern in (fast, blocks):
        with Watch():
            module(hidden, *pattern).sum().backward()
    assert not is_traced()
    assert largest < length * length / 4


def test_dropout_follows_the_seed_and_keeps_the_mean():
    module = attention(rich(), dropout=0.3).train()
    _, fast, _ = patterns(30, 4, 1)
    hidden = randn(2, 31, HEADS * SIZE, seed=3)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(module(hidden, *fast))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    mean = torch.stack([module(hidden, *fast) for _ in range(400)]).mean(0)
    assert (mean - module.eval()(hidden, *fast)).abs().mean() < 0.05 * mean.abs().mean() + 0.02


def test_half_precision_keeps_the_terms_exact():
    module = rich(scale=0.4)
    query, key = randn(1, HEADS, 9, SIZE).bfloat16(), randn(1, HEADS, 9, SIZE, seed=2).bfloat16()
    places = some_places(1, 9).float()
    half = module.bfloat16().dense_terms(query, key, places)
    assert half.dtype == torch.float32
    exact = module.double().dense_terms(query.double(), key.double(), places.double())
    torch.testing.assert_close(half.double(), exact, rtol=1e-5, atol=1e-5)
    numbers = module.bfloat16().numbers(query, key, places)
    assert {part.dtype for part in numbers} == {torch.float32}
