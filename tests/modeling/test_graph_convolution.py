import math

import pytest
import torch

from broadsheet.modeling import graph_convolution as module
from broadsheet.modeling.graph_convolution import GraphConvolution, SuperTokens, edge_features, gather_neighbors

SIZE = 6


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(dropout=0.0):
    made = GraphConvolution(SIZE, "gelu", 1e-6, dropout).double()
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            parameter.copy_(0.6 * randn(*parameter.shape, seed=number))
    return made


def graph(batch, length, seed=3):
    generator = torch.Generator().manual_seed(seed)
    neighbors = torch.randint(length, (batch, length, 10), generator=generator)
    exists = torch.rand(batch, length, 10, generator=generator) < 0.5
    exists[:, 0] = False
    return neighbors, exists


def boxes(batch, length, seed=4):
    generator = torch.Generator().manual_seed(seed)
    corners = 1000 * torch.rand(batch, length, 2, 2, generator=generator, dtype=torch.float64)
    return corners.sort(2).values.flatten(2)


def plain(layer, nodes, neighbors, exists, edges):
    """The paper's messages, one token after the other."""
    messages = layer.plain_messages(nodes, neighbors, edges)
    rows = []
    for document in range(nodes.shape[0]):
        for token in range(nodes.shape[1]):
            own = messages[document, token][exists[document, token]]
            received = torch.zeros(SIZE, dtype=nodes.dtype)
            if len(own):
                weights = (own @ layer.query(nodes[document, token]) / math.sqrt(SIZE)).softmax(0)
                received = weights @ own
            rows.append(layer.LayerNorm(nodes[document, token] + received))
    return torch.stack(rows).view_as(nodes)


@pytest.mark.parametrize("length", [1, 7, 40])
@pytest.mark.parametrize("recomputed", [False, True])
def test_equals_the_papers_messages(length, recomputed, monkeypatch):
    if recomputed:
        monkeypatch.setattr(module, "RECOMPUTE_LENGTH", 3)
        monkeypatch.setattr(module, "RECOMPUTE_PART", 9)
    convolution = layer()
    nodes = randn(2, length, SIZE, seed=9).requires_grad_()
    neighbors, exists = graph(2, length)
    edges = edge_features(boxes(2, length), neighbors)
    results = []
    for output in (convolution(nodes, neighbors, exists, edges), plain(convolution, nodes, neighbors, exists, edges)):
        weight = torch.sin(torch.arange(output.numel(), dtype=torch.float64)).view_as(output)
        inputs = [nodes, *convolution.parameters()]
        gradients = torch.autograd.grad((output * weight).sum(), inputs, allow_unused=True)
        results.append((output, gradients))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-11, atol=1e-12)
    for mine, theirs in zip(results[0][1], results[1][1], strict=True):
        theirs = torch.zeros_like(mine) if theirs is None else theirs
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


class Wrapped(torch.nn.Module):
    """A layer around another, as an adapter's, whose `weight` is not all there is to it."""

    def __init__(self, layer):
        super().__init__()
        self.base = layer

    @property
    def weight(self):
        return self.base.weight + 1

    @property
    def bias(self):
        return self.base.bias

    def forward(self, values):
        return self.base(values)


@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize(
    "names", [["edge"], ["message_edge"], ["message_output"], ["edge", "message_output", "query"]]
)
def test_other_layers_than_plain_ones_are_called(names, recomputed, monkeypatch):
    if recomputed:
        monkeypatch.setattr(module, "RECOMPUTE_LENGTH", 3)
        monkeypatch.setattr(module, "RECOMPUTE_PART", 9)
    convolution, nodes = layer(), randn(2, 20, SIZE, seed=9)
    neighbors, exists = graph(2, 20)
    edges = edge_features(boxes(2, 20), neighbors)
    results = []
    for wrapped in (False, True):
        if wrapped:
            for name in names:
                setattr(convolution, name, Wrapped(getattr(convolution, name)))
        output = convolution(nodes, neighbors, exists, edges)
        gradients = torch.autograd.grad(output.sin().sum(), convolution.parameters())
        results.append((output, gradients))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(sorted(g.norm() for g in results[1][1]), sorted(g.norm() for g in results[0][1]))


