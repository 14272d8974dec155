"""The words that ROUGE compares, in any script; rouge-score's own tokenizer keeps a to z and digits alone."""

import unicodedata
from collections.abc import Sequence
from typing import Any

TOKENIZERS = ("auto", "rouge-score", "unicode")

OTHER_LETTERS = 0.01
"""References with at least this share of letters beyond a to z are in a language that rouge-score takes apart."""

# Scripts written without spaces, as their characters' names begin.
_UNSPACED = (
    "CJK ", "IDEOGRAPHIC ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA", "BOPOMOFO ", "THAI ", "LAO ", "KHMER ",
    "MYANMAR ",
)  # fmt: skip


def choose_tokenizer(tokenizer: str, references: Sequence[str]) -> str:
    """
    "rouge-score" or "unicode", where `tokenizer` may be "auto".

    The references alone decide, once for all of them: a corpus has the same one whatever a model writes. A few
    accented names or Greek letters in English change nothing.
    """
    if tokenizer != "auto":
        return tokenizer
    letters = others = 0
    for text in references:
        found = [letter.isascii() for letter in text.lower() if letter.isalpha()]
        letters += len(found)
        others += found.count(False)
    return "unicode" if others and others >= OTHER_LETTERS * letters else "rouge-score"


class UnicodeTokenizer:
    """
    Words of letters, their marks and digits, in lower case; each character of a script without spaces is a word.

    Text of ASCII gives the words of rouge-score's tokenizer; words with other letters have no Porter stem.

    Args:
        use_stemmer: compare Porter stems of words of more than three letters, all from a to z.
    """

    def __init__(self, use_stemmer: bool = False):
        # It is there with rouge-score, which needs it too.
        from nltk.stem.porter import PorterStemmer

        self._stemmer = PorterStemmer() if use_stemmer else None

    def tokenize(self, text: str) -> list[str]:
        """The words, in order."""
        words = unicodedata.normalize("NFC", text.lower()).translate(_CHARACTERS).split()
        return [self._stem(word) for word in words]

    def _stem(self, word: str) -> str:
        return self._stemmer.stem(word) if self._stemmer and len(word) > 3 and word.isascii() else word


class _Characters(dict[int, str]):
    """What becomes of each character: itself, itself as a word, or a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] not in "LM" and category not in ("Nd", "Nl"):
            kept = " "
        else:
            kept = f" {character} " if unicodedata.name(character, "").startswith(_UNSPACED) else character
        self[code] = kept
        return kept


_CHARACTERS: Any = _Characters()
