"""The other top-k operators, the scorers, pooling as a module, blockwise attention."""

import pytest
import torch

from broadsheet.modeling.blockwise_attention import block_length
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.modeling.representation_pooling import (
    AttentionScorer,
    LinearScorer,
    RepresentationPooling,
    make_scorer,
)
from broadsheet.modeling.topk_operators import (
    OPERATORS,
    chamfer_cosine,
    hard_topk,
    index_topk,
    iterative_topk,
    lapsum_probabilities,
    lapsum_topk,
    window_lengths,
)


def entries(batch: int = 2, length: int = 29, size: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.rand(batch, length, size, generator=generator, dtype=torch.float64) * 2 - 1
    return embeddings, torch.rand(batch, length, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", OPERATORS)
def test_padding_never_wins(name):
    """A document alone, and with padding of any length that scores highest."""
    operator = OPERATORS[name]
    for length in (29, 8, 5, 17):
        embeddings, scores = entries(1, length)
        results = []
        for total in (max(length, 8), 40, 64):
            vectors, values = torch.full((1, total, 4), 50.0).double(), torch.full((1, total), 9.0).double()
            vectors[:, :length], values[:, :length] = embeddings, scores
            mask = torch.arange(total)[None] < length
            torch.manual_seed(0)
            pooled, kept = operator.function(vectors, values, 8, mask=mask)
            count = int(operator.lengths(torch.tensor([length]), 8))
            assert pooled.shape == (1, 8, 4)
            assert kept.shape == (1, 8)
            assert count <= min(length, 8)
            results.append(pooled[:, :count])
        if name == "random":
            assert all((row == embeddings[0]).all(-1).any() for result in results for row in result[0])
            continue
        for result in results[1:]:
            torch.testing.assert_close(result, results[0])
        if length <= 8:
            torch.testing.assert_close(results[0][:, :length], embeddings)


@pytest.mark.parametrize("name", ["successive_halving", "hard", "index", "random", "mean", "max"])
def test_order_is_the_texts(name):
    places = torch.arange(29.0).double().view(1, 29, 1)
    pooled, _ = OPERATORS[name].function(places, entries(1)[1] * 3, 8)
    pooled = pooled[:, : int(OPERATORS[name].lengths(torch.tensor([29]), 8))]
    assert (pooled[0, 1:, 0] >= pooled[0, :-1, 0]).all()


def test_hard():
    embeddings, scores = entries()
    pooled, kept = hard_topk(embeddings, scores, 8, preserve_order=False)
    order = scores.argsort(1, descending=True)[:, :8]
    assert torch.equal(kept, scores.gather(1, order))
    assert torch.equal(pooled[1], embeddings[1, order[1]])


def test_iterative_nears_the_hard_one():
    embeddings, scores = entries()
    sharp, _ = iterative_topk(embeddings, scores, 8, sharpness=1e8)
    torch.testing.assert_close(sharp, hard_topk(embeddings, scores, 8)[0])
    rough, _ = iterative_topk(embeddings, scores, 8)
    assert chamfer_cosine(rough, hard_topk(embeddings, scores, 8)[0]) < 0.99


@pytest.mark.parametrize("operator", [iterative_topk, lapsum_topk])
def test_gradients(operator):
    embeddings, scores = entries(2, 13, 3)
    mask = torch.arange(13) < torch.tensor([[13], [9]])
    inputs = embeddings.requires_grad_(), scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda e, s: operator(e, s, 4, mask)[0], inputs)
    assert torch.autograd.grad(operator(*inputs, 4, mask)[0].sin().sum(), scores)[0].abs().max() > 0


def test_lapsum_probabilities_sum_to_k():
    _, scores = entries()
    mask = torch.arange(29) < torch.tensor([[29], [5]])
    chances = lapsum_probabilities(scores, 8, mask)
    torch.testing.assert_close(chances.sum(1), torch.tensor([8.0, 5.0]).double())
    assert ((chances >= 0) & (chances <= 1)).all()
    assert (chances[0].argsort() == scores[0].argsort()).all()
    assert torch.equal(chances[1], mask[1].double())


def test_even_places():
    places = torch.arange(32.0).view(1, 32, 1)
    assert index_topk(places, torch.zeros(1, 32), 8)[0].flatten().tolist() == list(range(0, 32, 4))
    mask = torch.arange(32)[None] < 20
    chosen = index_topk(places, torch.zeros(1, 32), 8, mask)[0].flatten()
    assert chosen.tolist() == [0, 3, 5, 8, 10, 13, 15, 18]


def test_windows():
    values = torch.arange(16.0).view(1, 16, 1)
    assert OPERATORS["mean"].function(values, values[..., 0], 4)[0].flatten().tolist() == [1.5, 5.5, 9.5, 13.5]
    assert OPERATORS["max"].function(values, values[..., 0], 4)[0].flatten().tolist() == [3.0, 7.0, 11.0, 15.0]
    mask = torch.arange(16)[None] < 6  # windows of two
    assert OPERATORS["mean"].function(values, values[..., 0], 4, mask)[0].flatten().tolist() == [0.5, 2.5, 4.5, 0.0]
    assert window_lengths(torch.tensor([1, 4, 5, 6, 8, 9, 16]), 4).tolist() == [1, 4, 3, 3, 4, 3, 4]


@pytest.mark.parametrize("name", ["linear", "nonlinear", "embedding", "index", "random"])
def test_scorers(name):
    scorer = make_scorer(name, 4).double().eval()
    hidden, _ = entries()
    mask = torch.arange(29) < torch.tensor([[29], [10]])
    scores = scorer(hidden, 8, mask, None)
    assert scores.shape == (2, 29)
    torch.testing.assert_close(scorer(hidden[1:, :10], 8, None, None)[0], scores[1, :10])
    if name == "index":
        assert scores.sum(1).tolist() == [8, 8]
    if name == "random":
        assert 0 <= scores.min() < 0.2 < 0.8 < scores.max() <= 1
        assert not torch.equal(scorer.train()(hidden), scores)


def test_pooling_module():
    hidden, _ = entries()
    pooling = RepresentationPooling(LinearScorer(4).double())
    pooled = pooling(hidden, 8)
    assert pooled.hidden_states.shape == (2, 8, 4)
    assert pooled.mask is None
    assert (pooled.scores > 0).all()
    pooled.hidden_states.sum().backward()
    assert pooling.scorer.weight.grad.abs().max() > 0
    mask = torch.arange(29) < torch.tensor([[29], [3]])
    assert pooling(hidden, 8, mask).mask.sum(1).tolist() == [8, 3]
    short = pooling(hidden[:, :5], 8)
    assert torch.equal(short.hidden_states, hidden[:, :5])
    assert pooling(hidden[:, :5], 8, mask[:, :5].long()).mask.dtype == torch.bool
    for operator in ("mean", "max"):
        windows = RepresentationPooling(None, operator)(hidden[:, :18], 8)
        assert windows.mask.sum(1).tolist() == [5, 5]
    with pytest.raises(ValueError, match="no operator 'soft'"):
        RepresentationPooling(LinearScorer(4), "soft")
    with pytest.raises(ValueError, match="'hard' reads scores; pass a scorer"):
        RepresentationPooling(None, "hard")
    with pytest.raises(ValueError, match="pass received"):
        RepresentationPooling(AttentionScorer(), "hard")(hidden, 8)
    for scorer, activation in ((AttentionScorer(), "sigmoid"), (LinearScorer(4), None)):
        with pytest.raises(ValueError, match="Scores without a limit overflow"):
            RepresentationPooling(scorer, score_activation=activation)
        RepresentationPooling(scorer, score_activation=activation, peak="exponential")


TINY = {
    "vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 2,
    "decoder_layers": 1, "block_size": 4, "max_source_length": 16, "encoder_lengths": [16, 4],
}  # fmt: skip


@pytest.mark.parametrize("length", [3, 4, 5, 16])
@pytest.mark.parametrize("operator", ["successive_halving", "iterative", "lapsum", "hard", "mean", "max", "random"])
def test_what_can_be_trained_gets_a_gradient_from_each_batch(operator, length, monkeypatch):
    """Of short documents, which are not pooled, too: training by several processes waits for all gradients."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    model = PyramidionForConditionalGeneration(PyramidionConfig(**TINY, operator=operator)).train()
    ids = torch.randint(5, 20, (2, length), generator=torch.Generator().manual_seed(0))
    model(input_ids=ids, labels=ids[:, :2]).loss.backward()
    lacking = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    assert not lacking
    learns = operator in ("successive_halving", "iterative", "lapsum")
    weight = model.pyramidion.encoder.pooling[1].scorer.weight
    assert weight.requires_grad == learns
    if learns:
        assert bool(weight.grad.any()) == (length > 4)


def test_blocks():
    assert [block_length(n, 8) for n in (3, 8, 9, 24)] == [(3, 3), (8, 8), (8, 16), (8, 24)]
    assert block_length(100, None) == (100, 100)


def test_presets():
    with torch.device("meta"):
        model = PyramidionForConditionalGeneration(PyramidionConfig.deep_pyramidion())
    assert sum(parameter.numel() for parameter in model.parameters()) == 123_818_502
    deep, early, block = (
        getattr(PyramidionConfig, name)() for name in ("deep_pyramidion", "deep_pyramidion_early", "deep_blockwise")
    )
    assert deep.layer_inputs() == [8192, 8192, 8192, 2048, 512, 512, 512]
    assert early.layer_inputs() == [8192, 8192, 2048, 512, 512, 512, 512]
    assert deep.layer_inputs(1000) == [1000] * 4 + [512] * 3
    costs = [config.attention_products() for config in (block, deep, early)]
    ratios = [costs[0]["self_attention"] / cost["self_attention"] for cost in costs]
    assert ratios == pytest.approx([1, 1.78, 2.46], abs=0.01)
    assert costs[0]["cross_attention"] == 16 * costs[1]["cross_attention"]
    assert PyramidionConfig.vanilla().block_size is None
    assert PyramidionConfig.transpooler(vocab_size=50).encoder_lengths == [8192, 512]
    assert PyramidionConfig.pyramidion().num_hidden_layers == 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"encoder_lengths": [8192]}, "has 1 lengths for 6 encoder layers"),
        ({"encoder_lengths": [8192, 8192, 4096, 3000, 512, 512]}, "goes from 4096 to 3000"),
        ({"encoder_lengths": [512, 8192, 512, 512, 512, 512]}, "goes from 512 to 8192"),
        ({"encoder_lengths": [8192] * 5 + [512], "scorer": None}, "needs scores"),
        (
            {"score_activation": None, "encoder_lengths": [8192] * 5 + [512]},
            'set score_activation="sigmoid", or peak="exponential"',
        ),
        ({"scorer": "attention"}, 'goes with operator="hard"'),
        ({"num_attention_heads": 7}, "no multiple"),
        ({"num_attention_heads": 0}, "num_attention_heads=0 is too small; set it to 1 or more"),
        ({"num_attention_heads": -8}, "num_attention_heads=-8 is too small"),
        ({"block_size": 0}, "block_size=0"),
        ({"peak_base": 0}, "peak_base=0 lets higher scores weigh no more"),
        ({"peak_base": float("nan")}, "peak_base=nan lets higher scores weigh no more"),
        ({"decoder_layers": 0}, "decoder_layers=0 is too small; set it to 1 or more"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0 is too small"),
        ({"max_source_length": 0}, "max_source_length=0 is too small"),
        ({"pad_token_id": 32000}, "pad_token_id=32000 is outside 0..31999; set vocab_size"),
        ({"hidden_dropout_prob": 1.5}, "no dropout rate"),
    ],
)
def test_impossible_configs(settings, sentence):
    with pytest.raises(Exception, match=sentence):
        PyramidionConfig(**settings)
