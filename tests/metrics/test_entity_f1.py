import math
import random

import numpy as np
import pytest
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2, IOBES

from broadsheet.metrics import EntityF1, entity_f1, perplexity
from broadsheet.metrics.bootstrap import bootstrap_weights
from broadsheet.tokenization.input_checks import InputError

ALPHABETS = {
    "IOB2": (IOB2, ["O", "B-A", "I-A", "B-B", "I-B"]),
    "IOBES": (IOBES, ["O", "B-A", "I-A", "E-A", "S-A", "S-B"]),
}


def sample(labels: list[str], documents: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    source = random.Random(seed)
    true = [[source.choice(labels) for _ in range(source.randint(1, 30))] for _ in range(documents)]
    predicted = [[word if source.random() < 0.7 else source.choice(labels) for word in doc] for doc in true]
    return predicted, true


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_seqeval_strict(scheme, seed):
    token, labels = ALPHABETS[scheme]
    predicted, true = sample(labels, 12, seed)
    expected = classification_report(true, predicted, mode="strict", scheme=token, output_dict=True, zero_division=0)
    result = entity_f1(predicted, true, scheme=scheme)
    for ours, theirs in ((result, "micro avg"), (result["macro"], "macro avg")):
        for name, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
            assert ours[name] == pytest.approx(expected[theirs][key], abs=1e-12)
    assert result["support"] == expected["micro avg"]["support"]
    for name in ("A", "B"):
        assert result["types"][name]["f1"] == pytest.approx(expected[name]["f1-score"], abs=1e-12)
        assert result["types"][name]["support"] == expected[name]["support"]


def test_by_hand():
    true = [["B-Q", "I-Q", "O", "B-A"], ["B-Q", "B-A", "I-A"]]
    predicted = [["B-Q", "O", "O", "B-A"], ["B-Q", "B-A", "I-A"]]
    result = entity_f1(predicted, true)
    assert result["precision"] == result["recall"] == result["f1"] == 0.75
    assert result["types"]["Q"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2, "predicted": 2}
    assert result["types"]["A"]["f1"] == 1
    assert result["macro"]["f1"] == 0.75
    assert result["documents"] == 2


def test_broken_sequences_are_no_entities():
    # conlleval's lenient reading would find Q here.
    result = entity_f1([["I-Q", "I-Q", "O"]], [["B-Q", "I-Q", "O"]])
    assert (result["precision"], result["recall"], result["f1"]) == (0, 0, 0)
    assert result["types"]["Q"]["predicted"] == 0


def test_nothing_predicted_and_nothing_there(recwarn):
    result = entity_f1([["O", "O"], ["O"]], [["B-Q", "O"], ["O"]])
    assert (result["precision"], result["recall"], result["f1"], result["support"]) == (0, 0, 0, 1)
    assert entity_f1([["O"], []], [["O"], []])["f1"] == 0
    assert not recwarn.list


def test_interval():
    predicted, true = sample(ALPHABETS["IOB2"][1], 40, 3)
    result = entity_f1(predicted, true, seed=7)
    low, high = result["interval"]["f1"]
    assert low < result["f1"] < high
    assert result["interval"] == entity_f1(predicted, true, seed=7)["interval"]
    assert result["interval"] != entity_f1(predicted, true, seed=8)["interval"]
    narrow = entity_f1(predicted, true, seed=7, confidence=0.5)["interval"]["f1"]
    assert low < narrow[0] < narrow[1] < high
    assert entity_f1(predicted[:1], true[:1])["interval"] is None
    assert entity_f1(predicted, true, bootstrap_samples=0)["interval"] is None


def test_interval_equals_plain_resampling():
    predicted, true = sample(ALPHABETS["IOB2"][1], 9, 4)
    values = []
    for row in bootstrap_weights(9, 50, seed=1):
        drawn = np.repeat(np.arange(9), row)
        values.append(entity_f1([predicted[i] for i in drawn], [true[i] for i in drawn], bootstrap_samples=0)["f1"])
    interval = entity_f1(predicted, true, bootstrap_samples=50, seed=1)["interval"]["f1"]
    assert interval == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist(), abs=1e-12)


def test_intervals_of_a_type_that_few_documents_have():
    true = [["B-Q"], ["B-A"], ["B-Q"], ["B-Q"]]
    intervals = entity_f1(true, true)["interval"]
    assert intervals["macro_f1"] == [1.0, 1.0]
    assert intervals["types"] == {"A": [1.0, 1.0], "Q": [1.0, 1.0]}
    predicted = [["B-Q"], ["B-A"], ["O"], ["B-Q"]]
    means, of_a_type = [], []
    for row in bootstrap_weights(4, 60, seed=2):
        drawn = np.repeat(np.arange(4), row)
        result = entity_f1([predicted[i] for i in drawn], [true[i] for i in drawn], bootstrap_samples=0)
        means.append(result["macro"]["f1"])
        if "Q" in result["types"]:
            of_a_type.append(result["types"]["Q"]["f1"])
    intervals = entity_f1(predicted, true, bootstrap_samples=60, seed=2)["interval"]
    assert intervals["macro_f1"] == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist(), abs=1e-12)
    assert intervals["types"]["Q"] == pytest.approx(np.quantile(of_a_type, [0.025, 0.975]).tolist(), abs=1e-12)


def test_evaluate_metric(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    predicted, true = sample(ALPHABETS["IOBES"][1], 6, 5)
    expected = entity_f1(predicted, true, scheme="IOBES", seed=3)
    assert EntityF1(scheme="IOBES").compute(predictions=predicted, references=true, seed=3) == expected
    metric = EntityF1(scheme="IOBES")
    metric.add_batch(predictions=predicted[:4], references=true[:4])
    metric.add_batch(predictions=predicted[4:], references=true[4:])
    assert metric.compute(seed=3) == expected


@pytest.mark.parametrize(
    ("predicted", "true", "options", "message"),
    [
        ([["O"]], [["O"]], {"scheme": "BIO"}, "no tagging scheme 'BIO'; choose one of IOB1, IOB2"),
        ([], [], {}, "no documents"),
        ([["O"]], [["O"], ["O"]], {}, "1 documents but labels of 2"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], {}, "Document 1 has 1 predicted but 2 true labels"),
        ([["B-X"]], [["O"]], {"labels": ["O", "B-A"]}, "predicted label 'B-X', which is none of the labels B-A, O"),
        ([["S-A"]], [["O"]], {}, r"label 'S-A' of word 0 of document 0 in predictions does not follow IOB2.*B, I, O"),
        ([["O"]], [["question"]], {}, "label 'question' of word 0 of document 0 in references"),
        ([[0, 1]], [[0, 1]], {}, "Document 0 has the predicted label 0, which is no text; pass the labels' names"),
        ([["O"]], [[None]], {"labels": ["O"]}, "Document 0 has the true label None, which is no text"),
        ([["O"]], [["O"]], {"confidence": 95}, "confidence 95 is not between 0 and 1"),
    ],
)
def test_bad_input(predicted, true, options, message):
    with pytest.raises(InputError, match=message):
        entity_f1(predicted, true, **options)


def test_bad_input_of_the_metric():
    with pytest.raises(InputError, match="no documents"):
        EntityF1().compute(predictions=[], references=[])
    with pytest.raises(InputError, match="no tagging scheme"):
        EntityF1(scheme="BIO")


def test_perplexity():
    assert perplexity(math.log(33.77)) == pytest.approx(33.77)
    assert perplexity(1e4) == math.inf
