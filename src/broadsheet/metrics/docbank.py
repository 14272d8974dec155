"""DocBank's precision, recall and F1 of semantic structures, by area and by token (Li et al., 2020, section 5.1)."""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from broadsheet.metrics.resampling import described, occurs, resampled_sums, type_intervals
from broadsheet.tokenization.input_checks import InputError

CLASSES = (
    "abstract", "author", "caption", "date", "equation", "figure", "footer", "list", "paragraph", "reference",
    "section", "table", "title",
)  # fmt: skip
"""All thirteen labels of DocBank's files."""

DOCBANK_LA_CLASSES = tuple(name for name in CLASSES if name != "figure")
"""The twelve that DocBank-LA averages over: its words that mark figures are dropped, so that none is left."""

DOCBANK_PAPER_CLASSES = tuple(name for name in CLASSES if name != "date")
"""The twelve that the DocBank paper averages over."""

_NAMES = ("precision", "recall", "f1")


def docbank_area_f1(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    boxes: Sequence[Sequence[Sequence[float]]],
    classes: Sequence[str] = DOCBANK_LA_CLASSES,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    DocBank's metric: every word counts with the area of its box.

    For each class, over all pages: precision = area of the words that are both of the class and predicted as it /
    area of all words predicted as it; recall = the same area / area of all words of the class; F1 their harmonic
    mean. Overlapping boxes count each; a box without area counts nothing, whatever its prediction.

    Args:
        predictions: the predicted class of each word, by document.
        references: the true classes, of the same shape.
        boxes: (x0, y0, x1, y1) of each word, of the same shape, all documents in one unit (DocBank's 0..1000), since
            the areas of all pages are added up.
        classes: those to average over, `DOCBANK_LA_CLASSES` or `DOCBANK_PAPER_CLASSES`. Others of the thirteen may
            occur and are reported, but neither averaged nor part of the micro average.
        bootstrap_samples: resamples of the documents for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        `precision`, `recall`, `f1`: the means over the classes (the paper's "macro average"); `averaged`, the classes
        that they are over, which are those of `classes` that occur in truth or predictions; `micro`, the same from the
        sums over these classes; `types`, by class, with `support` and `predicted` as areas; `documents`; `interval`
        with [low, high] of precision, recall, f1, micro_f1 and each class' f1, or None with fewer than two documents
        (a class that a resample lacks is left out of that resample's mean). All ratios are in 0..1; one without
        denominator is 0.

    Raises:
        InputError: no documents, or labels or boxes of another count; an unknown label; a box with a NaN or swapped
            corners; no classes.
    """
    _check(predictions, references, classes)
    weights = _areas(boxes, references)
    return _report(predictions, references, weights, classes, bootstrap_samples, confidence, seed)


def docbank_token_f1(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    classes: Sequence[str] = DOCBANK_LA_CLASSES,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    As `docbank_area_f1`, but every word counts one: precision, recall and F1 of word classes.

    `support` and `predicted` are numbers of words. `accuracy` is the share of all words that are right, those of
    classes outside `classes` included.
    """
    _check(predictions, references, classes)
    ones = [np.ones(len(labels)) for labels in references]
    report = _report(predictions, references, ones, classes, bootstrap_samples, confidence, seed)
    right = sum(sum(map(str.__eq__, *pair)) for pair in zip(predictions, references, strict=True))
    return {"accuracy": right / max(sum(map(len, references)), 1), **report}


class DocBankF1(evaluate.Metric):
    """
    `docbank_area_f1`, or `docbank_token_f1`, as an `evaluate.Metric`.

    `DocBankF1().compute(predictions=..., references=..., boxes=...)`, or `add_batch` with the same names first; with
    `unit="token"` there are no boxes.

    Args:
        unit: "area" or "token".
        keep_in_memory: hold what `add_batch` adds in memory rather than in a file.
        options: of `evaluate.Metric`.
    """

    def __init__(self, unit: str = "area", keep_in_memory: bool = True, **options: Any):
        if unit not in ("area", "token"):
            raise InputError(f"DocBank's metric has no unit {unit!r}; choose one of area, token.")
        self.unit = unit
        super().__init__(keep_in_memory=keep_in_memory, **options)

    def _info(self) -> evaluate.MetricInfo:
        labels = datasets.List(datasets.Value("string"))
        features = {"predictions": labels, "references": labels}
        if self.unit == "area":
            features["boxes"] = datasets.List(datasets.List(datasets.Value("float64"), length=4))
        return evaluate.MetricInfo(
            description="DocBank's precision, recall and F1, with bootstrap intervals over documents.",
            citation="",
            inputs_description=docbank_area_f1.__doc__ or "",
            features=datasets.Features(features),
            reference_urls=["https://arxiv.org/abs/2006.01038"],
        )

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, Any] | None:
        """As the plain functions; the inputs are left out after `add_batch`."""
        if predictions is not None and references is not None:
            # Before they are written to a table, which would fail on them without saying why.
            _check(predictions, references, options.get("classes", DOCBANK_LA_CLASSES))
            if self.unit == "area":
                if options.get("boxes") is None:
                    raise InputError("DocBank's metric by area needs boxes; pass boxes=..., or choose unit='token'.")
                _areas(options["boxes"], references)
        return super().compute(predictions=predictions, references=references, **options)

    def _compute(self, predictions: Any, references: Any, boxes: Any = None, **options: Any) -> dict[str, Any]:
        if self.unit == "token":
            return docbank_token_f1(predictions, references, **options)
        return docbank_area_f1(predictions, references, boxes, **options)


def _check(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], classes: Sequence[str]) -> None:
    if len(references) == 0:
        raise InputError("There are no documents to score; pass the labels of at least one.")
    if len(classes) == 0:
        raise InputError("There are no classes to average over; pass for example DOCBANK_LA_CLASSES.")
    if len(predictions) != len(references):
        raise InputError(f"There are predictions for {len(predictions)} documents but labels of {len(references)}.")
    known = {*CLASSES, *classes}
    for document, (predicted, true) in enumerate(zip(predictions, references, strict=True)):
        if len(predicted) != len(true):
            raise InputError(
                f"Document {document} has {len(predicted)} predicted but {len(true)} true labels; give one per word."
            )
        for kind, labels in (("predicted", predicted), ("true", true)):
            for label in set(labels) - known - {"O"}:  # of words of no class, in corpora other than DocBank
                raise InputError(
                    f"Document {document} has the {kind} label {label!r}, which is none of DocBank's "
                    f"{', '.join(sorted(known))}; pass the labels' names, without B- and I-."
                )


def _areas(boxes: Sequence[Sequence[Sequence[float]]], references: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """The area of each word's box, by document."""
    if len(boxes) != len(references):
        raise InputError(f"There are boxes for {len(boxes)} documents but labels of {len(references)}.")
    areas = []
    for document, (found, labels) in enumerate(zip(boxes, references, strict=True)):
        if len(found) != len(labels):
            raise InputError(
                f"Document {document} has {len(found)} boxes but {len(labels)} labels; give one per word."
            )
        corners = np.asarray(found, dtype=np.float64).reshape(len(labels), 4) if len(labels) else np.zeros((0, 4))
        sizes = corners[:, 2:] - corners[:, :2]
        # NaN compares false, so that it is found here too.
        wrong = np.flatnonzero(~((sizes >= 0) & np.isfinite(sizes)).all(axis=1))
        if len(wrong):
            raise InputError(
                f"The box {corners[wrong[0]].tolist()} of word {wrong[0]} of document {document} has no area; give "
                "(x0, y0, x1, y1) with x0 <= x1 and y0 <= y1, all finite."
            )
        areas.append(sizes.prod(axis=1))
    return areas


def _report(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    weights: Sequence[np.ndarray],
    classes: Sequence[str],
    bootstrap_samples: int,
    confidence: float,
    seed: int,
) -> dict[str, Any]:
    others = {label for document in [*predictions, *references] for label in document} - set(classes)
    names = [*classes, *sorted(others)]
    position = {name: index for index, name in enumerate(names)}
    # [documents, classes, (right, predicted, true)]
    sums = np.zeros((len(references), len(names), 3))
    for document, (predicted, true, weight) in enumerate(zip(predictions, references, weights, strict=True)):
        found = np.array([position[label] for label in predicted], dtype=np.int64)
        wanted = np.array([position[label] for label in true], dtype=np.int64)
        same = found == wanted
        for column, (index, amount) in enumerate(((wanted[same], weight[same]), (found, weight), (wanted, weight))):
            np.add.at(sums[document, :, column], index, amount)
    totals = sums.sum(axis=0)
    ratios = _ratios(totals)
    present = occurs(totals)
    averaged = present & (np.arange(len(names)) < len(classes))
    return {
        **_named(_means(ratios, averaged)),
        "averaged": [name for name, kept in zip(names, averaged, strict=True) if kept],
        "micro": _named(_ratios(totals[: len(classes)].sum(axis=0))),
        "types": {
            name: {
                **_named(ratios[index]),
                "support": float(totals[index, 2]),
                "predicted": float(totals[index, 1]),
            }
            for index, name in enumerate(names)
            if present[index]
        },
        "documents": len(sums),
        "interval": _intervals(sums, names, len(classes), present, bootstrap_samples, confidence, seed),
    }


def _intervals(
    sums: np.ndarray, names: list[str], averaged: int, present: np.ndarray, samples: int, confidence: float, seed: int
) -> dict[str, Any] | None:
    drawn = resampled_sums(sums, samples, confidence, seed)
    if drawn is None:
        return None
    ratios = _ratios(drawn)
    means = _means(ratios[:, :averaged], occurs(drawn[:, :averaged]))
    intervals = {name: means[:, index] for index, name in enumerate(_NAMES)}
    intervals["micro_f1"] = _ratios(drawn[:, :averaged].sum(axis=1))[:, 2]
    types = [(index, name) for index, name in enumerate(names) if present[index]]
    return {
        **described(intervals, samples, confidence, seed),
        "types": type_intervals(ratios[..., 2], drawn, types, confidence),
    }


def _ratios(sums: np.ndarray) -> np.ndarray:
    """(right, predicted, true) in the last axis to (precision, recall, f1); 0 where there is nothing to divide by."""
    right, predicted, true = sums[..., 0], sums[..., 1], sums[..., 2]
    pairs = ((right, predicted), (right, true), (2 * right, predicted + true))
    return np.stack([part / np.where(whole > 0, whole, 1) for part, whole in pairs], axis=-1)


def _means(ratios: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The mean over the kept classes: `[..., 3]` from `[..., classes, 3]` and `[..., classes]`; 0 where none is."""
    return (ratios * kept[..., None]).sum(axis=-2) / np.maximum(kept.sum(axis=-1), 1)[..., None]


def _named(ratios: np.ndarray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(_NAMES, ratios, strict=True)}
