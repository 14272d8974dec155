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
    tags = bioes_tags([("item", [0, 1, 4]), ("price", [2]), ("item", [5, 6])], 8)
    assert tags.labels == ["B-item", "E-item", "S-price", "O", "S-item", "B-item", "E-item", "O"]
    assert (tags.entities, tags.in_pieces, tags.overlapping, tags.reordered, tags.carried) == (3, 1, 0, 0, 2)


def test_entities_in_an_order_of_their_own_are_labelled_and_counted():
    # A word named twice is no other order, and an entity with gaps or over another counts as that.
    entities = [("item", [1, 0]), ("item", [2, 3, 2]), ("price", [6, 4]), ("sum", [4, 3])]
    tags = bioes_tags(entities, 7)
    assert tags.labels == ["B-item", "E-item", "B-item", "E-item", "S-price", "O", "S-price"]
    assert (tags.entities, tags.in_pieces, tags.overlapping, tags.reordered, tags.carried) == (4, 1, 1, 1, 1)


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


def test_labels_in_bioes_keep_their_order():
    names = ["B-A", "E-A", "I-A", "O", "S-A"]
    assert bioes_names(names) == names


def test_from_bilou():
    assert bioes_names(["O", "B-x", "I-x", "L-x", "U-x"]) == ["O", "B-x", "I-x", "E-x", "S-x"]
    assert to_bioes(["U-x", "U-x", "B-x", "L-x"], "bioes") == ["S-x", "S-x", "B-x", "E-x"]


def test_plain_labels_are_no_bioes():
    with pytest.raises(InputError, match="labels abstract, title have no B- or I- .*;.*scheme to plain"):
        bioes_names(["O", "abstract", "title", "B-side"])
    assert bioes_names(["O"]) == ["O"]
