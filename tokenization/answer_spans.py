"""Question answering: answers given as words to token positions, and start and end scores to answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .input_checks import InputError
from .merging import SeenTokens, get_words, id_rows, make_entity, read_logits, read_tokens, window_documents

# Starts and ends of each window that are combined; the best spans are among the best ends.
_CANDIDATES = 20


@dataclass(frozen=True)
class Answer:
    """
    One answer: a run of words of the document.

    Attributes:
        word_ids: the indices of its words.
        words: their texts.
        boxes: their boxes, as the document has them.
        page: the page of its first word.
        score: its probability among all candidates of the document, "no answer" among them where it is allowed.
        page_ids: the page of each of its words.
    """

    word_ids: list[int]
    words: list[str]
    boxes: list[list[float]]
    page: int
    score: float
    page_ids: list[int]

    @property
    def text(self) -> str:
        """Its words, joined by spaces."""
        return " ".join(self.words)


def answer_positions(batch: Mapping[str, Any], answers: Any) -> dict[str, Any]:
    """
    Start and end positions of answers in the windows of a batch; see `LayoutProcessor.align_answers`.

    Raises:
        InputError: for spans that are no spans, or of another count than the documents of the batch.
    """
    word_rows = id_rows(batch, "token_word_ids")
    subword_rows = id_rows(batch, "token_subword_ids")
    samples = window_documents(batch, len(word_rows))
    masks = id_rows(batch, "attention_mask") if "attention_mask" in batch else [np.ones_like(row) for row in word_rows]
    spans = _answer_spans(answers, int(samples.max()) + 1 if len(samples) else 0)
    last_pieces = _last_pieces(word_rows, subword_rows, samples, spans)
    starts = np.zeros(len(word_rows), dtype=np.int64)
    ends = np.zeros(len(word_rows), dtype=np.int64)
    for window, (words, subwords, mask) in enumerate(zip(word_rows, subword_rows, masks, strict=True)):
        starts[window] = ends[window] = int(mask.argmax())
        span = spans[samples[window]]
        if span is None:
            continue
        first, last = span
        begin = np.flatnonzero((words == first) & (subwords == 0))
        end = np.flatnonzero((words == last) & (subwords == last_pieces[samples[window]]))
        if len(begin) and len(end):
            starts[window], ends[window] = int(begin[0]), int(end[0])
    return {"start_positions": _like(batch, starts), "end_positions": _like(batch, ends)}


def _like(batch: Mapping[str, Any], values: np.ndarray) -> Any:
    """Values of windows in the form of the batch: a tensor beside it, an array, a list, or one number."""
    given = batch["token_word_ids"]
    if hasattr(given, "new_tensor"):
        return given.new_tensor(values)
    if isinstance(given, np.ndarray):
        return values
    return values.tolist() if len(given) and np.ndim(given[0]) else int(values[0])


def _answer_spans(answers: Any, count: int) -> list[tuple[int, int] | None]:
    if answers is not None and len(answers) == 2 and all(isinstance(part, int | np.integer) for part in answers):
        answers = [answers]
    if answers is None or len(answers) != count:
        number = "no" if answers is None else len(answers)
        raise InputError(
            f"The batch has {count} documents but {number} answers; pass (first word, last word) or None for each."
        )
    spans: list[tuple[int, int] | None] = []
    for index, span in enumerate(answers):
        if span is not None and (len(span) != 2 or not 0 <= span[0] <= span[1]):
            raise InputError(
                f"The answer of document {index} is {span!r}; pass (first word, last word), or None for no answer."
            )
        spans.append(None if span is None else (int(span[0]), int(span[1])))
    return spans


def _last_pieces(
    word_rows: list[np.ndarray],
    subword_rows: list[np.ndarray],
    samples: np.ndarray,
    spans: list[tuple[int, int] | None],
) -> list[int]:
    """For each document the index of the last sub-word of its answer's last word, over all windows."""
    last = [0] * len(spans)
    for words, subwords, sample in zip(word_rows, subword_rows, samples, strict=True):
        span = spans[sample]
        if span is not None:
            last[sample] = max(last[sample], int(subwords[words == span[1]].max(initial=0)))
    return last


