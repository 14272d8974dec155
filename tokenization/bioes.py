"""BIOES labels of entities, with a count of what they cannot carry."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .input_checks import InputError
from .tagging import OUTSIDE, bioes_labels, decode_entities, encode_entities, tagging_scheme


@dataclass(frozen=True)
class BioesTags:
    """
    The labels of a document's words, and what they lost.

    Attributes:
        labels: one BIOES label a word.
        entities: how many entities there were.
        in_pieces: how many of them have gaps: each of their runs of words is labelled as an entity of its own.
        overlapping: how many share words with one before them, whose label these words keep; what is left of them is
            labelled.
        reordered: how many of the rest have words in another order than the document's, which the labels give back.
    """

    labels: list[str]
    entities: int
    in_pieces: int
    overlapping: int
    reordered: int

    @property
    def carried(self) -> int:
        """How many entities the labels give back as they were."""
        return self.entities - self.in_pieces - self.overlapping - self.reordered


def bioes_tags(entities: Iterable[tuple[str, Sequence[int]]], num_words: int) -> BioesTags:
    """
    Label the words of entities, also of discontinuous ones as far as BIOES can carry them.

    Args:
        entities: (type, word indices) each, the indices in the entity's order; indices twice count once. An entity
            without words is left out of the count.
        num_words: the words of the document.

    Returns:
        The labels and the counts, in which an entity stands once: as overlapping before in pieces before reordered.

    Raises:
        InputError: an entity has a word that the document does not have.
    """
    taken: set[int] = set()
    runs: list[tuple[str, int, int]] = []
    count = in_pieces = overlapping = reordered = 0
    for kind, word_ids in entities:
        words = sorted(set(word_ids))
        if not words:
            continue
        if words[0] < 0 or words[-1] >= num_words:
            raise InputError(
                f"An entity {kind!r} has the words {words}, but the document has {num_words} words, counted from 0; "
                "correct its word_ids."
            )
        count += 1
        free = [word for word in words if word not in taken]
        taken.update(free)
        if len(free) < len(words):
            overlapping += 1
        elif words[-1] - words[0] + 1 > len(words):
            in_pieces += 1
        elif words != list(dict.fromkeys(word_ids)):
            reordered += 1
        start = 0
        for place in range(1, len(free) + 1):
            if place == len(free) or free[place] != free[place - 1] + 1:
                runs.append((kind, free[start], free[place - 1] + 1))
                start = place
    return BioesTags(encode_entities(runs, num_words, "bioes"), count, in_pieces, overlapping, reordered)


def to_bioes(labels: Sequence[str], scheme: str | None = None) -> list[str]:
    """
    The labels of a document's words in BIOES.

    Args:
        labels: one a word.
        scheme: "iob2", "bioes" (also for BILOU) or "plain", as `tagging_scheme` tells it from all labels of the
            dataset; told from the document's own when None.
    """
    return encode_entities(decode_entities(labels, scheme), len(labels), "bioes")


def bioes_names(names: Iterable[str]) -> list[str]:
    """
    The label names of a dataset, in IOB2, BIOES or BILOU, as BIOES.

    Returns:
        O, then B-, I-, E- and S- of each type; names that are these already, in their own order.

    Raises:
        InputError: there are plain labels among them.
    """
    names = list(names)
    tagged = [name for name in names if name != OUTSIDE]
    plain = [name for name in tagged if tagging_scheme([name]) == "plain"]
    if plain:
        raise InputError(
            f"The labels {', '.join(plain)} have no B- or I- before them, so that no BIOES can be made of them; set "
            "scheme to plain, for one class a word."
        )
    wanted = bioes_labels(dict.fromkeys(name[2:] for name in tagged))
    return names if set(names) == set(wanted) else wanted
