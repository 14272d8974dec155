"""Words that a tokenizer has met before keep their pieces, until something that decides on pieces changes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.tokenizers import KINDS, tiny_tokenizer
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from broadsheet.tokenization import known_words
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
from broadsheet.tokenization.word_tokenization import TokenizedWords, prepare_tokenizer, tokenize_words

WORDS = ["Total", "amount", "quickly", "", "Zürich", "Total"]


def tokenize(tokenizer: Any, words: list[str] = WORDS) -> TokenizedWords:
    return tokenize_words(tokenizer, [words], ["the document"])


def prepared(kind: str) -> Any:
    tokenizer = tiny_tokenizer(kind)
    prepare_tokenizer(tokenizer)
    return tokenizer


@pytest.mark.parametrize("kind", KINDS)
def test_known_words_give_what_new_words_give(kind: str) -> None:
    tokenizer = prepared(kind)
    first = tokenize(tokenizer)
    kept = known_words.known_words(tokenizer)
    assert set(kept) == set(WORDS)
    tokenize(tokenizer, ["balance", "of"])
    again = tokenize(tokenizer)
    for name in vars(first):
        assert getattr(first, name).tolist() == getattr(again, name).tolist()
    assert known_words.known_words(tokenizer) is kept
    assert set(kept) == {*WORDS, "balance", "of"}


CHANGES: list[tuple[str, Callable[[Any], None]]] = [
    ("added token", lambda tokenizer: tokenizer.add_tokens(["quick"])),
    ("another way to find it", lambda tokenizer: tokenizer.add_tokens([AddedToken("<mask>", lstrip=True)])),
    ("normalizer", lambda tokenizer: setattr(tokenizer.backend_tokenizer, "normalizer", normalizers.Lowercase())),
    (
        "pre-tokenizer",
        lambda tokenizer: setattr(
            tokenizer.backend_tokenizer,
            "pre_tokenizer",
            pre_tokenizers.Sequence([pre_tokenizers.Digits(), tokenizer.backend_tokenizer.pre_tokenizer]),
        ),
    ),
    ("setting of the model", lambda tokenizer: setattr(tokenizer.backend_tokenizer.model, "ignore_merges", True)),
]


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
def test_a_changed_tokenizer_begins_anew(change: Callable[[Any], None]) -> None:
    used, fresh = prepared("bpe"), prepared("bpe")
    tokenize(used)
    kept = known_words.known_words(used)
    change(used)
    change(fresh)
    assert tokenize(used).input_ids.tolist() == tokenize(fresh).input_ids.tolist()
    assert known_words.known_words(used) is not kept


def test_an_added_token_cuts_words_that_were_met_before() -> None:
    tokenizer = prepared("bpe")
    before = tokenize(tokenizer, ["quickly"]).input_ids.tolist()
    tokenizer.add_tokens(["ick"])
    after = tokenize(tokenizer, ["quickly"]).input_ids.tolist()
    # A piece that the vocabulary had all along, so that its size stays: here it is cut out of words.
    assert tokenizer.convert_tokens_to_ids("ick") in after
    assert before != after


def test_pieces_drawn_at_random_are_not_kept() -> None:
    tokenizer = prepared("bpe")
    tokenizer.backend_tokenizer.model.dropout = 0.5
    drawn = {tuple(tokenize(tokenizer, ["quickly"]).input_ids.tolist()) for _ in range(50)}
    assert len(drawn) > 1
    assert known_words.known_words(tokenizer) == {}
    tokenizer.backend_tokenizer.model.dropout = None
    assert len({tuple(tokenize(tokenizer, ["quickly"]).input_ids.tolist()) for _ in range(5)}) == 1


def test_steps_written_in_python_are_not_trusted() -> None:
    class Shout:
        def normalize(self, text: Any) -> None:
            text.map(lambda letter: letter.upper())

    tokenizer = prepared("bpe")
    tokenizer.backend_tokenizer.normalizer = normalizers.Normalizer.custom(Shout())
    tokenize(tokenizer)
    assert known_words.known_words(tokenizer) == {}


def test_another_tokenizer_knows_nothing() -> None:
    tokenizer = prepared("bpe")
    tokenize(tokenizer)
    assert known_words.known_words(copy.deepcopy(tokenizer)) == {}
    assert known_words.known_words(prepared("bpe")) == {}
    processor = SkimformerProcessor(tokenizer)
    processor.tokenizer = prepared("wordpiece")
    boxes = [[0, 0, 1, 1]] * len(WORDS)
    assert (
        processor(WORDS, boxes=boxes)["input_ids"]
        == SkimformerProcessor(prepared("wordpiece"))(WORDS, boxes=boxes)["input_ids"]
    )


def test_another_backend_begins_anew() -> None:
    tokenizer = prepared("bpe")
    kept = known_words.known_words(tokenizer)
    tokenizer._tokenizer = prepared("bpe").backend_tokenizer
    assert known_words.known_words(tokenizer) is not kept


def test_not_more_than_so_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_words, "MOST_WORDS", 3)
    tokenizer = prepared("bpe")
    first = tokenize(tokenizer).input_ids.tolist()
    assert len(known_words.known_words(tokenizer)) == 0
    assert tokenize(tokenizer).input_ids.tolist() == first


def test_unigram_that_draws() -> None:
    tokenizer = prepared("unigram")
    model = tokenizer.backend_tokenizer.model
    assert isinstance(model, models.Unigram)
    model.alpha, model.nbest_size = 0.1, 5
    assert known_words.known_words(tokenizer) is not known_words.known_words(tokenizer)
