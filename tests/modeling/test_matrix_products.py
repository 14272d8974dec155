"""oneDNN's products equal torch's: values, gradients, strides; and everything else stays torch's own."""

import pytest
import torch
from torch import nn

from broadsheet.modeling import matrix_products
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.matrix_products import Linear, multiply, packed_weights
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.modeling.modeling_skimformer import SkimformerForTokenClassification

pytestmark = [
    pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN"),
    pytest.mark.filterwarnings("ignore:TF32 acceleration"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Every product in oneDNN's kernels, however small, and the shapes of their outputs."""
    monkeypatch.setattr(matrix_products, "WORTHWHILE", 1)
    made: list[tuple[int, ...]] = []
    product = matrix_products._product

    def counted(*arguments: torch.Tensor) -> torch.Tensor:
        result = product(*arguments)
        made.append(tuple(result.shape))
        return result

    monkeypatch.setattr(matrix_products, "_product", counted)
    return made


def gradients(layer: nn.Linear, inputs: torch.Tensor) -> list[torch.Tensor]:
    inputs = inputs.detach().requires_grad_()
    output = layer(inputs)
    output.backward(torch.sin(torch.arange(output.numel(), dtype=inputs.dtype)).view(output.shape))
    found = [output.detach(), inputs.grad, *(parameter.grad.clone() for parameter in layer.parameters())]
    layer.zero_grad()
    return found


@pytest.mark.parametrize("shape", [(5,), (1, 5), (63, 5), (2, 3, 7, 5)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_linear_equals_torchs(shape: tuple[int, ...], bias: bool, calls: list) -> None:
    torch.manual_seed(0)
    layer, inputs = Linear(5, 7, bias=bias), torch.randn(shape)
    ours = gradients(layer, inputs)
    assert len(calls) == 3
    with torch.backends.mkldnn.flags(enabled=False):
        expected = gradients(layer, inputs)
    assert len(calls) == 3
    for actual, wanted in zip(ours, expected, strict=True):
        torch.testing.assert_close(actual, wanted)
        assert actual.stride() == wanted.stride()


def test_linear_of_strided_and_of_no_rows(calls: list) -> None:
    layer = Linear(6, 4)
    inputs = torch.randn(6, 10).t()
    torch.testing.assert_close(layer(inputs), nn.functional.linear(inputs, layer.weight, layer.bias))
    every_second = torch.randn(10, 12)[:, ::2]
    torch.testing.assert_close(layer(every_second), nn.functional.linear(every_second, layer.weight, layer.bias))
    assert len(calls) == 2
    assert layer(torch.randn(0, 6)).shape == (0, 4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_packed_weights(rows: int, bias: bool, calls: list) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Linear(48, 33, bias=bias), nn.ReLU())
    layer, inputs = model[0], torch.randn(33, rows, 48).transpose(0, 1)[:, 0]
    many = torch.randn(matrix_products.FEW_ROWS + 1, 48)
    expected = nn.functional.linear(inputs, layer.weight, layer.bias)
    with torch.no_grad(), packed_weights(model):
        for _ in range(matrix_products.PRODUCTS_TO_PAY):
            torch.testing.assert_close(layer(inputs), expected)
            layer(many)
        assert layer._packed is not None
        assert layer._packed._packed is None, "a few products are not worth a copy"
        for _ in range(3):
            torch.testing.assert_close(layer(inputs), expected)
        assert layer._packed._packed is not None
        assert layer.state_dict().keys() == ({"weight", "bias"} if bias else {"weight"})
        counted = len(calls)
        layer(inputs)
        assert len(calls) == counted, "few rows are multiplied with the copy"
        layer(many)
        with torch.enable_grad():
            assert layer(inputs).requires_grad
        assert len(calls) == counted + 2, "many rows and gradients are not"
    assert layer._packed is None


def test_packed_weights_are_worth_it_for_smaller_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_products, "WORTHWHILE", 48 * 32 * 3)
    layer, one, two = Linear(48, 32), torch.randn(1, 48), torch.randn(2, 48)
    native = nn.functional.linear(two, layer.weight, layer.bias)
    with torch.no_grad(), packed_weights(layer):
        for _ in range(matrix_products.PRODUCTS_TO_PAY + 1):
            layer(one)
        assert layer._packed is not None
        assert layer._packed._packed is not None
        torch.testing.assert_close(layer(two), native)
        with torch.enable_grad():
            assert layer(two).grad_fn.name() == "AddmmBackward0", "torch's own"
        assert layer(torch.randn(0, 48)).shape == (0, 32)


def test_packed_weights_go_with_an_error() -> None:
    layer = Linear(4, 3)

    def interrupted() -> None:
        with packed_weights(layer):
            assert layer._packed is not None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert layer._packed is None


@pytest.mark.usefixtures("calls")
def test_generation_with_packed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    config = PyramidionConfig.pyramidion(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=32,
        num_attention_heads=2,
        max_source_length=32,
        encoder_lengths=[32, 16, 8],
        block_size=16,
    )
    model = PyramidionForConditionalGeneration(config).eval()
    layers = [layer for layer in model.modules() if isinstance(layer, Linear)]
    document = torch.arange(50).view(2, 25)
    linear, packed = matrix_products._linear, []

    def watched(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        packed.append(weight.is_mkldnn)
        return linear(rows, weight, bias)

    monkeypatch.setattr(matrix_products, "_linear", watched)

    def write() -> list[torch.Tensor]:
        settings = {"min_new_tokens": 30, "max_new_tokens": 30, "do_sample": False}
        texts = [model.generate(document, num_beams=beams, **settings) for beams in (1, 3)]
        assert not any(layer._packed for layer in layers)
        return texts

    found = write()
    assert any(packed)
    packed.clear()
    monkeypatch.setattr(matrix_products, "PRODUCTS_TO_PAY", 10**6)
    expected = write()
    assert not any(packed)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_gradient_of_the_gradient(calls: list) -> None:
    layer, inputs = Linear(3, 2), torch.randn(4, 3, requires_grad=True)

    def penalty(function: nn.Module) -> list[torch.Tensor]:
        (gradient,) = torch.autograd.grad(function(inputs).pow(3).sum(), inputs, create_graph=True)
        return list(torch.autograd.grad(gradient.square().sum(), [layer.weight, inputs]))

    ours = penalty(layer)
    assert calls
    with torch.backends.mkldnn.flags(enabled=False):
        torch.testing.assert_close(ours, penalty(layer))


@pytest.mark.parametrize("transposed", [(), ("left",), ("right",), ("left", "right")], ids=str)
@pytest.mark.parametrize("heads", ["contiguous", "split"])
def test_multiply_equals_matmul(transposed: tuple[str, ...], heads: str, calls: list) -> None:
    def factor(rows: int, columns: int, flip: bool) -> torch.Tensor:
        shape = (columns, rows) if flip else (rows, columns)
        if heads == "split":  # as projections leave them: [batch, length, heads, size] in memory
            tensor = torch.randn(2, shape[0], 3, shape[1]).transpose(1, 2)
        else:
            tensor = torch.randn(2, 3, *shape)
        return tensor.transpose(-1, -2) if flip else tensor

    left, right = factor(7, 5, "left" in transposed), factor(5, 9, "right" in transposed)
    torch.testing.assert_close(multiply(left, right), left @ right)
    assert len(calls) == 6


@pytest.mark.parametrize(
    "reason", ["small", "double", "half", "autocast", "subclass", "switched off", "compiled"], ids=str
)
def test_otherwise_torchs_own(reason: str, calls: list, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, inputs = Linear(5, 7), torch.randn(11, 5)
    if reason == "small":
        monkeypatch.setattr(matrix_products, "WORTHWHILE", 1000)
    elif reason == "double":
        layer, inputs = layer.double(), inputs.double()
    elif reason == "half":
        layer, inputs = layer.bfloat16(), inputs.bfloat16()
    elif reason == "subclass":

        class Quantised(torch.Tensor):
            pass

        inputs = inputs.as_subclass(Quantised)
    elif reason == "compiled":
        monkeypatch.setattr(matrix_products, "is_traced", lambda: True)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=reason == "autocast"),
        torch.backends.mkldnn.flags(enabled=reason != "switched off"),
    ):
        output = layer(inputs)
        multiply(inputs, inputs.t())
    assert output.shape == (11, 7)
    assert calls == []


@pytest.mark.parametrize("contextualize", [False, True])
@pytest.mark.parametrize("recompute_length", [0, 4096])
def test_skimformer_is_the_same(contextualize: bool, recompute_length: int, calls: list) -> None:
    config = SkimformerConfig(
        vocab_size=50,
        hidden_size=24,
        hidden_layout_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_attention_heads_layout_encoder=2,
        skim_attention_head_size=8,
        intermediate_size=40,
        contextualize_layout=contextualize,
        skim_recompute_length=recompute_length,
        num_labels=3,
    )
    torch.manual_seed(0)
    model = SkimformerForTokenClassification(config).train()
    batch = {
        "input_ids": torch.randint(1, 50, (2, 17)),
        "bbox": torch.randint(0, 500, (2, 17, 2)).repeat(1, 1, 2).sort(-1).values,
        "attention_mask": torch.tensor([[1] * 17, [1] * 9 + [0] * 8]),
        "labels": torch.randint(0, 3, (2, 17)),
    }

    def run() -> dict[str, torch.Tensor]:
        torch.manual_seed(1)  # of the dropout
        model.zero_grad()
        outputs = model(**batch)
        outputs.loss.backward()
        found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        return {"logits": outputs.logits.detach(), **found}

    ours = run()
    assert calls
    with torch.backends.mkldnn.flags(enabled=False):
        expected = run()
    for name, value in expected.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: name + text)
