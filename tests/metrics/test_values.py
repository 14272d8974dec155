import os
from pathlib import Path

import numpy as np
import pytest

from broadsheet.metrics import KleisterF1, SroieF1, kleister_f1, parse_values, sroie_f1
from broadsheet.metrics.bootstrap import bootstrap_weights
from broadsheet.tokenization.input_checks import InputError

# GEval's own examples of MultiLabel-F1, labels turned into keys: of its description (src/GEval/MetricsMeta.hs with
# CreateChallenge.hs, "metric value: 0.6666") and of its test multilabel-f1-with-probs (0.615384615384615), both after
# the labels under probability 0.5 are left out.
DESCRIPTION = (
    ["person=1,3 first-name=1 first-name=3", "surname=2", "first-name=3"],
    ["person=1,3 first-name=1 surname=3", "", "first-name=3"],
)
WITH_PROBABILITIES = (
    ["x=foo x=90", "x=90", "x=90", "x=baz", "x=foo x=baz"],
    ["x=foo x=90", "x=91", "x=90 x=bar", "", "x=foo"],
)


@pytest.mark.parametrize(("lines", "f1"), [(DESCRIPTION, 0.6666666666), (WITH_PROBABILITIES, 0.615384615384615)])
def test_examples_of_geval(lines, f1):
    assert kleister_f1(*lines)["f1"] == pytest.approx(f1)


def test_kleister_by_hand():
    true = [{"party": ["Nike Inc.", "Eric Dean Sprunk"], "jurisdiction": "Oregon"}, {"term": "7_years"}]
    found = [{"party": ["NIKE_INC.", "Someone Else"], "jurisdiction": "Oregon"}, {"party": "Nike Inc."}]
    result = kleister_f1(found, true)
    assert (result["precision"], result["recall"], result["f1"]) == (2 / 4, 2 / 4, 2 / 4)
    assert result["types"]["party"] == {"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5, "support": 2, "predicted": 3}
    assert result["types"]["term"]["recall"] == 0
    exact = kleister_f1(found, true, case="exact")
    assert exact["types"]["party"]["f1"] == 0
    assert exact["f1"] == 1 / 4
    assert kleister_f1(found, true, keys=["jurisdiction"])["f1"] == 1


def test_kleister_forms_and_normalization():
    line = "effective_date=2001-04-18 party=Nike_Inc. party=A_B"
    assert parse_values(line) == {"effective_date": ["2001-04-18"], "party": ["Nike_Inc.", "A_B"]}
    forms = [
        line,
        ["party= Nike  Inc. ", "effective_date=2001-04-18", "party=A:B"],
        {"party": ["A B", "Nike Inc."], "effective_date": "2001-04-18", "term": None, "jurisdiction": " "},
    ]
    for found in forms:
        for true in forms:
            assert kleister_f1([found], [true])["f1"] == 1
    # A value has a "=" of its own.
    assert parse_values("party=A=B") == {"party": ["A=B"]}


def test_case_of_keys():
    found, true = ["PARTY=a Extra=x"], ["party=A Term=B"]
    assert kleister_f1(found, true)["types"]["party"]["f1"] == 1
    assert list(kleister_f1(found, true)["types"]) == ["Term", "party", "Extra"]
    assert list(kleister_f1(found, true, case="exact")["types"]) == ["Term", "party", "Extra", "PARTY"]
    assert list(kleister_f1(found, true, keys=["PARTY"])["types"]) == ["PARTY"]


def test_repeated_values_count():
    result = kleister_f1([{"party": ["A", "A", "A"]}], [{"party": ["A", "A", "B"]}])
    assert (result["precision"], result["recall"]) == (2 / 3, 2 / 3)


def test_kleister_degenerate():
    nothing = kleister_f1(["", ""], ["party=A", ""])
    assert (nothing["precision"], nothing["recall"], nothing["f1"], nothing["support"]) == (0, 0, 0, 1)
    assert kleister_f1(["party=A"], [""])["f1"] == 0
    assert kleister_f1([{}], [{}])["types"] == {}


def test_kleister_interval_equals_plain_resampling():
    found, true = WITH_PROBABILITIES
    result = kleister_f1(found, true, bootstrap_samples=50, seed=1)
    values = []
    for row in bootstrap_weights(5, 50, seed=1):
        drawn = np.repeat(np.arange(5), row)
        values.append(kleister_f1([found[i] for i in drawn], [true[i] for i in drawn], bootstrap_samples=0)["f1"])
    assert result["interval"]["f1"] == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist(), abs=1e-12)


RECEIPT = {"company": "BOOK TA .K", "date": "25/12/2018", "address": "NO.53 55", "total": "9.00"}


