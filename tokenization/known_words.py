"""Pieces of words that a tokenizer has met before: text repeats its words, and a word's pieces are always the same."""

from typing import Any
from weakref import WeakKeyDictionary

# Ids and first characters of a word's pieces.
Pieces = tuple[tuple[int, ...], tuple[int, ...]]

# Beyond so many words a tokenizer begins anew; about 30 MB.
MOST_WORDS = 1 << 16

_MODEL_SETTINGS = (
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "max_input_chars_per_word",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
)

# Kept here, not on the tokenizer, so that they change no fingerprint and travel with no copy.
_known: WeakKeyDictionary[Any, tuple[Any, dict[str, Pieces]]] = WeakKeyDictionary()


def known_words(tokenizer: Any) -> dict[str, Pieces]:
    """
    The words whose pieces are known, to look up and to add to; an empty dict after anything that decides on pieces
    (added tokens, normalizer, pre-tokenizer, a setting of the model) was changed, or where pieces are drawn at random.
    """
    settings = _settings(tokenizer.backend_tokenizer)
    if settings is None:
        return {}
    kept = _known.get(tokenizer)
    if kept is None or kept[0] != settings or len(kept[1]) > MOST_WORDS:
        kept = _known[tokenizer] = (settings, {})
    return kept[1]


def _settings(backend: Any) -> tuple[Any, ...] | None:
    """All that decides on a word's pieces beside the vocabulary's content; None where that cannot be told."""
    model = backend.model
    if getattr(model, "dropout", None) or getattr(model, "alpha", None) is not None:
        return None  # sub-word regularization
    try:
        steps = repr(backend.normalizer), repr(backend.pre_tokenizer)
    except Exception:
        return None  # steps written in Python
    return (
        backend,
        steps,
        backend.get_vocab_size(with_added_tokens=True),
        repr(backend.get_added_tokens_decoder()),
        backend.encode_special_tokens,
        type(model),
        *(getattr(model, name, None) for name in _MODEL_SETTINGS),
    )
