"""Strict entity precision, recall and F1 on seqeval, with intervals over documents."""

from collections.abc import Collection, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, IOE1, IOE2, Entities

from broadsheet.metrics.f1_report import f1_report
from broadsheet.tokenization.input_checks import InputError

SCHEMES = {"IOB1": IOB1, "IOB2": IOB2, "IOE1": IOE1, "IOE2": IOE2, "IOBES": IOBES, "BILOU": BILOU}


def entity_f1(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    scheme: str = "IOB2",
    labels: Collection[str] | None = None,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Entity precision, recall and F1: an entity counts when its type, first and last word are all right.

    Entities are what seqeval finds in `mode="strict"`: a sequence that breaks the scheme (an I- after O in IOB2) is
    no entity. A ratio without denominator is 0.

    Args:
        predictions: the predicted labels of each document, one per word.
        references: the true labels, of the same shape.
        scheme: "IOB2", "IOBES", "IOB1", "IOE1", "IOE2" or "BILOU"; never guessed, because a guess from predictions
            changes the score.
        labels: the labels that may occur, to catch others; unchecked when omitted.
        bootstrap_samples: resamples of the documents for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        As `f1_report`, by entity type.

    Raises:
        InputError: an unknown scheme or label, a label that is no text, no documents, or documents of different
            lengths.
    """
    if scheme not in SCHEMES:
        raise InputError(f"There is no tagging scheme {scheme!r}; choose one of {', '.join(SCHEMES)}.")
    _check(predictions, references, labels)
    predicted = _entities(predictions, scheme, "predictions")
    true = _entities(references, scheme, "references")
    types = sorted({entity[0] for document in [*predicted, *true] for entity in document})
    # [documents, types, (right, predicted, true)]
    counts = np.zeros((len(true), len(types), 3), dtype=np.int64)
    position = {name: index for index, name in enumerate(types)}
    for document, (found, wanted) in enumerate(zip(predicted, true, strict=True)):
        for column, entities in enumerate((found & wanted, found, wanted)):
            for entity in entities:
                counts[document, position[entity[0]], column] += 1
    return f1_report(counts, types, bootstrap_samples, confidence, seed)


class EntityF1(evaluate.Metric):
    """
    `entity_f1` as an `evaluate.Metric`: `EntityF1().compute(predictions=..., references=...)`, or `add_batch` first.

    Args:
        scheme: the tagging scheme (see `entity_f1`).
        keep_in_memory: hold what `add_batch` adds in memory rather than in a file.
        options: of `evaluate.Metric`.
    """

    def __init__(self, scheme: str = "IOB2", keep_in_memory: bool = True, **options: Any):
        if scheme not in SCHEMES:
            raise InputError(f"There is no tagging scheme {scheme!r}; choose one of {', '.join(SCHEMES)}.")
        self.scheme = scheme
        super().__init__(keep_in_memory=keep_in_memory, **options)

    def _info(self) -> evaluate.MetricInfo:
        sequence = datasets.List(datasets.Value("string"))
        return evaluate.MetricInfo(
            description="Strict entity precision, recall and F1 (seqeval), with bootstrap intervals over documents.",
            citation="",
            inputs_description=entity_f1.__doc__ or "",
            features=datasets.Features({"predictions": sequence, "references": sequence}),
            reference_urls=["https://github.com/chakki-works/seqeval"],
        )

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, Any] | None:
        """As `entity_f1`; both arguments are left out after `add_batch`."""
        if predictions is not None and references is not None:
            # Before they are written to a table, which would fail on them without saying why.
            _check(predictions, references, options.get("labels"))
        return super().compute(predictions=predictions, references=references, **options)

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return entity_f1(predictions, references, scheme=self.scheme, **options)


def _check(predictions: Any, references: Any, labels: Collection[str] | None) -> None:
    if len(references) == 0:
        raise InputError("There are no documents to score; pass the labels of at least one.")
    if len(predictions) != len(references):
        raise InputError(f"There are predictions for {len(predictions)} documents but labels of {len(references)}.")
    known = None if labels is None else set(labels)
    for document, (predicted, true) in enumerate(zip(predictions, references, strict=True)):
        if len(predicted) != len(true):
            raise InputError(
                f"Document {document} has {len(predicted)} predicted but {len(true)} true labels; give one per word."
            )
        for name, labels_of in (("predicted", predicted), ("true", true)):
            wrong = [label for label in labels_of if not isinstance(label, str)]
            if wrong:
                raise InputError(
                    f"Document {document} has the {name} label {wrong[0]!r}, which is no text; pass the labels' "
                    "names, such as 'B-total', not their ids (config.id2label has the names)."
                )
        if known is not None and not known.issuperset(predicted):
            raise InputError(_unknown(document, "predicted", set(predicted) - known, known))
        if known is not None and not known.issuperset(true):
            raise InputError(_unknown(document, "true", set(true) - known, known))


def _unknown(document: int, kind: str, found: set[str], known: set[str]) -> str:
    names = ", ".join(sorted(known))
    return f"Document {document} has the {kind} label {min(found)!r}, which is none of the labels {names}."


def _entities(sequences: Sequence[Sequence[str]], scheme: str, name: str) -> list[set[tuple[str, int, int]]]:
    """The (type, start, end) of each document's entities, end exclusive."""
    try:
        found = Entities([list(sequence) for sequence in sequences], scheme=SCHEMES[scheme]).entities
    except (ValueError, KeyError, IndexError):
        # seqeval says which letter it stumbled on, but neither where nor why.
        allowed = set(SCHEMES[scheme].allowed_prefix.name.split("|"))
        for document, sequence in enumerate(sequences):
            for word, label in enumerate(sequence):
                if label[:1] not in allowed:
                    raise InputError(
                        f"The label {label!r} of word {word} of document {document} in {name} does not follow "
                        f"{scheme}, whose labels start with {', '.join(sorted(allowed))}; pass the labels' scheme."
                    ) from None
        raise
    return [{(entity.tag, entity.start, entity.end) for entity in document} for document in found]