def test_sroie_by_hand():
    found = [{**RECEIPT, "total": "RM9.00"}, {"company": " BOOK TA .K ", "date": "", "total": None}]
    result = sroie_f1(found, [RECEIPT, {**RECEIPT, "address": ""}])
    assert (result["precision"], result["recall"]) == (4 / 5, 4 / 7)
    assert result["f1"] == pytest.approx(2 * 4 / (5 + 7))
    assert result["types"]["company"]["f1"] == 1
    assert result["types"]["date"] == {"precision": 1, "recall": 0.5, "f1": 2 / 3, "support": 2, "predicted": 1}
    assert result["types"]["address"]["support"] == 1


def test_sroie_is_exact():
    for wrong in ("book ta .k", "BOOK TA.K", "BOOK  TA .K"):
        assert sroie_f1([{**RECEIPT, "company": wrong}], [RECEIPT])["types"]["company"]["f1"] == 0
    # A right text in the wrong field is wrong.
    assert sroie_f1([{"date": "9.00"}], [{"total": "9.00"}])["f1"] == 0
    assert list(sroie_f1([{}], [RECEIPT])["types"]) == ["company", "date", "address", "total"]
    assert sroie_f1([{}], [{}])["f1"] == 0


def test_evaluate_metrics(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found, true = DESCRIPTION
    expected = kleister_f1(found, true, seed=3)
    assert KleisterF1().compute(predictions=found, references=true, seed=3) == expected
    metric = KleisterF1()
    metric.add_batch(predictions=found[:1], references=true[:1])
    metric.add(prediction=parse_values(found[1]), reference=[])
    metric.add_batch(predictions=found[2:], references=true[2:])
    assert metric.compute(seed=3) == expected
    receipts = [{"company": "A", "date": ""}, RECEIPT], [{"company": "A", "date": "1/2"}, RECEIPT]
    assert SroieF1().compute(predictions=receipts[0], references=receipts[1]) == sroie_f1(*receipts)


@pytest.mark.parametrize(
    ("score", "found", "true", "options", "message"),
    [
        (kleister_f1, [], [], {}, "no documents to score"),
        (kleister_f1, [""], ["", ""], {}, "predictions for 1 documents but values of 2"),
        (kleister_f1, ["Oregon"], [""], {}, "'Oregon' has no key; write key=value"),
        (kleister_f1, [{"term": 7}], [""], {}, "The value 7 of 'term' in document 0 of predictions is no text"),
        (kleister_f1, [""], [""], {"case": "lower"}, "no case 'lower'; choose one of upper, exact"),
        (kleister_f1, [""], [""], {"confidence": 2}, "confidence 2 is not between"),
        (sroie_f1, [{"tax": "1"}], [{}], {}, "'tax' of receipt 0 of predictions is unknown; SROIE's fields are comp"),
        (sroie_f1, [{}], ["total=1"], {}, "receipt 0 of references are 'total=1'; pass a dictionary"),
        (sroie_f1, [{"total": 9.0}], [{}], {}, "9.0 of 'total' in receipt 0 of predictions is no text"),
        (KleisterF1().compute, [], [], {}, "no documents to score"),
        (KleisterF1().compute, ["Oregon"], [""], {}, "'Oregon' has no key"),
        (SroieF1().compute, [{"tax": "1"}], [{}], {}, "'tax' of receipt 0 of predictions is unknown"),
    ],
)
def test_bad_input(score, found, true, options, message):
    with pytest.raises(InputError, match=message):
        score(predictions=found, references=true, **options)


@pytest.mark.data
def test_official_lines():
    folder = os.environ.get("BROADSHEET_DATA")
    if not folder or not os.path.isdir(os.path.join(folder, "kleister-nda")):
        pytest.skip("BROADSHEET_DATA does not name a folder with kleister-nda/")
    lines = Path(folder, "kleister-nda", "train", "expected.tsv").read_text(encoding="utf-8").splitlines()
    result = kleister_f1(lines, lines, case="exact")
    assert result["f1"] == 1
    assert {key: value["support"] for key, value in result["types"].items()} == {
        "party": 471, "jurisdiction": 254, "effective_date": 175, "term": 82,
    }  # fmt: skip
    # Of the two halves, each predicted as the other: what two agreements share by chance.
    half = len(lines) // 2
    chance = kleister_f1(lines[half:], lines[:half])
    assert 0 < chance["f1"] < 0.3


def test_intervals_of_fields_that_few_or_no_receipts_have():
    true = [{"total": "1.00"}, {"date": "1/2/18", "total": "2.00"}]
    result = sroie_f1(true, true)
    assert result["macro"]["f1"] == 0.5
    assert result["interval"]["types"]["date"] == [1.0, 1.0]
    assert result["interval"]["types"]["company"] is None
    # Two fields that no receipt has count 0, in the mean as in its interval; the date is left out where it is missing.
    assert result["interval"]["macro_f1"] == [pytest.approx(1 / 3), 0.5]
