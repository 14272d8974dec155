import torch
from benchmarks.matrix_products import TensorLike, make_replay, record
from torch import nn


def test_products_of_a_training_step():
    layer, inputs = nn.Linear(5, 7), torch.randn(11, 5, requires_grad=True)
    products, flops = record(lambda: layer(inputs).relu().sum().backward())
    assert len(products) == 3  # forward, gradient of the inputs, gradient of the weight
    assert flops == 3 * 2 * 11 * 5 * 7
    shapes = {argument.shape for product in products for argument in product.args if isinstance(argument, TensorLike)}
    assert (11, 5) in shapes


def test_products_of_inference():
    layer, inputs = nn.Linear(5, 7), torch.randn(3, 11, 5)
    with torch.inference_mode():
        products, flops = record(lambda: layer(inputs))
    assert [product.function._schema.name for product in products] == ["aten::addmm"]
    assert flops == 2 * 3 * 11 * 5 * 7


def test_attention_is_counted_fused_and_unfused():
    query = torch.randn(1, 2, 16, 8)
    fused, flops = record(lambda: nn.functional.scaled_dot_product_attention(query, query, query))
    plain, plain_flops = record(lambda: (query @ query.transpose(-1, -2)).softmax(-1) @ query)
    assert [product.function._schema.name for product in plain] == ["aten::bmm", "aten::bmm"]
    assert len(fused) == 1
    assert flops == plain_flops == 2 * 2 * 2 * 16 * 16 * 8


def test_replay_computes_the_products_and_nothing_else():
    layer, inputs = nn.Linear(5, 7), torch.randn(11, 5)
    products, flops = record(lambda: layer(layer(inputs)[:, :5].tanh()))
    replayed, again = record(make_replay(products))
    assert [product.function for product in replayed] == [product.function for product in products]
    assert [product.args for product in replayed] == [product.args for product in products]
    assert again == flops
