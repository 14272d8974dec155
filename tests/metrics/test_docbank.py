import os
import random

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from broadsheet.dataset_scripts import load_dataset
from broadsheet.metrics import (
    DOCBANK_LA_CLASSES,
    DOCBANK_PAPER_CLASSES,
    DocBankF1,
    docbank_area_f1,
    docbank_token_f1,
)
from broadsheet.metrics.bootstrap import bootstrap_weights
from broadsheet.tokenization.input_checks import InputError

# Two pages; areas 100, 50, 200 and 40, 60.
BOXES = [[[0, 0, 10, 10], [20, 0, 30, 5], [0, 20, 20, 30]], [[0, 0, 10, 4], [0, 10, 10, 16]]]
TRUE = [["title", "paragraph", "paragraph"], ["paragraph", "footer"]]
FOUND = [["title", "title", "paragraph"], ["paragraph", "paragraph"]]


def pages(documents: int, seed: int) -> tuple[list, list, list]:
    source = random.Random(seed)
    found, true, boxes = [], [], []
    for _ in range(documents):
        labels = [source.choice(["title", "paragraph", "list", "figure"]) for _ in range(source.randint(1, 25))]
        true.append(labels)
        found.append([x if source.random() < 0.7 else source.choice(DOCBANK_LA_CLASSES) for x in labels])
        corners = [[source.randint(0, 900), source.randint(0, 900)] for _ in labels]
        boxes.append([[x, y, x + source.randint(0, 99), y + source.randint(0, 20)] for x, y in corners])
    return found, true, boxes


def test_area_by_hand():
    result = docbank_area_f1(FOUND, TRUE, BOXES)
    title, paragraph, footer = (result["types"][name] for name in ("title", "paragraph", "footer"))
    assert title == {"precision": 100 / 150, "recall": 1, "f1": 0.8, "support": 100, "predicted": 150}
    assert (paragraph["precision"], paragraph["recall"]) == (240 / 300, 240 / 290)
    assert paragraph["f1"] == pytest.approx(480 / 590)
    assert footer == {"precision": 0, "recall": 0, "f1": 0, "support": 60, "predicted": 0}
    assert result["averaged"] == ["footer", "paragraph", "title"]
    assert result["precision"] == pytest.approx((100 / 150 + 240 / 300 + 0) / 3)
    assert result["recall"] == pytest.approx((1 + 240 / 290 + 0) / 3)
    # The mean of the classes' F1, not the F1 of the mean precision and recall.
    assert result["f1"] == pytest.approx((0.8 + 480 / 590 + 0) / 3)
    assert result["micro"] == {"precision": 340 / 450, "recall": 340 / 450, "f1": 340 / 450}
    assert result["documents"] == 2


