"""
Words to sub-words with any fast tokenizer, all documents of a batch in one call.

Words are independent of their neighbours, so each distinct word is tokenized once (`known_words` keeps its pieces). A
word that yields nothing (empty, a lone soft hyphen) gets the unknown token: every word has at
least one sub-word.
"""

import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Encoding, normalizers, pre_tokenizers

from .input_checks import InputError, describe_word, start_sentence
from .known_words import Pieces, known_words

logger = logging.getLogger(__name__)

# Distinct words that go to the backend as one sequence; it works on sequences in parallel.
_CHUNK = 512


@dataclass(frozen=True)
class TokenizedWords:
    """
    The sub-words of a batch of documents, document after document.

    Attributes:
        input_ids: int64 `[T]`.
        documents: int64 `[T]`, the document of each sub-word.
        words: int64 `[T]`, the index of its word within the document.
        pieces: int64 `[T]`, its index within the word: 0 for the first sub-word.
        starts: int64 `[T]`, the first character of the word that it covers.
        bounds: int64 `[documents + 1]`; document d has the sub-words bounds[d] to bounds[d + 1].
    """

    input_ids: np.ndarray
    documents: np.ndarray
    words: np.ndarray
    pieces: np.ndarray
    starts: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class SpecialTokens:
    """
    What a tokenizer puts around words, or around a question and words; ids and token types, lists of int.

    Attributes:
        prefix, middle, suffix: (ids, token types) before, between and after; `middle` is empty without a question.
        question_type, words_type: the token types of the two parts.
    """

    prefix: tuple[list[int], list[int]]
    middle: tuple[list[int], list[int]]
    suffix: tuple[list[int], list[int]]
    question_type: int
    words_type: int

    def __len__(self) -> int:
        return len(self.prefix[0]) + len(self.middle[0]) + len(self.suffix[0])


def prepare_tokenizer(tokenizer: Any) -> None:
    """
    Make sure that a tokenizer can be used on words, and that it knows where a word begins.

    Byte-level BPE marks the beginning of a word by the space before it; without `add_prefix_space=True` the words of a
    list are read as parts of words ("two three" becomes "t wo t hr ee"), and nothing warns. The setting is made here,
    on the tokenizer itself, so that it is saved and reloaded with it. Tokenizers that need the space but have no such
    setting get a normalizer that writes it.

    Raises:
        InputError: for a slow tokenizer.
    """
    if not getattr(tokenizer, "is_fast", False) or not hasattr(tokenizer, "backend_tokenizer"):
        raise InputError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, and only fast ones say which sub-word belongs to "
            "which word; load it with AutoTokenizer.from_pretrained(..., use_fast=True)."
        )
    if _keeps_word_boundaries(tokenizer):
        return
    backend = tokenizer.backend_tokenizer
    if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        pre_tokenizer = backend.pre_tokenizer
        pre_tokenizer.add_prefix_space = True
        backend.pre_tokenizer = pre_tokenizer
        tokenizer.add_prefix_space = True
        tokenizer.init_kwargs["add_prefix_space"] = True
    if not _keeps_word_boundaries(tokenizer):
        own = [backend.normalizer] if backend.normalizer is not None else []
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *own])
    if not _keeps_word_boundaries(tokenizer):
        logger.warning(
            "%s tokenizes a word of a list otherwise than the same word in running text; "
            "its pieces may differ from those the model was trained on.",
            type(tokenizer).__name__,
        )


def _keeps_word_boundaries(tokenizer: Any) -> bool:
    """Whether a word of a list is tokenized as the same word in running text, tried on "a a a"."""
    with _plain(tokenizer) as backend:
        try:
            running = backend.encode("a a a", add_special_tokens=False).ids
            listed = backend.encode(["a", "a", "a"], is_pretokenized=True, add_special_tokens=False)
        except Exception:
            # A vocabulary with neither "a" nor an unknown token says nothing.
            return True
    first = sum(word == 0 for word in listed.word_ids)
    return bool(running[-(len(listed.ids) - first) :] == listed.ids[first:])


