import builtins
import random

import numpy as np
import pytest

from broadsheet.metrics import Rouge, rouge
from broadsheet.metrics.bootstrap import bootstrap_weights
from broadsheet.tokenization.input_checks import InputError


@pytest.fixture
def package():
    return pytest.importorskip("rouge_score.rouge_scorer")


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall)


def test_examples_of_lin_2004(package):
    # Section 3.1 of "ROUGE: a package for automatic evaluation of summaries": S1 against S2 and S3 have ROUGE-2 1/3
    # each and ROUGE-L 3/4 and 2/4; S4 against S1 has ROUGE-L 1/2.
    reference = "police killed the gunman"
    found = ["police kill the gunman", "the gunman kill police", "the gunman police killed"]
    result = [rouge([text], [reference], use_stemmer=False) for text in found]
    assert [r["rougeL"]["f1"] for r in result] == pytest.approx([3 / 4, 2 / 4, 2 / 4])
    assert [r["rouge2"]["f1"] for r in result[:2]] == pytest.approx([1 / 3, 1 / 3])
    assert rouge(found[:1], [reference])["rouge1"]["f1"] == 1
    assert rouge(found[:1], [reference], use_stemmer=False)["rouge1"]["f1"] == pytest.approx(3 / 4)


def test_union_of_sentences_of_lin_2004(package):
    # Section 3.2: the reference w1 w2 w3 w4 w5, the summary's sentences w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5: the union
    # w1 w2 w3 w5, 4/5.
    reference, summary = "w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"
    assert rouge([summary], [reference])["rougeLsum"]["recall"] == pytest.approx(4 / 5)
    one_line = "w3 w4. w1 w2."
    assert rouge([one_line], [reference])["rougeLsum"]["recall"] == pytest.approx(2 / 5)
    result = rouge([one_line], [reference], sentence_split="punctuation")
    assert result["rougeLsum"]["recall"] == pytest.approx(4 / 5)
    assert result["settings"]["sentence_split"] == "punctuation"
    assert result["settings"]["use_stemmer"] is True
    assert result["settings"]["package"].startswith("rouge-score ")


def test_means_by_hand(package):
    result = rouge(["a b", "c d e f"], ["a b c", "c x"], types=["rouge1"])
    assert result["rouge1"] == {
        "precision": pytest.approx((1 + 1 / 4) / 2),
        "recall": pytest.approx((2 / 3 + 1 / 2) / 2),
        "f1": pytest.approx((f1(1, 2 / 3) + f1(1 / 4, 1 / 2)) / 2),
    }
    assert result["documents"] == 2
    assert rouge(["", "a"], ["a", "b"])["rougeLsum"] == {"precision": 0, "recall": 0, "f1": 0}


def texts(count: int) -> tuple[list[str], list[str]]:
    source = random.Random(0)
    words = ["the", "a", "model", "reads", "pages", "of", "long", "documents", "whole"]
    both = [" ".join(source.choices(words, k=12)) for _ in range(2 * count)]
    return both[:count], both[count:]


def test_interval_equals_plain_resampling(package):
    found, true = texts(7)
    result = rouge(found, true, bootstrap_samples=40, seed=3)
    values = []
    for row in bootstrap_weights(7, 40, seed=3):
        drawn = np.repeat(np.arange(7), row)
        again = rouge([found[i] for i in drawn], [true[i] for i in drawn], bootstrap_samples=0)
        values.append(again["rouge2"]["f1"])
    assert result["interval"]["rouge2"] == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist(), abs=1e-12)
    assert rouge(found[:1], true[:1])["interval"] is None


def test_evaluate_metric(package, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found, true = texts(5)
    expected = rouge(found, true, use_stemmer=False, seed=2)
    assert Rouge().compute(predictions=found, references=true, use_stemmer=False, seed=2) == expected
    metric = Rouge()
    metric.add_batch(predictions=found[:3], references=true[:3])
    metric.add_batch(predictions=found[3:], references=true[3:])
    assert metric.compute(use_stemmer=False, seed=2) == expected


@pytest.mark.parametrize(
    ("found", "true", "options", "message"),
    [
        ([], [], {}, "no documents to score"),
        (["a"], ["a", "b"], {}, "1 summaries but 2 references"),
        (["a"], [" "], {}, "reference of document 0 is empty; leave the document out"),
        ([None], ["a"], {}, "Document 0 has the summary None, which is no text"),
        (["a"], ["a"], {"types": ["rougeW"]}, "no ROUGE type 'rougeW'"),
        (["a"], ["a"], {"sentence_split": "nltk"}, "no sentence_split 'nltk'; choose one of newline, punctuation"),
        (["a"], ["a"], {"tokenizer": "moses"}, "no tokenizer 'moses'; choose one of auto, rouge-score, unicode"),
        (["a"], ["a"], {"confidence": 0}, "confidence 0 is not between 0 and 1"),
    ],
)
def test_bad_input(package, found, true, options, message):
    with pytest.raises(InputError, match=message):
        rouge(found, true, **options)


@pytest.mark.parametrize(
    "text",
    ["Привет, мир", "日本語の文書", "naïve café über", "हिन्दी में पाठ", "สวัสดีครับ", "Ελληνικό κείμενο", "한국어 문서"],
)
def test_scripts_beyond_ascii(package, text):
    result = rouge([text, text], [text, text])
    assert [result[name]["f1"] for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")] == pytest.approx([1] * 4)
    assert result["settings"]["tokenizer"] == "unicode"
    metric = Rouge().compute(predictions=[text], references=[text], tokenizer="unicode")
    assert metric["rouge1"]["f1"] == pytest.approx(1)


def test_parts_of_texts_beyond_ascii(package):
    # Two of three words; three of four characters.
    assert rouge(["мама мыла пол"], ["мама мыла раму"])["rouge1"]["f1"] == pytest.approx(2 / 3)
    assert rouge(["日本文書"], ["日本語書"])["rougeL"]["f1"] == pytest.approx(3 / 4)


def test_english_keeps_its_numbers(package):
    # An accented name, a Greek letter and curly quotes in a corpus of plain words.
    found, true = texts(40)
    true[0] += " “Café” don’t β-test"
    scorer = package.RougeScorer(["rouge1"], use_stemmer=True)
    expected = [scorer.score(b, a)["rouge1"].fmeasure for a, b in zip(found, true, strict=True)]
    result = rouge(found, true)
    assert result["settings"]["tokenizer"] == "rouge-score"
    assert result["rouge1"]["f1"] == pytest.approx(np.mean(expected), abs=1e-12)
    # What a model writes does not choose the tokenizer.
    assert rouge(["Привет мир"] * 40, true)["settings"]["tokenizer"] == "rouge-score"
    assert rouge(found, true, tokenizer="unicode")["settings"]["tokenizer"] == "unicode"


def test_without_the_package(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("rouge_score"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"rouge-score, which is not installed; run pip install 'broadsheet\[summari"):
        rouge(["a"], ["a"])
