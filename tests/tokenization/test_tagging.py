import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadsheet.tokenization.tagging import (
    bio_labels,
    bioes_labels,
    decode_entities,
    encode_entities,
    tagging_scheme,
)


def test_label_lists():
    assert bio_labels(["X", "Y"]) == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    assert bioes_labels(["X"]) == ["O", "B-X", "I-X", "E-X", "S-X"]


def test_schemes_are_told_by_their_prefixes():
    assert tagging_scheme(bio_labels(["X"])) == "iob2"
    assert tagging_scheme(bioes_labels(["X"])) == "bioes"
    assert tagging_scheme(["O", "U-X", "L-X", "B-X"]) == "bioes"
    assert tagging_scheme(["title", "B-side", "O"]) == "plain"
    assert tagging_scheme(["O"]) == "plain"


@pytest.mark.parametrize(
    ("labels", "entities"),
    [
        ("O B-X I-X O B-Y", [("X", 1, 3), ("Y", 4, 5)]),
        ("B-X B-X I-X", [("X", 0, 1), ("X", 1, 3)]),
        ("I-X I-X O I-Y", [("X", 0, 2), ("Y", 3, 4)]),
        ("B-X I-Y I-Y", [("X", 0, 1), ("Y", 1, 3)]),
        ("S-X B-Y I-Y E-Y S-X", [("X", 0, 1), ("Y", 1, 4), ("X", 4, 5)]),
        ("E-X I-X E-X O B-X O", [("X", 0, 1), ("X", 1, 3), ("X", 4, 5)]),
        ("B-X S-X E-Y", [("X", 0, 1), ("X", 1, 2), ("Y", 2, 3)]),
        ("U-X B-Y L-Y", [("X", 0, 1), ("Y", 1, 3)]),
        ("title title O text text title", [("title", 0, 2), ("text", 3, 5), ("title", 5, 6)]),
        ("", []),
        ("O O", []),
    ],
)
def test_entities_of_labels(labels, entities):
    assert decode_entities(labels.split()) == entities


def test_a_given_scheme_wins():
    assert decode_entities(["B-side", "B-side"], "plain") == [("B-side", 0, 2)]


@given(st.data(), st.sampled_from(["iob2", "bioes", "plain"]))
def test_encoding_and_decoding_are_inverse(data, scheme):
    entities, place = [], 0
    for _ in range(data.draw(st.integers(0, 6))):
        # Plain labels cannot tell neighbours of one type apart: leave a gap.
        start = place + data.draw(st.integers(1 if scheme == "plain" else 0, 3))
        place = start + data.draw(st.integers(1, 4))
        entities.append((data.draw(st.sampled_from(["X", "Y", "a-b"])), start, place))
    labels = encode_entities(entities, place + 2, scheme)
    assert decode_entities(labels, scheme) == entities


@pytest.mark.parametrize(
    ("entities", "sentence"), [([("X", 0, 3), ("Y", 2, 4)], "overlaps"), ([("X", 3, 9)], "not within 5 words")]
)
def test_spans_that_no_labels_can_hold_are_refused(entities, sentence):
    with pytest.raises(ValueError, match=sentence):
        encode_entities(entities, 5)
