import pytest

from broadsheet.dataset_scripts.value_mentions import amounts, dates, durations, fold, same_durations


@pytest.mark.parametrize(
    "text",
    [
        "March 15, 2010",
        "MARCH 15TH, 2010",
        "Mar. 15 , 2010",
        "March 15 th , 2010",
        "15 March 2010",
        "this 15th day of March, 2010",
        "the fifteenth (15th) day of March 2010",
        "15-Mar-10",
        "2010-03-15",
        "3/15/2010",
        "03-15-10",
        "15.03.2010",
        "dated:15/3/10,",
    ],
)
def test_dates(text):
    assert {value for mention in dates(fold(text)) for value in mention.values} == {"2010-03-15"}


def test_date_extent_and_ambiguity():
    text = fold("Dated as of March 15, 2010 by")
    (mention,) = dates(text)
    assert text[mention.start : mention.end] == "march 15, 2010"
    (mention,) = dates("on 03/04/2010")
    assert mention.values == ("2010-03-04", "2010-04-03")


@pytest.mark.parametrize(
    "text", ["February 31, 2010", "31/31/2010", "marching 15 2010", "1.2.3.2010.4", "phone 617-555-2010", "May 2010"]
)
def test_no_dates(text):
    assert list(dates(fold(text))) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("three (3) years", "3_years"),
        ("Three(3) Years’", "3_years"),
        ("a 3-year period", "3_years"),
        ("a two year term", "2_years"),
        ("one (1) year", "1_year"),
        ("twenty-four (24) months", "24_months"),
        ("twenty four full months", "24_months"),
        ("eighteen month", "18_months"),
        ("two and one-half years", "2.5_years"),
        ("55.5 months", "55.5_months"),
        ("the second anniversary of", "2_years"),
        ("the third (3rd) anniversary", "3_years"),
        ("(5) years", "5_years"),
    ],
)
def test_durations(text, value):
    assert [mention.values for mention in durations(fold(text))] == [(value,)]


def test_durations_that_contradict_themselves_mean_either():
    (mention,) = durations("two (3) years")
    assert mention.values == ("2_years", "3_years")
    assert list(durations("someone years ago, 12 yearlings")) == []


def test_same_durations():
    assert same_durations("1_year") == {"12_months"}
    assert same_durations("24_months") == {"2_years"}
    assert same_durations("7_months") == set()


def test_amounts():
    found = [mention.values[0] for mention in amounts("£1,234,567 and 12.5, (3,000) then 1.2.3 or 45.")]
    assert found[:3] == ["1234567.00", "12.50", "3000.00"]
    assert "45.00" in found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("total incoming resources 345,678 412,345", ["345678.00", "412345.00"]),
        ("100 250.00", ["100250.00", "100.00", "250.00"]),
        ("1 234 567", ["1234567.00", "1.00", "234.00", "567.00"]),
        ("12 345,678", ["12.00", "345678.00"]),
        ("2 125.00 250.00", ["2125.00", "2.00", "125.00", "250.00"]),
    ],
)
def test_a_number_has_one_kind_of_separator(text, values):
    assert [mention.values[0] for mention in amounts(text)] == values
