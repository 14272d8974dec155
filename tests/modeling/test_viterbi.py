import itertools

import pytest
import torch

from broadsheet.modeling.viterbi import TagGrammar, WordDecoder, is_bioes, viterbi_decode

BIOES = ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y", "E-y", "S-y"]
SMALL = ["O", "B-x", "I-x", "E-x", "S-x"]
IOB2 = ["O", "B-x", "I-x", "B-y", "I-y"]
BILOU = ["O", "B-x", "I-x", "L-x", "U-x", "B-y", "I-y", "L-y", "U-y"]
PLAIN = ["O", "E-mail", "phone", "I-", "B-side"]


def legal(labels, names, bioes):
    """By the definition, label by label."""
    open_kind = None
    for label in (names[index] for index in labels):
        prefix, kind = label[0], label[2:]
        if prefix in "IE":
            if open_kind != kind:
                return False
        elif bioes and open_kind is not None:
            return False
        open_kind = kind if prefix in "BI" else None
    return not (bioes and open_kind is not None)


def brute_force(scores, names, bioes, transitions=None):
    best, found = -float("inf"), None
    for labels in itertools.product(range(len(names)), repeat=len(scores)):
        if not legal(labels, names, bioes):
            continue
        total = sum(float(scores[place, label]) for place, label in enumerate(labels))
        if transitions is not None:
            total += sum(float(transitions[pair]) for pair in itertools.pairwise(labels))
        if total > best:
            best, found = total, list(labels)
    return found


def scores(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize(("names", "bioes"), [(BIOES, True), (IOB2, False)], ids=["bioes", "iob2"])
@pytest.mark.parametrize("learned", [False, True])
def test_equals_brute_force(length, names, bioes, learned):
    batch = scores(6, length, len(names), seed=length)
    transitions = scores(len(names), len(names), seed=9) if learned else None
    found = viterbi_decode(batch, TagGrammar(names), transitions=transitions)
    for row, labels in zip(batch, found.tolist(), strict=True):
        assert labels == brute_force(row, names, bioes, transitions)


@pytest.mark.parametrize("learned", [False, True])
def test_masked_tokens_are_passed_over(learned):
    transitions = scores(9, 9, seed=3) if learned else None
    batch = scores(5, 9, 9, seed=1)
    generator = torch.Generator().manual_seed(2)
    mask = torch.rand(5, 9, generator=generator) < 0.45
    mask[3] = False
    mask[4] = torch.arange(9) < 4
    found = viterbi_decode(batch, TagGrammar(BIOES), mask, transitions)
    for row, keep, labels in zip(batch, mask, found, strict=True):
        assert (labels[~keep] == -1).all()
        kept = row[keep][:4]
        if len(kept) == int(keep.sum()):
            assert labels[keep].tolist() == brute_force(kept, BIOES, True, transitions)
        assert TagGrammar(BIOES).is_legal(labels[keep].tolist())


@pytest.mark.parametrize("names", [BIOES, SMALL, IOB2, BILOU, PLAIN, ["O", "title", "name"]])
def test_never_illegal(names):
    grammar = TagGrammar(names)
    found = viterbi_decode(10 * scores(40, 60, len(names)).float(), grammar)
    assert all(grammar.is_legal(labels) for labels in found.tolist())


def test_the_grammar():
    for names, bioes in ((BIOES, True), (IOB2, False)):
        grammar = TagGrammar(names)
        for labels in itertools.product(range(len(names)), repeat=3):
            assert grammar.is_legal(labels) == legal(labels, names, bioes)


def test_bilou_is_bioes_by_other_names():
    assert torch.equal(TagGrammar(BILOU).allowed(), TagGrammar(BIOES).allowed())
    batch = scores(6, 4, 9)
    assert torch.equal(viterbi_decode(batch, TagGrammar(BILOU)), viterbi_decode(batch, TagGrammar(BIOES)))


def test_plain_labels_follow_each_other_freely():
    assert TagGrammar(PLAIN).allowed().all()
    batch = scores(6, 9, len(PLAIN))
    assert torch.equal(viterbi_decode(batch, TagGrammar(PLAIN)), batch.argmax(-1))


@pytest.mark.parametrize("names", [["O", "I-x"], ["O", "B-x", "S-y", "E-y", "B-y"], ["O", "E-x"], ["O", "L-x"]])
def test_labels_that_no_sequence_can_have_are_refused(names):
    with pytest.raises(ValueError, match="; add"):
        TagGrammar(names)


def test_other_numbers_of_labels_are_refused():
    with pytest.raises(ValueError, match="there are 5 labels"):
        viterbi_decode(scores(1, 2, 9), TagGrammar(SMALL))


def test_words_of_documents_of_different_lengths():
    decoder = WordDecoder(dict(enumerate(BIOES)))
    rows = [scores(length, 9, seed=length).numpy() for length in (3, 1, 0, 4)]
    for row, labels in zip(rows, decoder(rows), strict=True):
        assert labels.tolist() == (brute_force(row, BIOES, True) if len(row) else [])
    assert decoder([]) == []


def test_is_bioes():
    assert is_bioes(BIOES)
    assert not is_bioes(IOB2)
    assert not is_bioes(["O", "title"])
    assert not is_bioes(["O"])
    assert is_bioes(BILOU)
    assert is_bioes(["O", "S-x"])
    assert not is_bioes(PLAIN)
    # What BIOES cannot be, as the grammar would refuse it.
    assert not is_bioes(["O", "E-mail"])
    assert not is_bioes([*BIOES, "B-z"])
