"""ANLS: average normalized Levenshtein similarity of answers (Biten et al., 2019; Mathew et al., 2021)."""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from broadsheet.metrics.resampling import described, group_sums, resampled_sums
from broadsheet.tokenization.input_checks import InputError


def levenshtein(first: str, second: str) -> int:
    """The least number of characters to insert, delete or replace to make one text the other."""
    if len(first) < len(second):
        first, second = second, first
    row = list(range(len(second) + 1))
    for line, left in enumerate(first, start=1):
        diagonal, row[0] = row[0], line
        for column, right in enumerate(second, start=1):
            cost = diagonal + (left != right)
            diagonal = row[column]
            row[column] = min(cost, diagonal + 1, row[column - 1] + 1)
    return row[-1]


def answer_similarity(prediction: str, answers: Sequence[str], threshold: float = 0.5) -> float:
    """
    The similarity of an answer to the nearest of the true ones, in 0..1; 0 where it is under the threshold.

    As in DocVQA's official script, case does not count, runs of white space are one space, and a similarity of
    exactly the threshold still counts. (That script divides by the length before white space is removed; here it is
    after, as in the definition. It matters only where there is white space to remove.)

    Args:
        prediction: the answer found.
        answers: the true ones, at least one.
        threshold: of the similarity 1 - distance / length of the longer text.
    """
    found = _normalized(prediction)
    best = 0.0
    for answer in map(_normalized, answers):
        longer = max(len(found), len(answer))
        if longer == 0:
            return 1.0
        # The difference of lengths bounds the distance from below: long wrong answers cost nothing.
        if 1 - abs(len(found) - len(answer)) / longer > best:
            best = max(best, 1 - levenshtein(found, answer) / longer)
    return best if best >= threshold else 0.0


def anls(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    documents: Sequence[Any] | None = None,
    threshold: float = 0.5,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    The mean of `answer_similarity` over questions.

    Args:
        predictions: the answer to each question; an empty text where none was found.
        references: all true answers to each question, at least one.
        documents: the document of each question, any hashable, so that the intervals resample documents; each
            question counts as a document of its own when omitted.
        threshold: similarities under it count 0.
        bootstrap_samples: resamples of the documents for the interval; 0 for none.
        confidence: the interval's coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        `anls`; `exact`, the share of answers with similarity 1; both in 0..1; `questions` and `documents`, how many;
        `interval` with [low, high] of both, or None with fewer than two documents.

    Raises:
        InputError: no questions, lists of different lengths, a question without true answers, a threshold outside
            0..1.
    """
    _check(predictions, references)
    if not 0 <= threshold <= 1:
        raise InputError(f"The threshold {threshold} is not between 0 and 1; 0.5 is usual.")
    scores = [answer_similarity(*pair, threshold) for pair in zip(predictions, references, strict=True)]
    # [documents, (similarity, exact, questions)]
    sums = group_sums(np.array([[score, score == 1, 1] for score in scores], dtype=np.float64), documents)
    total = sums.sum(axis=0)
    drawn = resampled_sums(sums, bootstrap_samples, confidence, seed)
    intervals = None
    if drawn is not None:
        both = {"anls": drawn[:, 0] / drawn[:, 2], "exact": drawn[:, 1] / drawn[:, 2]}
        intervals = described(both, bootstrap_samples, confidence, seed)
    return {
        "anls": float(total[0] / total[2]),
        "exact": float(total[1] / total[2]),
        "questions": len(scores),
        "documents": len(sums),
        "interval": intervals,
    }


class Anls(evaluate.Metric):
    """
    `anls` as an `evaluate.Metric`: `Anls().compute(predictions=..., references=...)`, or `add_batch` first.

    `documents` goes to `compute`, in the order in which questions were added.
    """

    def __init__(self, keep_in_memory: bool = True, **options: Any):
        super().__init__(keep_in_memory=keep_in_memory, **options)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description="Average normalized Levenshtein similarity, with a bootstrap interval over documents.",
            citation="",
            inputs_description=anls.__doc__ or "",
            features=datasets.Features({"predictions": text, "references": datasets.List(text)}),
            reference_urls=["https://rrc.cvc.uab.es/?ch=17&com=tasks"],
        )

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, Any] | None:
        """As `anls`; both arguments are left out after `add_batch`."""
        if predictions is not None and references is not None:
            _check(predictions, references)
        return super().compute(predictions=predictions, references=references, **options)

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return anls(predictions, references, **options)


def _normalized(text: str) -> str:
    return " ".join(text.lower().split())


def _check(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if len(references) == 0:
        raise InputError("There are no questions to score; pass the answers to at least one.")
    if len(predictions) != len(references):
        raise InputError(f"There are {len(predictions)} predicted answers but {len(references)} lists of true ones.")
    for question, (found, answers) in enumerate(zip(predictions, references, strict=True)):
        if not isinstance(found, str):
            raise InputError(
                f"The predicted answer to question {question} is {found!r}, no text; pass '' where none was found."
            )
        if isinstance(answers, str) or len(answers) == 0:
            raise InputError(
                f"Question {question} has the true answers {answers!r}; pass a list of one or more, or leave it out."
            )
