import math

import numpy as np
import pytest

from broadsheet.metrics import Perplexity, corpus_perplexity, merged_loss, perplexity
from broadsheet.metrics.bootstrap import bootstrap_weights
from broadsheet.tokenization.input_checks import InputError


def test_merging_weighs_by_tokens():
    # Three tokens of 1 nat in one batch, one of 5 nats in the other: 2 nats a token, not the batches' mean of 3.
    assert merged_loss([1.0, 5.0], [3, 1]) == 2
    result = corpus_perplexity([1.0, 5.0], [3, 1])
    assert result["perplexity"] == pytest.approx(math.exp(2))
    assert (result["loss"], result["tokens"], result["documents"]) == (2, 4, 2)


def test_merging_does_not_depend_on_the_batches():
    torch = pytest.importorskip("torch")
    logits = torch.randn(10, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([3, -100, 2, 6, 0, -100, -100, 5, 1, 4])
    whole = torch.nn.functional.cross_entropy(logits, labels).item()
    for size in (1, 3, 4, 10):
        parts = list(zip(logits.split(size), labels.split(size), strict=True))
        losses = [torch.nn.functional.cross_entropy(*part).item() for part in parts]
        tokens = [int((part[1] != -100).sum()) for part in parts]
        assert merged_loss(losses, tokens) == pytest.approx(whole, abs=1e-12)
        assert corpus_perplexity(losses, tokens)["perplexity"] == pytest.approx(perplexity(whole))


def test_batches_without_tokens():
    result = corpus_perplexity([math.nan, 2.0], [0, 5])
    assert (result["loss"], result["tokens"], result["documents"], result["interval"]) == (2, 5, 1, None)


def test_interval_equals_plain_resampling():
    losses, tokens, documents = [1.0, 3.0, 2.0, 0.5, 2.5], [4, 1, 9, 3, 2], ["a", "b", "a", "c", "d"]
    result = corpus_perplexity(losses, tokens, documents, bootstrap_samples=70, seed=6)
    groups = {"a": [0, 2], "b": [1], "c": [3], "d": [4]}
    values = []
    for row in bootstrap_weights(4, 70, seed=6):
        drawn = [i for group, times in zip(groups.values(), row, strict=True) for i in group * times]
        values.append(math.exp(merged_loss([losses[i] for i in drawn], [tokens[i] for i in drawn])))
    assert result["interval"]["perplexity"] == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist())
    low, high = result["interval"]["perplexity"]
    assert low < result["perplexity"] < high


def test_evaluate_metric(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    expected = corpus_perplexity([1.0, 5.0, 2.0], [3, 1, 2], seed=1)
    assert Perplexity().compute(losses=[1.0, 5.0, 2.0], tokens=[3, 1, 2], seed=1) == expected
    metric = Perplexity()
    metric.add_batch(losses=[1.0, 5.0], tokens=[3, 1])
    metric.add_batch(losses=[2.0], tokens=[2])
    assert metric.compute(seed=1) == expected


@pytest.mark.parametrize(
    ("losses", "tokens", "message"),
    [
        ([1.0], [1, 2], "1 losses but 2 counts of tokens"),
        ([], [], "no predicted tokens"),
        ([1.0], [0], "no predicted tokens"),
        ([1.0, 1.0], [3, -1], "Part 1 has -1 predicted tokens"),
        ([1.0], [1.5], "Part 0 has 1.5 predicted tokens; give a whole number"),
        ([math.nan], [3], "loss of part 0 over 3 tokens is nan"),
        ([math.inf], [3], "loss of part 0 over 3 tokens is inf"),
    ],
)
def test_bad_input(losses, tokens, message):
    with pytest.raises(InputError, match=message):
        merged_loss(losses, tokens)
    with pytest.raises(InputError, match=message):
        Perplexity().compute(losses=losses, tokens=tokens)
