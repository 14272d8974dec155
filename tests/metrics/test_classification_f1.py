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


def test_intervals_where_resamples_lack_a_class():
    intervals = classification_f1(["a", "b", "b"], ["a", "b", "b"])["interval"]
    assert intervals["macro_f1"] == [1.0, 1.0]
    assert intervals["types"] == {"a": [1.0, 1.0], "b": [1.0, 1.0]}


def test_bad_input():
    with pytest.raises(InputError, match="no documents"):
        classification_f1([], [])
    with pytest.raises(InputError, match="predictions for 1 documents but classes of 2"):
        classification_f1(["a"], ["a", "b"])


def test_by_length():
    true, predicted = ["a", "a", "b", "b"], ["a", "b", "b", "b"]
    result = classification_f1(predicted, true, lengths=[511, 512, 2048, 3000])
    assert result["by_length"] == {
        "512": {"documents": 3, "accuracy": pytest.approx(2 / 3)},
        "1024": {"documents": 2, "accuracy": 1.0},
        "2048": {"documents": 2, "accuracy": 1.0},
    }
    assert classification_f1(predicted, true, lengths=[600] * 4)["by_length"] == {}
    assert classification_f1(predicted, true)["by_length"] == {}
