import pytest
from sklearn.metrics import accuracy_score, f1_score

from broadsheet.metrics import classification_f1
from broadsheet.tokenization.input_checks import InputError


def test_equals_sklearn():
    true = ["a", "b", "b", "c", "a", "a", "c"]
    predicted = ["a", "b", "a", "b", "a", "c", "c"]
    result = classification_f1(predicted, true)
    assert result["accuracy"] == result["f1"] == pytest.approx(accuracy_score(true, predicted))
    assert result["macro"]["f1"] == pytest.approx(f1_score(true, predicted, average="macro"))
    per_class = f1_score(true, predicted, average=None, labels=["a", "b", "c"])
    assert [result["types"][name]["f1"] for name in "abc"] == pytest.approx(per_class.tolist())
    low, high = result["interval"]["f1"]
    assert low <= result["accuracy"] <= high


def test_bad_input():
    with pytest.raises(InputError, match="no documents"):
        classification_f1([], [])
    with pytest.raises(InputError, match="predictions for 1 documents but classes of 2"):
        classification_f1(["a"], ["a", "b"])