def best_answers(
    outputs: Any,
    batch: Mapping[str, Any],
    documents: Sequence[Any],
    n_best: int = 1,
    max_answer_words: int = 30,
    allow_no_answer: bool = False,
    no_answer_threshold: float = 0.0,
    padding_side: str = "right",
) -> list[list[Answer]]:
    """
    The best answers of each document over all its windows; see `LayoutProcessor.post_process_question_answering`.

    A span scores its start logit plus its end logit; its words are those from the start token's to the end token's.
    The same words found in several windows count once, with their best score.
    """
    if n_best < 1 or max_answer_words < 1:
        raise InputError(f"n_best={n_best} and max_answer_words={max_answer_words}; both count from 1.")
    start_blocks, end_blocks = _start_and_end(outputs)
    tokens = read_tokens(batch, start_blocks, documents, padding_side)
    start_scores, end_scores = tokens.gather(start_blocks), tokens.gather(end_blocks)
    nulls = _no_answer_scores(batch, start_blocks, end_blocks, len(documents), padding_side)
    found: list[dict[tuple[int, int], float]] = [{} for _ in documents]
    for first, last in _runs(tokens):
        _add_candidates(
            found[tokens.documents[first]],
            tokens.words[first:last],
            start_scores[first:last],
            end_scores[first:last],
            max_answer_words,
        )
    answers: list[list[Answer]] = []
    for index, document in enumerate(documents):
        if not found[index]:
            raise InputError(
                f"Document {index} has no window in the batch; pass the documents that the processor was called with."
            )
        if max(end for _, end in found[index]) > len(get_words(document)):
            raise InputError(
                f"The batch has words that document {index} lacks; "
                "pass the documents that the processor was called with."
            )
        ranked = sorted(found[index].items(), key=lambda item: -item[1])
        scores = np.array([score for _, score in ranked] + ([nulls[index]] if allow_no_answer else []))
        if allow_no_answer and nulls[index] - ranked[0][1] > no_answer_threshold:
            answers.append([])
            continue
        probabilities = np.exp(scores - scores.max())
        probabilities /= probabilities.sum()
        best = []
        for (span, _), score in zip(ranked[:n_best], probabilities, strict=False):
            entity = make_entity(document, "", *span, float(score))
            best.append(
                Answer(entity.word_ids, entity.words, entity.boxes, entity.page, entity.score, entity.page_ids)
            )
        answers.append(best)
    return answers


def _start_and_end(outputs: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    predictions = getattr(outputs, "predictions", outputs)
    if isinstance(predictions, tuple) and not hasattr(predictions, "start_logits"):
        # (start, end), or (loss, start, end) of a model with return_dict=False.
        pair = [item for item in predictions if getattr(item, "ndim", 2) == 2]
        if len(pair) >= 2:
            return read_logits(pair[0], "start_logits", 2), read_logits(pair[1], "end_logits", 2)
    return read_logits(outputs, "start_logits", 2), read_logits(outputs, "end_logits", 2)


def _runs(tokens: SeenTokens) -> list[tuple[int, int]]:
    """(first, last + 1) of the tokens of each window."""
    if len(tokens.windows) == 0:
        return []
    edges = np.flatnonzero(np.diff(tokens.windows)) + 1
    bounds = [0, *edges.tolist(), len(tokens.windows)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))


def _add_candidates(
    found: dict[tuple[int, int], float], words: np.ndarray, starts: np.ndarray, ends: np.ndarray, max_words: int
) -> None:
    best_starts = np.argsort(-starts, kind="stable")[:_CANDIDATES]
    # Beside the best ends overall, the best end for each start: a far better end elsewhere must not hide it.
    for start in best_starts:
        reach = int(np.searchsorted(words, words[start] + max_words))
        within = ends[start:reach]
        for end in start + np.argsort(-within, kind="stable")[:_CANDIDATES]:
            span = (int(words[start]), int(words[end]) + 1)
            score = float(starts[start] + ends[end])
            if score > found.get(span, -np.inf):
                found[span] = score


def _no_answer_scores(
    batch: Mapping[str, Any],
    starts: list[np.ndarray],
    ends: list[np.ndarray],
    num_documents: int,
    padding_side: str,
) -> list[float]:
    """For each document the lowest score of its windows' first tokens: it has no answer if no window has."""
    samples = np.atleast_1d(np.asarray(window_documents(batch, sum(map(len, starts)))))
    rows = id_rows(batch, "attention_mask") if "attention_mask" in batch else None
    scores = [np.inf] * num_documents
    window = 0
    for start_block, end_block in zip(starts, ends, strict=True):
        width = start_block.shape[1]
        for start_row, end_row in zip(start_block, end_block, strict=True):
            first = 0
            if rows is not None:
                first = int(rows[window].argmax()) + (width - len(rows[window]) if padding_side == "left" else 0)
            sample = samples[window]
            scores[sample] = min(scores[sample], float(start_row[first]) + float(end_row[first]))
            window += 1
    return scores
