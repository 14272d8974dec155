"""Choosing the words whose attention is looked at: by text, by their numbers, by the label that a model gives."""

import os
import re
from typing import Any

from broadsheet.documents import Document
from broadsheet.tokenization.input_checks import InputError


def select_text(document: Document, text: str) -> list[int]:
    """
    The words of every place where a text stands, compared word by word without case and outer punctuation.

    Raises:
        InputError: the text is empty, or stands nowhere in the document.
    """
    wanted = [_plain(word) for word in text.split()]
    wanted = [word for word in wanted if word]
    if not wanted:
        raise InputError(f"The text {text!r} has no word to look for; give words of the document.")
    words = [_plain(word) for word in document.words]
    found: list[int] = []
    for start in range(len(words) - len(wanted) + 1):
        if words[start : start + len(wanted)] == wanted:
            found.extend(range(start, start + len(wanted)))
    if not found:
        raise InputError(
            f"{text!r} stands nowhere in {_name(document)}; check the spelling, or choose words by their numbers."
        )
    return sorted(set(found))


def select_words(document: Document, ranges: str) -> list[int]:
    """
    Words by their numbers, counted from 0 as in `broadsheet extract --json`: "3-17", "5", or several, "3-17,40".

    Raises:
        InputError: that is no such range, or the document has no such word.
    """
    found: set[int] = set()
    for part in ranges.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise InputError(f"{ranges!r} is no range of words; write it as 3-17, as 5, or as 3-17,40.")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < len(document):
            raise InputError(
                f"There are no words {part.strip()} in {_name(document)}; its words are 0-{len(document) - 1}."
            )
        found.update(range(first, last + 1))
    return sorted(found)


def select_label(document: Document, label: str, model: str | os.PathLike[str], **kwargs: Any) -> list[int]:
    """
    The words that a fine-tuned model gives a label, in any of its entities.

    Args:
        document: the document.
        label: an entity type, as "author", without case.
        model: a token classification model with its processor, a folder or a repository of the Hub.
        kwargs: of `FieldExtractor.from_pretrained`.

    Raises:
        InputError: the model does not know the label, or gives it to no word.
    """
    from broadsheet.extraction import FieldExtractor

    extractor = FieldExtractor.from_pretrained(model, **kwargs)
    names = {re.sub(r"^[BIESLU]-", "", name) for name in extractor.model.config.id2label.values()}
    if label.lower() not in {name.lower() for name in names}:
        raise InputError(f"{model} knows no label {label!r}; its labels are {', '.join(sorted(names))}.")
    entities = [entity for entity in extractor(document).entities if entity.label.lower() == label.lower()]
    if not entities:
        raise InputError(f"{model} labels no word of {_name(document)} as {label!r}; choose by text or numbers.")
    return sorted({index for entity in entities for index in entity.word_ids})


def _plain(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word).casefold()


def _name(document: Document) -> str:
    return document.source or "the document"