def test_edge_features():
    bbox = torch.tensor([[[100.0, 100, 200, 120], [260, 110, 300, 150], [150, 110, 160, 115]]], dtype=torch.float64)
    features = edge_features(bbox, torch.tensor([[[1, 2], [0, 2], [0, 1]]]))
    to_second = features[0, 0, 0]
    expected = [130, 20, 160, 10, 100, 30, 60, 0]
    torch.testing.assert_close(to_second[:8] * 1000, torch.tensor(expected, dtype=torch.float64))
    ratios = [math.log(21 / 101), math.log(41 / 41), math.log(51 / 201)]
    torch.testing.assert_close(to_second[8:], torch.tensor(ratios, dtype=torch.float64))
    torch.testing.assert_close(features[0, 1, 0, :8], -to_second[:8])
    assert features[0, 0, 1, 6:8].tolist() == [0, 0]  # one box in the other: no gap


def test_gather_neighbors():
    values = randn(2, 5, 3)
    neighbors = torch.randint(5, (2, 4, 2), generator=torch.Generator().manual_seed(0))
    expected = torch.stack([values[row][neighbors[row]] for row in range(2)])
    assert torch.equal(gather_neighbors(values, neighbors), expected)


def test_super_tokens_reach_as_far_as_there_are_layers():
    torch.manual_seed(0)
    super_tokens = SuperTokens(SIZE, 2, "gelu", 1e-6, 0.0).double().eval()
    length = 6
    chain = torch.full((1, length, 10), -1)
    chain[0, :-1, 0] = torch.arange(1, length)
    chain[0, 1:, 1] = torch.arange(length - 1)
    embeddings, bbox = randn(1, length, SIZE), boxes(1, length)
    before = super_tokens(embeddings, bbox, chain)
    changed = embeddings.clone()
    changed[0, 5] += 1
    after = super_tokens(changed, bbox, chain)
    assert (before != after).any(-1)[0].tolist() == [False, False, False, True, True, True]


def test_a_token_alone_keeps_its_own():
    torch.manual_seed(0)
    super_tokens = SuperTokens(SIZE, 3, "gelu", 1e-6, 0.0).double().eval()
    none = torch.full((1, 4, 10), -1)
    embeddings, bbox = randn(1, 4, SIZE), boxes(1, 4)
    together = super_tokens(embeddings, bbox, none)
    alone = super_tokens(embeddings[:, 1:2], bbox[:, 1:2], none[:, :1])
    torch.testing.assert_close(together[:, 1:2], alone)


def test_padding_is_nobodys_neighbour():
    torch.manual_seed(0)
    super_tokens = SuperTokens(SIZE, 2, "gelu", 1e-6, 0.0).double().eval()
    neighbors = torch.tensor([[[1, 2], [0, 2], [0, 1]]])
    bbox, mask = boxes(1, 3), torch.tensor([[1, 1, 0]])
    outputs = [super_tokens(randn(1, 3, SIZE) + shift, bbox, neighbors, mask)[:, :2] for shift in (0, pad(9.0))]
    assert torch.equal(*outputs)


def pad(value):
    shift = torch.zeros(1, 3, 1, dtype=torch.float64)
    shift[0, 2] = value
    return shift


def test_any_encoder_can_have_super_tokens():
    """Before a LayoutLM of transformers: its layers read them as embeddings."""
    from transformers import LayoutLMConfig, LayoutLMModel

    torch.manual_seed(0)
    config = LayoutLMConfig(
        vocab_size=30, hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
    )
    encoder, super_tokens = LayoutLMModel(config).eval(), SuperTokens(24, 2, "gelu", 1e-6, 0.0).eval()
    ids, bbox = torch.randint(30, (1, 7)), boxes(1, 7).floor()
    neighbors, exists = graph(1, 7)
    neighbors = neighbors.masked_fill(~exists, -1)
    embeddings = encoder.get_input_embeddings()(ids)
    made = super_tokens(embeddings, bbox.float(), neighbors)
    output = encoder(inputs_embeds=made, bbox=bbox.long()).last_hidden_state
    output.sum().backward()
    assert all(parameter.grad is not None for parameter in super_tokens.parameters())
