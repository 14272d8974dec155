"""Tags of words and the entities they spell: IOB2, BIOES and plain labels."""

from collections.abc import Iterable, Sequence

OUTSIDE = "O"


def bio_labels(types: Iterable[str]) -> list[str]:
    """O, then B-type and I-type for each type: the label list of IOB2."""
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]


def bioes_labels(types: Iterable[str]) -> list[str]:
    """O, then B-, I-, E- and S-type for each type: the label list of BIOES."""
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in "BIES")]


def tagging_scheme(labels: Iterable[str]) -> str:
    """
    The scheme that a set of labels is written in.

    Returns:
        "plain" where some label but O has no prefix; "bioes" where all have one and E- or S- (or L- and U- of BILOU)
        is among them; "iob2" otherwise.
    """
    inside = [label for label in labels if label != OUTSIDE]
    prefixes = {label[0] for label in inside if _is_tagged(label)}
    if not inside or not all(_is_tagged(label) for label in inside):
        return "plain"
    return "bioes" if prefixes & set("ESLU") else "iob2"


def encode_entities(entities: Iterable[tuple[str, int, int]], length: int, scheme: str = "iob2") -> list[str]:
    """
    Tag the words of (label, start, end) spans, `end` exclusive; the inverse of `decode_entities`.

    Args:
        entities: spans that do not overlap.
        length: the number of words.
        scheme: "iob2", "bioes" or "plain".

    Raises:
        ValueError: for spans that overlap or leave the document.
    """
    tags = [OUTSIDE] * length
    for label, start, end in entities:
        if not 0 <= start < end <= length:
            raise ValueError(f"The span {start}..{end} of {label!r} is not within {length} words.")
        if any(tag != OUTSIDE for tag in tags[start:end]):
            raise ValueError(f"The span {start}..{end} of {label!r} overlaps another; tags hold one label a word.")
        for index in range(start, end):
            if scheme == "plain":
                tags[index] = label
                continue
            prefix = "B" if index == start else "I"
            if scheme == "bioes" and index == end - 1:
                prefix = "S" if index == start else "E"
            tags[index] = f"{prefix}-{label}"
    return tags


def decode_entities(labels: Sequence[str], scheme: str | None = None) -> list[tuple[str, int, int]]:
    """
    The entities that a sequence of word labels spells.

    Lenient, as predictions are not always well formed: an I- or E- without a beginning opens an entity, and a change
    of type closes one. Plain labels (without prefixes) make one entity of each run of equal labels but O.

    Args:
        labels: one label per word.
        scheme: "iob2", "bioes" or "plain"; told from the labels themselves when omitted.

    Returns:
        (label, start, end) in reading order, `end` exclusive: the words labels[start:end].
    """
    scheme = scheme or tagging_scheme(labels)
    entities: list[tuple[str, int, int]] = []
    kind: str | None = None
    start = 0
    for index, label in enumerate([*labels, OUTSIDE]):
        prefix, label_kind = _parse(label, scheme)
        continues = kind is not None and label_kind == kind and prefix in "IE"
        if kind is not None and not continues:
            entities.append((kind, start, index))
            kind = None
        if label_kind is None:
            continue
        if kind is None:
            kind, start = label_kind, index
        if prefix in "ES":
            entities.append((kind, start, index + 1))
            kind = None
    return entities


def _is_tagged(label: str) -> bool:
    return len(label) > 2 and label[0] in "BIESLU" and label[1] == "-"


def _parse(label: str, scheme: str) -> tuple[str, str | None]:
    if label == OUTSIDE:
        return OUTSIDE, None
    if scheme == "plain" or not _is_tagged(label):
        # A run of equal labels: each continues the one before.
        return "I", label
    prefix = {"L": "E", "U": "S"}.get(label[0], label[0])
    if scheme == "iob2" and prefix in "ES":
        prefix = "I"
    return prefix, label[2:]