def test_token_by_hand():
    result = docbank_token_f1(FOUND, TRUE)
    assert result["accuracy"] == 3 / 5
    assert result["types"]["title"] == {"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1, "predicted": 2}
    assert result["types"]["paragraph"]["f1"] == pytest.approx(2 / 3)
    assert result["f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("area", [True, False])
def test_equals_scikit_learn_with_areas_as_weights(seed, area):
    found, true, boxes = pages(9, seed)
    flat = [(box[2] - box[0]) * (box[3] - box[1]) for page in boxes for box in page]
    expected = precision_recall_fscore_support(
        sum(true, []),
        sum(found, []),
        labels=DOCBANK_LA_CLASSES,
        sample_weight=flat if area else None,
        zero_division=0,
    )
    ours = docbank_area_f1(found, true, boxes) if area else docbank_token_f1(found, true)
    for index, name in enumerate(DOCBANK_LA_CLASSES):
        if name in ours["types"]:
            assert [ours["types"][name][part] for part in ("precision", "recall", "f1")] == pytest.approx(
                [expected[part][index] for part in range(3)]
            )
    kept = [index for index, name in enumerate(DOCBANK_LA_CLASSES) if name in ours["averaged"]]
    assert ours["f1"] == pytest.approx(np.mean(expected[2][kept]))


def test_classes_left_out_of_the_average_are_reported():
    found, true = [["figure", "title", "figure"]], [["figure", "figure", "title"]]
    boxes = [[[0, 0, 1, 1], [0, 0, 2, 1], [0, 0, 3, 1]]]
    result = docbank_area_f1(found, true, boxes)
    assert result["averaged"] == ["title"]
    assert result["f1"] == 0
    # The title that was taken for a figure is missed; the figure does not count.
    assert result["micro"] == {"precision": 0, "recall": 0, "f1": 0}
    assert result["types"]["figure"]["recall"] == pytest.approx(1 / 3)
    assert docbank_area_f1(found, true, boxes, classes=DOCBANK_PAPER_CLASSES)["averaged"] == ["figure", "title"]
    assert len(DOCBANK_LA_CLASSES) == len(DOCBANK_PAPER_CLASSES) == 12


def test_degenerate():
    empty = docbank_area_f1([[], ["title"]], [[], ["title"]], [[], [[0, 0, 5, 5]]])
    assert empty["f1"] == empty["precision"] == empty["recall"] == 1
    flat = docbank_area_f1([["title", "list"]], [["title", "title"]], [[[0, 0, 5, 0], [3, 3, 3, 9]]])
    assert (flat["f1"], flat["averaged"], flat["types"], flat["interval"]) == (0, [], {}, None)
    nothing = docbank_token_f1([[]], [[]])
    assert (nothing["accuracy"], nothing["f1"], nothing["averaged"]) == (0, 0, [])


def test_interval_of_a_class_that_one_document_has():
    labels = [["title"], ["paragraph"], ["paragraph"]]
    assert docbank_token_f1(labels, labels)["interval"]["types"] == {"paragraph": [1.0, 1.0], "title": [1.0, 1.0]}


def test_interval_equals_plain_resampling():
    found, true, boxes = pages(8, 4)
    result = docbank_area_f1(found, true, boxes, bootstrap_samples=60, seed=5)
    values = []
    for row in bootstrap_weights(8, 60, seed=5):
        drawn = np.repeat(np.arange(8), row)
        picked = [[part[i] for i in drawn] for part in (found, true, boxes)]
        values.append(docbank_area_f1(*picked, bootstrap_samples=0))
    for name in ("precision", "recall", "f1"):
        expected = np.quantile([value[name] for value in values], [0.025, 0.975])
        assert result["interval"][name] == pytest.approx(expected.tolist(), abs=1e-9)
    micro = np.quantile([value["micro"]["f1"] for value in values], [0.025, 0.975])
    assert result["interval"]["micro_f1"] == pytest.approx(micro.tolist(), abs=1e-9)
    assert set(result["interval"]["types"]) == set(result["types"])


def test_evaluate_metric(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found, true, boxes = pages(5, 2)
    expected = docbank_area_f1(found, true, boxes, seed=3)
    assert DocBankF1().compute(predictions=found, references=true, boxes=boxes, seed=3) == expected
    metric = DocBankF1()
    metric.add_batch(predictions=found[:2], references=true[:2], boxes=boxes[:2])
    metric.add_batch(predictions=found[2:], references=true[2:], boxes=boxes[2:])
    assert metric.compute(seed=3) == expected
    assert DocBankF1(unit="token").compute(predictions=found, references=true) == docbank_token_f1(found, true)


@pytest.mark.parametrize(
    ("found", "true", "boxes", "options", "message"),
    [
        ([], [], [], {}, "There are no documents to score"),
        ([["list"]], [["list"], []], [[], []], {}, "predictions for 1 documents but labels of 2"),
        ([["list"], []], [["list"], ["list"]], [[], []], {}, "Document 1 has 0 predicted but 1 true labels"),
        ([["list"]], [["list"]], [], {}, "boxes for 0 documents but labels of 1"),
        ([["list"]], [["B-list"]], [[]], {}, "Document 0 has the true label 'B-list', which is none of DocBank's abs"),
        ([[3]], [["list"]], [[]], {}, "Document 0 has the predicted label 3, which is none"),
        ([["list"]], [["list"]], [[]], {}, "Document 0 has 0 boxes but 1 labels"),
        ([["list"]], [["list"]], [[[5, 0, 4, 9]]], {}, r"\[5.0, 0.0, 4.0, 9.0\] of word 0 of document 0 has no area"),
        ([["list"]], [["list"]], [[[0, 0, float("nan"), 9]]], {}, "word 0 of document 0 has no area"),
        ([["list"]], [["list"]], [[[0, 0, 1, 1]]], {"classes": []}, "no classes to average over"),
        ([["list"]], [["list"]], [[[0, 0, 1, 1]]], {"confidence": 1}, "confidence 1 is not between 0 and 1"),
    ],
)
def test_bad_input(found, true, boxes, options, message):
    with pytest.raises(InputError, match=message):
        docbank_area_f1(found, true, boxes, **options)


def test_bad_input_of_the_metric():
    with pytest.raises(InputError, match="no unit 'pixel'; choose one of area, token"):
        DocBankF1(unit="pixel")
    with pytest.raises(InputError, match="needs boxes"):
        DocBankF1().compute(predictions=[["list"]], references=[["list"]])


@pytest.mark.data
def test_majority_class_on_the_official_samples(tmp_path):
    folder = os.environ.get("BROADSHEET_DATA")
    if not folder or not os.path.isdir(os.path.join(folder, "docbank")):
        pytest.skip("BROADSHEET_DATA does not name a folder with docbank/")
    pages = load_dataset("docbank", data_dir=os.path.join(folder, "docbank"), split="train", cache_dir=str(tmp_path))
    names = pages.features["labels"].feature.names
    true = [[names[label] for label in labels] for labels in pages["labels"]]
    guess = [["paragraph"] * len(labels) for labels in true]
    boxes = pages["boxes"][:]
    result = docbank_area_f1(guess, true, boxes)
    # Word by word from the rows, without the metric's arithmetic on arrays.
    of_class = whole = 0.0
    for labels, page in zip(true, boxes, strict=True):
        for label, (x0, y0, x1, y1) in zip(labels, page, strict=True):
            whole += (x1 - x0) * (y1 - y0)
            of_class += (x1 - x0) * (y1 - y0) * (label == "paragraph")
    share = of_class / whole
    assert result["types"]["paragraph"]["precision"] == pytest.approx(share)
    assert result["micro"]["f1"] == pytest.approx(share)
    assert result["f1"] == pytest.approx(2 * share / (1 + share) / 12)
    assert result["averaged"] == list(DOCBANK_LA_CLASSES)
    tokens = docbank_token_f1(guess, true)
    assert tokens["accuracy"] == pytest.approx(28473 / 39674)
    low, high = result["interval"]["f1"]
    assert low < high


def test_words_of_no_class_count_against_precision_alone():
    report = docbank_token_f1([["O", "title", "title"]], [["O", "title", "O"]], classes=["title"])
    assert (report["precision"], report["recall"]) == (0.5, 1.0)
    assert report["accuracy"] == pytest.approx(2 / 3)