def tokenize_words(tokenizer: Any, documents: Sequence[Sequence[str]], names: Sequence[str]) -> TokenizedWords:
    """
    Tokenize the words of all documents.

    Args:
        tokenizer: a fast tokenizer.
        documents: the words of each document.
        names: how messages call the documents.

    Raises:
        InputError: where a word yields no token and the tokenizer has no unknown token.
    """
    known = known_words(tokenizer)
    new = list(dict.fromkeys(word for words in documents for word in words if word not in known))
    chunks = [new[start : start + _CHUNK] for start in range(0, len(new), _CHUNK)]
    if chunks:
        with _plain(tokenizer) as backend:
            try:
                encodings = backend.encode_batch(chunks, is_pretokenized=True, add_special_tokens=False)
            except Exception as error:
                raise _refused_word(tokenizer, documents, names, error) from error
        for chunk, encoding in zip(chunks, encodings, strict=True):
            known.update(zip(chunk, _pieces_of_words(encoding, len(chunk)), strict=True))
    pieces = [known[word] for words in documents for word in words]
    counts = np.array([len(ids) for ids, _ in pieces], dtype=np.int64)
    ids = np.array([piece for ids, _ in pieces for piece in ids], dtype=np.int64)
    starts = np.array([start for _, starts in pieces for start in starts], dtype=np.int64)
    missing = counts == 0
    if missing.any():
        if tokenizer.unk_token_id is None:
            every = itertools.chain.from_iterable(documents)
            _raise_no_unknown_token(tokenizer, documents, names, next(itertools.compress(every, missing)))
        places = (np.cumsum(counts) - counts)[missing]
        ids = np.insert(ids, places, tokenizer.unk_token_id)
        starts = np.insert(starts, places, 0)
        counts = np.where(missing, 1, counts)
    begins = np.cumsum(counts) - counts
    lengths = np.array([len(words) for words in documents], dtype=np.int64)
    document_of_word = np.repeat(np.arange(len(documents)), lengths)
    word_in_document = np.arange(len(pieces)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    document_of_token = np.repeat(document_of_word, counts)
    per_document = np.bincount(document_of_token, minlength=len(documents))
    return TokenizedWords(
        input_ids=ids,
        documents=document_of_token,
        words=np.repeat(word_in_document, counts),
        pieces=np.arange(len(ids)) - np.repeat(begins, counts),
        starts=starts,
        bounds=np.concatenate([[0], np.cumsum(per_document)]),
    )


def _pieces_of_words(encoding: Encoding, words: int) -> Iterator[Pieces]:
    """The pieces of each word of a sequence."""
    ids, starts = tuple(encoding.ids), tuple(start for start, _ in encoding.offsets)
    counts = np.bincount(np.array(encoding.word_ids, dtype=np.int64), minlength=words)
    end = 0
    for count in counts.tolist():
        begin, end = end, end + count
        yield ids[begin:end], starts[begin:end]


def _raise_no_unknown_token(
    tokenizer: Any, documents: Sequence[Sequence[str]], names: Sequence[str], word: str
) -> None:
    for words, name in zip(documents, names, strict=True):
        if word in words:
            raise InputError(
                f"{type(tokenizer).__name__} turns {describe_word(words, list(words).index(word))} of {name} into no "
                "token and has no unknown token to stand for it; set tokenizer.unk_token to a token of its vocabulary."
            )


def _refused_word(
    tokenizer: Any, documents: Sequence[Sequence[str]], names: Sequence[str], error: Exception
) -> InputError:
    """Which word made the backend fail: it says only what it did not like."""
    for words, name in zip(documents, names, strict=True):
        for index, word in enumerate(words):
            try:
                word.encode("utf-8")
            except UnicodeEncodeError:
                return InputError(
                    f"{start_sentence(describe_word(words, index))} of {name} holds half a character (a lone "
                    "surrogate); replace it with word.encode('utf-8', 'replace').decode()."
                )
            try:
                tokenizer.backend_tokenizer.encode([word], is_pretokenized=True, add_special_tokens=False)
            except Exception:
                return InputError(
                    f"{type(tokenizer).__name__} cannot tokenize {describe_word(words, index)} of {name} ({error}); "
                    "use a tokenizer whose vocabulary has its unknown token."
                )
    return InputError(f"{type(tokenizer).__name__} cannot tokenize these words ({error}); use another tokenizer.")


def tokenize_questions(tokenizer: Any, questions: Sequence[str]) -> list[list[int]]:
    """The ids of each question, without special tokens."""
    with _plain(tokenizer) as backend:
        try:
            return [encoding.ids for encoding in backend.encode_batch(list(questions), add_special_tokens=False)]
        except Exception as error:
            raise InputError(
                f"{type(tokenizer).__name__} cannot tokenize the questions ({error}); check their characters."
            ) from error


def special_tokens(tokenizer: Any, with_question: bool) -> SpecialTokens:
    """The special tokens around words, read off what the tokenizer itself does to a word (or to a pair of words)."""
    encoding = _encode_some_word(tokenizer, with_question)
    sequences, ids, types = encoding.sequence_ids, encoding.ids, encoding.type_ids

    def part(start: int, end: int) -> tuple[list[int], list[int]]:
        return ids[start:end], types[start:end]

    first_start, first_end = _extent(sequences, 0)
    if not with_question:
        words_type = types[first_start]
        return SpecialTokens(part(0, first_start), ([], []), part(first_end, len(ids)), words_type, words_type)
    second_start, second_end = _extent(sequences, 1)
    return SpecialTokens(
        part(0, first_start),
        part(first_end, second_start),
        part(second_end, len(ids)),
        types[first_start],
        types[second_start],
    )


def _encode_some_word(tokenizer: Any, twice: bool) -> Encoding:
    """A word that the tokenizer turns into at least one token (or a pair of it), with special tokens."""
    with _plain(tokenizer) as backend:
        for candidates in (("a", "1", "."), tokenizer.get_vocab):
            for word in candidates() if callable(candidates) else candidates:
                with suppress(Exception):
                    pair = ([word],) if twice else ()
                    encoding = backend.encode([word], *pair, is_pretokenized=True, add_special_tokens=True)
                    if 0 in encoding.sequence_ids:
                        return encoding
    raise InputError(
        f"{type(tokenizer).__name__} finds no token in the entries of its own vocabulary; "
        "load the tokenizer that belongs to the checkpoint."
    )


def _extent(sequences: list[int | None], sequence: int) -> tuple[int, int]:
    first = sequences.index(sequence)
    return first, len(sequences) - sequences[::-1].index(sequence)


@contextmanager
def _plain(tokenizer: Any) -> Iterator[Any]:
    """The backend with truncation and padding off: what tokenizer.json switched on would cut and pad words."""
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    if truncation is not None:
        backend.no_truncation()
    if padding is not None:
        backend.no_padding()
    try:
        yield backend
    finally:
        if truncation is not None:
            backend.enable_truncation(**truncation)
        if padding is not None:
            backend.enable_padding(**padding)
