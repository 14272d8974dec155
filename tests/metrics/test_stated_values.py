from types import SimpleNamespace

import pytest

from broadsheet.dataset_scripts.loading import BUILDERS
from broadsheet.dataset_scripts.value_alignment import name_core
from broadsheet.metrics.stated_values import kleister_values, sroie_values, value_corpus, value_f1
from broadsheet.tokenization.tagging import bio_labels


def entity(label, text, score=0.9):
    return SimpleNamespace(label=label, text=text, score=score)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("effective_date", "this 15th day of March, 2010,", "2010-03-15"),
        ("effective_date", "03/04/2010", "2010-03-04"),
        ("effective_date", "in March", None),
        ("term", "three (3) years.", "3_years"),
        ("term", "12 months", "12_months"),
        ("jurisdiction", "New York,", "New_York"),
        ("party", "NIKE, Inc.,", "NIKE_Inc."),
        ("party", "NEON SYSTEMS, INC.", "NEON_SYSTEMS_INC."),
        ("party", "KINGSMEN CREATIVE, LTD.,", "KINGSMEN_CREATIVE_LTD."),
        ("party", "Leonard Green & Partners, L.P.", "Leonard_Green_and_Partners_LP"),
        ("party", "Ray M. Dolby.", "Ray_M._Dolby"),
        ("party", "(“Wells Fargo Securities, LLC”)", "Wells_Fargo_Securities_LLC"),
        ("income_annually_in_british_pounds", "£254,484", "254484.00"),
        ("address__postcode", "BA1 2AB.", "BA1_2AB"),
    ],
)
def test_kleisters_form(key, text, value):
    assert kleister_values([entity(key, text)]) == ({} if value is None else {key: [value]})


def test_of_several_places_one_value():
    found = kleister_values(
        [
            entity("jurisdiction", "Delaware", 0.9),
            entity("jurisdiction", "New York", 0.6),
            entity("jurisdiction", "New York,", 0.6),
            entity("party", "ACME, INC.", 0.5),
            entity("party", "Acme, Inc.", 0.7),
            entity("party", "Acme", 0.6),
            entity("party", "Bolt Corporation", 0.4),
        ]
    )
    assert found == {"jurisdiction": ["New_York"], "party": ["Acme_Inc.", "Bolt_Corporation"]}


def test_day_first():
    assert kleister_values([entity("report_date", "03/04/2010")], day_first=True) == {"report_date": ["2010-04-03"]}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("date", "DATE:25/12/2018", "25/12/2018"),
        ("date", "05 MAR 2018", "05 MAR 2018"),
        ("date", "2018-03-23", "2018-03-23"),
        ("date", "20180304", "20180304"),
        ("date", "25032018", "25032018"),
        ("date", "20180428/191204", "20180428"),
        ("date", "20180304 05/03/2018", "05/03/2018"),
        ("date", "20181304", None),
        ("total", "TOTAL:RM9.00", "RM9.00"),
        ("total", "9.00", "9.00"),
        ("total", "$8.20", "$8.20"),
        ("total", "AMOUNT:$6.90", "$6.90"),
        ("total", "RM 1,234.50", "RM 1,234.50"),
        ("total", "-1.73", "-1.73"),
        ("total", "TOTAL-1.73", "1.73"),
        ("total", "none", None),
        ("company", " BOOK TAK SDN BHD ", "BOOK TAK SDN BHD"),
    ],
)
def test_sroies_form(key, text, value):
    assert sroie_values([entity(key, text)]) == ({} if value is None else {key: value})


def test_the_best_of_a_field():
    assert sroie_values([entity("total", "1.00", 0.5), entity("total", "9.00", 0.8)]) == {"total": "9.00"}


def test_scores():
    given = [
        {"type": "party", "text": "Acme_Inc.", "word_ids": [1]},
        {"type": "party", "text": "Acme_Inc.", "word_ids": [9]},
        {"type": "term", "text": "5_years", "word_ids": []},
    ]
    report = value_f1("kleister_nda", [[entity("party", "Acme, Inc.")]], [given], 0)
    assert (report["precision"], report["recall"]) == (1.0, 0.5)
    given = [{"type": "total", "text": "9.00", "word_ids": [3]}]
    assert value_f1("sroie", [[entity("total", "TOTAL: 9.00")]], [given], 0)["f1"] == 1.0
    assert value_f1("sroie", [[entity("total", "RM9.00")]], [given], 0)["f1"] == 0.0
    given = [{"type": "total", "text": "RM 3.90", "word_ids": [3, 4]}]
    assert value_f1("sroie", [[entity("total", "RM 3.90")]], [given], 0)["f1"] == 1.0
    assert value_f1("sroie", [[entity("total", "3.90")]], [given], 0)["f1"] == 0.0
    assert value_f1("sroie", [[]], [given], 0)["f1"] == 0.0


def test_core_of_a_name():
    assert name_core("The Acme Company, Incorporated") == name_core("ACME CO., INC.") == "acme"
    assert name_core("Ray_M._Dolby") == name_core("Ray Dolby")
    assert name_core("Inc.") == "inc"


def test_corpora_by_their_builders():
    for name in ("kleister_nda", "kleister_charity", "sroie", "cord"):
        builder = BUILDERS[name]
        module = builder.__module__.rsplit(".", 1)[-1]
        labels = bio_labels(getattr(builder, "KEYS", ("total",)))
        assert value_corpus(module, labels) == (None if name == "cord" else name)
