import pytest

from broadsheet.dataset_scripts.value_alignment import WordIndex, align_values, alignment_report
from broadsheet.tokenization.input_checks import InputError

AGREEMENT = [
    "AGREEMENT",
    "made",
    "this",
    "15th",
    "day",
    "of",
    "March,",
    "2010",
    "between",
    "NIKE,",
    "Inc.",
    "(“Company”),",
    "a",
    "Delaware",
    "corporation,",
    "and",
    "Leonard",
    "Green",
    "&",
    "Partners,",
    "L.P.",
    "and",
    "John",
    "Q.",
    "Donahoe,",
    "for",
    "three",
    "(3)",
    "years.",
    "NIKE,",
    "INC.",
    "By:",
]


def entity(key: str, word_ids: list[int], text: str) -> dict:
    return {"type": key, "word_ids": word_ids, "text": text}


def found(words: list[str], value: str, **options) -> list[tuple[str, str]]:
    return [(" ".join(words[p.first : p.last + 1]), p.step) for p in WordIndex(words).find(value, **options)]


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("2010-03-15", [("15th day of March, 2010", "exact")]),
        ("3_years", [("three (3) years.", "exact")]),
        ("36_months", [("three (3) years.", "spelling")]),
        ("Nike_Inc.", [("NIKE, Inc.", "exact"), ("NIKE, INC.", "exact")]),
        ("Nike_Incorporated", [("NIKE, Inc.", "spelling"), ("NIKE, INC.", "spelling")]),
        ("Leonard_Green_and_Partners_LP", [("Leonard Green & Partners, L.P.", "exact")]),
        ("Leonard_Green_and_Partners_Limited_Partnership", [("Leonard Green & Partners, L.P.", "spelling")]),
        ("Leonard_Green_and_Partners_LLC", [("Leonard Green & Partners,", "partial")]),
        ("John_Donahoe_Jr.", [("John Q. Donahoe,", "partial")]),
        ("Delaware", [("Delaware", "exact")]),
        ("Dela", []),
        ("Ware", []),
        ("A_Inc.", []),
        ("2010-03-16", []),
        ("4_years", []),
        ("...", []),
    ],
)
def test_places_of_values(value, places):
    assert found(AGREEMENT, value) == places


def test_spaces_and_line_ends_do_not_matter():
    assert found(["the", "Bio", "Medicus", "Inc"], "Biomedicus_Inc.") == [("Bio Medicus Inc", "exact")]
    assert found(["(Vistaprint", "USA", ",", "Inc)"], "VistaPrint_USA_Inc.") == [("(Vistaprint USA , Inc)", "exact")]
    assert found(["Société", "Générale"], "Societe_Generale") == [("Société Générale", "exact")]


def test_similar_words_on_request():
    words = ["at", "BOOK", "TAK", "SDN", "BND", "since"]
    assert found(words, "BOOK TAK SDN BHD") == [("BOOK TAK", "partial")]
    assert found(words, "BOOK TAK SDN BHD", min_similarity=0.9) == [("BOOK TAK SDN BND", "similar")]
    assert found(words, "ANOTHER SHOP SDN BHD", min_similarity=0.9) == []


def test_amounts():
    words = ["Income", "£1,234,567", "Total", "RM9.00", "19.00"]
    assert found(words, "1234567.00") == [("£1,234,567", "exact")]
    assert found(words, "9.00") == [("RM9.00", "exact")]
    assert found(["Item", "100", "250.00"], "250.00") == [("250.00", "exact")]
    assert found(["Qty", "2", "125.00", "250.00"], "125.00") == [("125.00", "exact")]
    assert found(["1", "234", "567"], "1234567.00") == [("1 234 567", "exact")]
    assert found(["resources", "345,678", "412,345"], "345678.00") == [("345,678", "exact")]


def test_amounts_after_a_full_stop():
    assert found(["RM.9.00", "1.9.00", "19.00", "9.00.1"], "9.00") == [("RM.9.00", "exact")]


def test_labels_and_entities():
    words = ["Delaware", "Trust", "Inc.", "of", "Delaware"]
    values = [("jurisdiction", "Delaware"), ("party", "Delaware_Trust_Inc."), ("term", "2_years")]
    labels, entities = align_values(words, values)
    assert labels == ["B-party", "I-party", "I-party", "O", "B-jurisdiction"]
    assert entities == [
        {"type": "jurisdiction", "word_ids": [4], "text": "Delaware"},
        {"type": "party", "word_ids": [0, 1, 2], "text": "Delaware_Trust_Inc."},
        {"type": "term", "word_ids": [], "text": "2_years"},
    ]


def test_first_occurrence():
    words = ["Nike", "Inc", "and", "Nike", "Inc"]
    assert align_values(words, [("party", "Nike_Inc.")])[0] == ["B-party", "I-party", "O", "B-party", "I-party"]
    assert align_values(words, [("party", "Nike_Inc.")], "first")[0] == ["B-party", "I-party", "O", "O", "O"]


def test_report():
    rows = [
        {"id": "a", "entities": [entity("party", [0], "A"), entity("party", [5], "A")]},
        {"id": "b", "entities": [entity("party", [], "B"), entity("term", [2], "C")]},
        {"id": "c", "entities": None},
    ]
    report = alignment_report(rows)
    assert report.found == {"party": 1, "term": 1}
    assert report.total == {"party": 2, "term": 1}
    assert report.misses == [("b", "party", "B")]
    assert report.share() == pytest.approx(2 / 3)
    assert report.share("party") == 0.5
    assert str(report) == "2 of 3 values found (66.7 %): party 1/2, term 1/1"


def test_bad_options():
    with pytest.raises(InputError, match="occurrences='last' is unknown; choose one of all, first"):
        align_values(["a"], [], occurrences="last")
    with pytest.raises(InputError, match="min_similarity is 0"):
        align_values(["a"], [], min_similarity=0)
