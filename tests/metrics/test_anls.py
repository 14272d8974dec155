import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadsheet.metrics import Anls, anls, answer_similarity
from broadsheet.metrics.anls import levenshtein
from broadsheet.metrics.bootstrap import bootstrap_weights
from broadsheet.tokenization.input_checks import InputError


# The first three are the classical examples of the distance.
@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("kitten", "sitting", 3), ("saturday", "sunday", 3), ("flaw", "lawn", 2), ("", "abc", 3), ("", "", 0)],
)
def test_levenshtein(first, second, distance):
    assert levenshtein(first, second) == levenshtein(second, first) == distance


@given(st.text("ab c", max_size=8), st.text("ab c", max_size=8))
def test_levenshtein_equals_the_recursion(first, second):
    def plain(i: int, j: int) -> int:
        if min(i, j) == 0:
            return max(i, j)
        if (i, j) not in memory:
            change = plain(i - 1, j - 1) + (first[i - 1] != second[j - 1])
            memory[i, j] = min(change, plain(i - 1, j) + 1, plain(i, j - 1) + 1)
        return memory[i, j]

    memory: dict[tuple[int, int], int] = {}
    assert levenshtein(first, second) == plain(len(first), len(second))


# The questions of the metric card of ANLS in huggingface/evaluate (metrics/anls), with the values of the definition.
CARD = (
    ["Denver Broncos", "12/15/89", "Dear dr. Lobo"],
    [["Denver Broncos", "Denver R. Broncos"], ["12/15/88"], ["Dear Dr. Lobo", "Dr. Lobo"]],
)


def test_metric_card():
    result = anls(*CARD)
    assert result["anls"] == pytest.approx((1 + 7 / 8 + 1) / 3)
    assert result["exact"] == pytest.approx(2 / 3)
    assert (result["questions"], result["documents"]) == (3, 3)


@pytest.mark.parametrize(
    ("prediction", "answers", "similarity"),
    [
        ("  New   YORK ", ["new york"], 1),
        ("$500", ["500"], 0.75),
        # At the threshold it counts ("equal or bigger than 0.5", task page of DocVQA), under it not.
        ("ab", ["ax"], 0.5),
        ("abc", ["axy"], 0),
        ("", ["x"], 0),
        ("", [""], 1),
        ("long wrong answer", ["no", "long wrong answers"], 17 / 18),
    ],
)
def test_similarity(prediction, answers, similarity):
    assert answer_similarity(prediction, answers) == pytest.approx(similarity)


def test_threshold():
    assert answer_similarity("abc", ["axy"], threshold=0.3) == pytest.approx(1 / 3)
    assert anls(["abc"], [["axy"]], threshold=0)["anls"] == pytest.approx(1 / 3)
    assert anls(["abc"], [["abd"]], threshold=1)["anls"] == 0


@given(st.text(max_size=12), st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_nearest_answer_and_range(prediction, answers):
    scores = [answer_similarity(prediction, [answer]) for answer in answers]
    assert answer_similarity(prediction, answers) == pytest.approx(max(scores))
    assert all(score == 0 or 0.5 <= score <= 1 for score in scores)
    assert answer_similarity(answers[0], answers) == 1


def questions(count: int) -> tuple[list[str], list[list[str]], list[int]]:
    source = random.Random(0)
    true = [["".join(source.choices("abcd", k=6))] for _ in range(count)]
    found = [answer[0][: source.randint(2, 6)] for answer in true]
    return found, true, [source.randint(0, 5) for _ in range(count)]


def test_interval_resamples_documents():
    found, true, documents = questions(40)
    result = anls(found, true, documents, bootstrap_samples=80, seed=2)
    names = list(dict.fromkeys(documents))
    assert result["documents"] == len(names) == 6
    values = []
    for row in bootstrap_weights(6, 80, seed=2):
        picked = [i for name, times in zip(names, row, strict=True) for i in np.flatnonzero(np.equal(documents, name))
                  for _ in range(times)]  # fmt: skip
        values.append(anls([found[i] for i in picked], [true[i] for i in picked], bootstrap_samples=0)["anls"])
    assert result["interval"]["anls"] == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist(), abs=1e-12)
    assert anls(found, true)["documents"] == 40
    assert anls(found[:3], true[:3], ["one"] * 3)["interval"] is None


def test_evaluate_metric(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found, true, documents = questions(9)
    expected = anls(found, true, documents, seed=4)
    assert Anls().compute(predictions=found, references=true, documents=documents, seed=4) == expected
    metric = Anls()
    metric.add_batch(predictions=found[:5], references=true[:5])
    metric.add_batch(predictions=found[5:], references=true[5:])
    assert metric.compute(documents=documents, seed=4) == expected


@pytest.mark.parametrize(
    ("found", "true", "options", "message"),
    [
        ([], [], {}, "no questions to score"),
        (["a"], [["a"], ["b"]], {}, "1 predicted answers but 2 lists"),
        ([None], [["a"]], {}, "answer to question 0 is None, no text; pass ''"),
        (["a", "b"], [["a"], []], {}, r"Question 1 has the true answers \[\]"),
        (["a"], ["a"], {}, "Question 0 has the true answers 'a'; pass a list"),
        (["a"], [["a"]], {"threshold": 50}, "threshold 50 is not between 0 and 1"),
        (["a"], [["a"]], {"documents": [1, 2]}, "1 items to score but 2 documents"),
        (["a"], [["a"]], {"confidence": 95}, "confidence 95 is not between 0 and 1"),
    ],
)
def test_bad_input(found, true, options, message):
    with pytest.raises(InputError, match=message):
        anls(found, true, **options)
