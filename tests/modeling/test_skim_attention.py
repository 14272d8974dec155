"""The forms of skim-attention are one: values, gradients, masks. Dropout is in test_skim_dropout.py."""

from collections.abc import Callable

import pytest
import torch
from accelerate.utils import send_to_device
from tests.modeling.skim_inputs import FORMS, HEADS, attention, backward, key_mask, layout, read_layers, reading
from torch.utils._pytree import tree_map

from broadsheet.modeling import attention_blocks
from broadsheet.modeling.skim_attention import LayerGradients, SkimPattern, read_pattern, skim_probabilities

LENGTHS = [1, 2, 63]
# Elements of a block: one row at a time, a few rows, whole documents, everything at once.
BLOCKS = {"row": 1, "rows": HEADS * 63 * 5, "documents": 2 * HEADS * 63 * 63, "all": 1 << 21}


@pytest.fixture(params=BLOCKS.values(), ids=BLOCKS.keys())
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(attention_blocks, "CPU_BLOCK", request.param)
    return request.param


def by_hand(query: torch.Tensor, key: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Eq. 3 in loops."""
    result = torch.zeros(*query.shape[:3], key.shape[2], dtype=query.dtype)
    for b in range(len(query)):
        for h in range(query.shape[1]):
            for i in range(query.shape[2]):
                scores = torch.stack([query[b, h, i] @ key[b, h, j] for j in range(key.shape[2])])
                weights = (scores / query.shape[-1] ** 0.5).exp() * allowed[b]
                result[b, h, i] = weights / weights.sum()
    return result


def test_plain_probabilities_by_hand() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 2, 2, 7, 5, dtype=torch.float64, generator=generator)
    mask = key_mask(2, 7)
    torch.testing.assert_close(skim_probabilities(query, key, mask), by_hand(query, key, mask[:, 0, 0].double()))
    torch.testing.assert_close(skim_probabilities(query, key, None), by_hand(query, key, torch.ones(2, 7)))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "plain"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("length", LENGTHS)
def test_forms_agree(form: str, length: int, masked: bool, block: int) -> None:
    mask = key_mask(3, length) if masked else None
    expected, expected_gradients = backward(reading("plain", layout(3, length), mask))
    actual, actual_gradients = backward(reading(form, layout(3, length), mask))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(actual_gradients, expected_gradients, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [2, 5])
def test_gradcheck(form: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_blocks, "CPU_BLOCK", HEADS * length * 2)
    module, mask = attention(form), key_mask(2, length)

    def function(layout: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return read_layers(module(layout, mask, plain=form == "plain"), values)

    values = torch.randn(2, HEADS, length, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    assert torch.autograd.gradcheck(function, (layout(2, length), values.requires_grad_()))


@pytest.mark.parametrize("form", FORMS)
def test_document_of_padding_alone(form: str) -> None:
    mask = key_mask(3, 9)
    mask[1] = False
    outputs, gradients = backward(reading(form, layout(3, 9), mask))
    assert all(value.isfinite().all() for value in [outputs, *gradients.values()])
    others, _ = backward(reading(form, layout(3, 9), key_mask(3, 9)))
    torch.testing.assert_close(outputs[::2], others[::2])


def test_probabilities_of_padding_alone_are_uniform() -> None:
    query, key = torch.randn(2, 1, 2, 4, 5)
    mask = torch.zeros(1, 1, 1, 4, dtype=torch.bool)
    torch.testing.assert_close(skim_probabilities(query, key, mask), torch.full((1, 2, 4, 4), 0.25))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [1, 7, 63])
def test_equal_boxes_give_uniform_attention(form: str, length: int) -> None:
    """Equal layout: every token reads the mean of the values, exactly 1/n of each."""
    module = attention(form)
    same = layout(1, 1).detach().expand(2, length, -1)
    values = torch.randn(2, HEADS, length, 3, dtype=torch.float64)
    pattern = module(same, None, plain=form == "plain")
    if pattern.probabilities is not None:
        assert torch.allclose(pattern.probabilities, torch.full_like(pattern.probabilities, 1 / length), rtol=1e-14)
    expected = values.mean(2, keepdim=True).expand_as(values)
    torch.testing.assert_close(read_pattern(pattern, values), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_coincident_boxes_are_attended_to_alike(form: str) -> None:
    boxes = layout(1, 8).detach()
    boxes[:, 5] = boxes[:, 2]
    pattern = attention(form)(boxes, None, plain=form == "plain")
    values = torch.randn(1, HEADS, 8, 3, dtype=torch.float64)
    swapped = values.clone()
    swapped[:, :, [2, 5]] = values[:, :, [5, 2]]
    outputs = read_pattern(pattern, values)
    torch.testing.assert_close(read_pattern(pattern, swapped), outputs)  # as keys
    torch.testing.assert_close(outputs[:, :, 2], outputs[:, :, 5])  # as queries


def test_length_decides_the_form() -> None:
    module = attention("kept")
    module.recompute_length = 8
    assert module(layout(1, 8), None).probabilities is not None
    assert module(layout(1, 9), None).probabilities is None
    assert module(layout(1, 9), None, keep=True).probabilities is not None
    assert module(layout(1, 9), None, plain=True).returned is None


def test_gradient_into_the_kept_probabilities_themselves() -> None:
    """Loss on the attentions, alone and beside what the layers send back."""
    for weight in (0.0, 1.0):
        results = []
        for form in ("plain", "kept"):
            run = reading(form, layout(2, 9), key_mask(2, 9))
            probabilities = run.pattern.probabilities
            assert probabilities is not None
            loss = weight * run.outputs.sin().sum() + (probabilities**2 * torch.arange(9)).sum()
            loss.backward()
            results.append((run.layout.grad, run.module.query.weight.grad, run.module.key.weight.grad))
        torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("form", FORMS)
def test_backward_twice_doubles_the_gradient(form: str) -> None:
    run = reading(form, layout(2, 9), key_mask(2, 9))
    loss = run.outputs.sin().sum()
    loss.backward(retain_graph=True)
    once = run.gradients()
    loss.backward()
    torch.testing.assert_close(run.gradients(), {name: 2 * value for name, value in once.items()})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_loss_from_an_early_layer(form: str, layer: int) -> None:
    results = []
    for each in ("plain", form):
        run = reading(each, layout(2, 9), key_mask(2, 9))
        run.layers[layer].sin().sum().backward()
        results.append(run.gradients())
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("form", FORMS)
def test_losses_from_two_layers_one_after_the_other(form: str) -> None:
    results = []
    for each in ("plain", form):
        run = reading(each, layout(2, 9), key_mask(2, 9))
        run.layers[0].sin().sum().backward(retain_graph=True)
        run.layers[2].cos().sum().backward()
        results.append(run.gradients())
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("form", FORMS)
def test_gradient_of_the_values_alone_leaves_nothing_behind(form: str) -> None:
    """torch.autograd.grad for some inputs, then backward for all, as GradNorm does it."""
    results = []
    for each in ("plain", form):
        run = reading(each, layout(2, 9), key_mask(2, 9))
        loss = run.outputs.sin().sum()
        (first,) = torch.autograd.grad(loss, run.values, retain_graph=True)
        (other,) = torch.autograd.grad(run.layers[1].cos().sum(), run.values, retain_graph=True)
        loss.backward()
        results.append({**run.gradients(), "first": first, "other": other})
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("form", FORMS)
def test_wrapped_layers(form: str) -> None:
    """FSDP and accelerate rebuild the containers that they find among a layer's arguments."""
    results = []
    for each, rebuild in (("plain", False), (form, True)):
        module, inputs = attention(each), layout(2, 9)
        values = torch.randn(2, HEADS, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
        pattern = module(inputs, key_mask(2, 9), plain=each == "plain")
        for _ in range(5):
            arguments = list(pattern)
            if rebuild:
                arguments = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, arguments)
                arguments = send_to_device(arguments, torch.device("cpu"))
            values = values + read_pattern(SkimPattern(*arguments), values)
        values.sin().sum().backward()
        results.append((values, inputs.grad, module.query.weight.grad, module.key.weight.grad))
    torch.testing.assert_close(results[1], results[0])


def test_a_lost_gradient_is_an_error() -> None:
    pattern = attention("kept")(layout(1, 5), None)
    elsewhere = pattern._replace(returned=LayerGradients())
    with pytest.raises(RuntimeError, match="1 layers read the attention but 0 left their gradients"):
        read_pattern(elsewhere, torch.randn(1, HEADS, 5, 3, dtype=torch.float64)).sum().backward()


@pytest.mark.parametrize("form", FORMS)
def test_accumulated_gradients(form: str) -> None:
    """Two forwards before two backwards, in both orders: the graphs do not mix."""
    results = []
    for each, order in (("plain", (0, 1)), (form, (0, 1)), (form, (1, 0))):
        module = attention(each)
        runs = [reading(each, layout(2, length, seed=length), key_mask(2, length), module) for length in (9, 6)]
        for index in order:
            runs[index].outputs.sin().sum().backward()
        results.append({**runs[0].gradients(), "other": runs[1].layout.grad})
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", ["layout", "values", "parameters"])
def test_only_some_need_a_gradient(form: str, what: str) -> None:
    results = []
    for each in ("plain", form):
        run = reading(each, layout(2, 9).detach(), key_mask(2, 9), wants=what)
        run.outputs.sin().sum().backward()
        results.append(run.gradients())
    assert results[0]
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(form: str, dtype: torch.dtype) -> None:
    """Rounding alone: on average within some of the format's steps."""
    expected, expected_gradients = backward(reading("plain", layout(2, 33), key_mask(2, 33)))
    actual, actual_gradients = backward(reading(form, layout(2, 33), key_mask(2, 33), dtype=dtype))
    assert actual.dtype == dtype
    pairs = {name: (actual_gradients[name], value) for name, value in expected_gradients.items()}
    pairs.pop("key.bias")  # zero
    for name, (half, exact) in {**pairs, "outputs": (actual, expected)}.items():
        error = (half.double() - exact).abs().mean() / exact.abs().mean()
        assert error < 20 * torch.finfo(dtype).eps, name


@pytest.mark.parametrize("form", ["plain", "kept"])
def test_no_graph_without_gradients(form: str) -> None:
    with torch.no_grad():
        run = reading(form, layout(2, 9), None)
    assert not run.outputs.requires_grad
    with torch.inference_mode():
        reading(form, layout(2, 9), None)


def test_recomputed_keeps_nothing_quadratic() -> None:
    """What autograd saves for the recomputed form grows with the length, not with its square."""

    def saved(form: str, dropout: float) -> int:
        sizes: list[int] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            reading(form, layout(1, 200), key_mask(1, 200), attention(form, dropout))
        return max(sizes)

    assert saved("kept", 0.0) == HEADS * 200 * 200
    assert saved("recomputed", 0.1) < HEADS * 200 * 20
    assert saved("recomputed", 0.0) < HEADS * 200 * 20  # also where the values' head size is another than the query's


def test_pattern_is_read_with_the_layers_dtype() -> None:
    """Under autocast values may come in another precision than the pattern."""
    pattern = attention("kept")(layout(1, 5), None)
    read: Callable[[SkimPattern, torch.Tensor], torch.Tensor] = read_pattern
    assert read(pattern, torch.randn(1, HEADS, 5, 3, dtype=torch.float32)).dtype == torch.float64
