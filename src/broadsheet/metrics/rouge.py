"""ROUGE of summaries, by the rouge-score package, with intervals over documents (Lin, 2004)."""

import re
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from broadsheet.metrics.resampling import described, resampled_sums
from broadsheet.metrics.rouge_words import TOKENIZERS, UnicodeTokenizer, choose_tokenizer
from broadsheet.tokenization.input_checks import InputError

TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
SENTENCE_SPLITS = ("newline", "punctuation")

_NAMES = ("precision", "recall", "f1")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")


def rouge(
    predictions: Sequence[str],
    references: Sequence[str],
    types: Sequence[str] = TYPES,
    use_stemmer: bool = True,
    sentence_split: str = "newline",
    tokenizer: str = "auto",
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """
    ROUGE-N and ROUGE-L of summaries against one reference each.

    Scores differ by several points with stemming, with the sentences of ROUGE-Lsum and, in other languages than
    English, with the tokenizer, so that these settings stand in the result. An empty summary scores 0.

    Args:
        predictions: the summaries.
        references: the true ones.
        types: of "rouge1", "rouge2", ..., "rougeL" (the longest common subsequence of the whole texts, whatever their
            lines) and "rougeLsum" (of each sentence with the union over the sentences, as the original ROUGE-1.5.5).
        use_stemmer: compare Porter stems, as ROUGE-1.5.5 with -m and most papers do.
        sentence_split: where sentences end for rougeLsum: "newline" takes each line as one, as rouge-score does;
            "punctuation" breaks lines after ". ", "! " and "? " too.
        tokenizer: "rouge-score" compares words of a to z and digits, and drops all other letters, as published numbers
            do; "unicode" compares words of any letters, and single characters of Chinese, Japanese, Thai and the like.
            "auto" takes "unicode" where at least 1 % of the references' letters are beyond a to z.
        bootstrap_samples: resamples of the documents for the intervals; 0 for none.
        confidence: the intervals' coverage, between 0 and 1.
        seed: of the resampling.

    Returns:
        For each type `precision`, `recall`, `f1`, the means over documents, in 0..1; `documents`; `settings`
        (package and version, use_stemmer, sentence_split, the tokenizer taken); `interval` with [low, high] of each
        type's f1, or None with fewer than two documents.

    Raises:
        InputError: rouge-score is not installed; an unknown type or setting; no documents, lists of different
            lengths, a summary that is no text, an empty reference.
    """
    scorer_of = rouge_scorer()
    _check(predictions, references, types, sentence_split, tokenizer)
    tokenizer = choose_tokenizer(tokenizer, references)
    words = UnicodeTokenizer(use_stemmer) if tokenizer == "unicode" else None
    scorer = scorer_of(list(types), use_stemmer=use_stemmer, tokenizer=words)
    # [documents, types, (precision, recall, f1)]
    scores = np.zeros((len(references), len(types), 3))
    for document, (predicted, true) in enumerate(zip(predictions, references, strict=True)):
        if sentence_split == "punctuation":
            predicted, true = _sentences(predicted), _sentences(true)
        found = scorer.score(true, predicted)
        for index, name in enumerate(types):
            scores[document, index] = found[name].precision, found[name].recall, found[name].fmeasure
    means = scores.mean(axis=0)
    drawn = resampled_sums(scores[:, :, 2], bootstrap_samples, confidence, seed)
    intervals = None
    if drawn is not None:
        by_type = {name: drawn[:, index] / len(scores) for index, name in enumerate(types)}
        intervals = described(by_type, bootstrap_samples, confidence, seed)
    return {
        **{
            name: {part: float(value) for part, value in zip(_NAMES, means[index], strict=True)}
            for index, name in enumerate(types)
        },
        "documents": len(scores),
        "settings": {
            "package": f"rouge-score {_version()}",
            "use_stemmer": use_stemmer,
            "sentence_split": sentence_split,
            "tokenizer": tokenizer,
        },
        "interval": intervals,
    }


class Rouge(evaluate.Metric):
    """`rouge` as an `evaluate.Metric`: `Rouge().compute(predictions=..., references=...)`, or `add_batch` first."""

    def __init__(self, keep_in_memory: bool = True, **options: Any):
        super().__init__(keep_in_memory=keep_in_memory, **options)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description="ROUGE by rouge-score, with bootstrap intervals over documents.",
            citation="",
            inputs_description=rouge.__doc__ or "",
            features=datasets.Features({"predictions": text, "references": text}),
            reference_urls=["https://pypi.org/project/rouge-score/"],
        )

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, Any] | None:
        """As `rouge`; both arguments are left out after `add_batch`."""
        if predictions is not None and references is not None:
            split, tokenizer = options.get("sentence_split", "newline"), options.get("tokenizer", "auto")
            _check(predictions, references, options.get("types", TYPES), split, tokenizer)
        return super().compute(predictions=predictions, references=references, **options)

    def _compute(self, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return rouge(predictions, references, **options)


def rouge_scorer() -> Any:
    """The scorer's class of rouge-score. Raises `InputError` where the package is not installed."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise InputError(
            "ROUGE needs the package rouge-score, which is not installed; run pip install 'broadsheet[summarization]'."
        ) from None
    return RougeScorer


def _version() -> str:
    from importlib import metadata

    return metadata.version("rouge-score")


def _sentences(text: str) -> str:
    return _SENTENCE_END.sub("\n", text)


def _check(
    predictions: Sequence[str], references: Sequence[str], types: Sequence[str], sentence_split: str, tokenizer: str
) -> None:
    if tokenizer not in TOKENIZERS:
        raise InputError(f"There is no tokenizer {tokenizer!r}; choose one of {', '.join(TOKENIZERS)}.")
    if sentence_split not in SENTENCE_SPLITS:
        raise InputError(f"There is no sentence_split {sentence_split!r}; choose one of {', '.join(SENTENCE_SPLITS)}.")
    for name in types:
        if not re.fullmatch(r"rouge([1-9]|L|Lsum)", name):
            raise InputError(f"There is no ROUGE type {name!r}; choose of rouge1 to rouge9, rougeL, rougeLsum.")
    if len(references) == 0:
        raise InputError("There are no documents to score; pass the summary of at least one.")
    if len(predictions) != len(references):
        raise InputError(f"There are {len(predictions)} summaries but {len(references)} references; give one each.")
    for document, (predicted, true) in enumerate(zip(predictions, references, strict=True)):
        if not isinstance(predicted, str) or not isinstance(true, str):
            wrong = true if isinstance(predicted, str) else predicted
            raise InputError(f"Document {document} has the summary {wrong!r}, which is no text; pass '' for none.")
        if not true.strip():
            raise InputError(f"The reference of document {document} is empty; leave the document out.")
