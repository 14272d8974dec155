import pytest

from broadsheet.tokenization.bioes import bioes_names, bioes_tags, to_bioes
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import decode_entities


def test_whole_entities_come_back():
    entities = [("date", [1]), ("name", [3, 4]), ("sum", [5, 6, 7])]
    tags = bioes_tags(entities, 9)
    assert tags.labels == ["O", "S-date", "O", "B-name", "E-name", "B-sum", "I-sum", "E-sum", "O"]
    assert (tags.entities, tags.in_pieces, tags.overlapping, tags.carried) == (3, 0, 0, 3)
    assert decode_entities(tags.labels, "bioes") == [("date", 1, 2), ("name", 3, 5), ("sum", 5, 8)]


def test_discontinuous_entities_are_carried_in_pieces_and_counted():
    tags = bioes_tags([("item", [0, 1, 4]), ("price", [2]), ("item", [6, 5])], 8)
    assert tags.labels == ["B-item", "E-item", "S-price", "O", "S-item", "B-item", "E-item", "O"]
    assert (tags.entities, tags.in_pieces, tags.overlapping, tags.carried) == (3, 1, 0, 2)


def test_words_of_two_entities_stay_with_the_first():
    tags = bioes_tags([("a", [0, 1]), ("b", [1, 2, 3]), ("c", [0, 1]), ("d", [])], 4)
    assert tags.labels == ["B-a", "E-a", "B-b", "E-b"]
    assert (tags.entities, tags.in_pieces, tags.overlapping, tags.carried) == (3, 0, 2, 1)


def test_words_that_are_not_there():
    with pytest.raises(InputError, match=r"'a' has the words \[2, 4\], but the document has 4 words"):
        bioes_tags([("a", [4, 2])], 4)


def test_from_iob2():
    iob2 = ["B-x", "I-x", "B-x", "O", "B-y", "I-y", "I-y", "B-x"]
    assert to_bioes(iob2, "iob2") == ["B-x", "E-x", "S-x", "O", "B-y", "I-y", "E-y", "S-x"]
    assert to_bioes(to_bioes(iob2), "bioes") == to_bioes(iob2)
    assert to_bioes(["O"]) == ["O"]
    assert bioes_names(["O", "B-x", "I-x", "B-y.z", "I-y.z"]) == [
        "O", "B-x", "I-x", "E-x", "S-x", "B-y.z", "I-y.z", "E-y.z", "S-y.z",
    ]  # fmt: skip
    assert bioes_names(bioes_names(["O", "B-x", "I-x"])) == ["O", "B-x", "I-x", "E-x", "S-x"]
