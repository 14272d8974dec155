"""
Predictions of windows and sub-words merged into one prediction for each word, and words into entities.

Windows overlap, so most sub-words are seen several times: each counts once, in the window that shows most of its
surroundings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .input_checks import InputError
from .tagging import decode_entities, tagging_scheme
from .windows import context

# Log-probabilities [words, classes] of each document -> the index of each word's label, [words] of each document.
Decode = Callable[[list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Entity:
    """
    One entity of a document.

    Attributes:
        label: its type, without the prefix of a tagging scheme.
        word_ids: the indices of its words in the document.
        words: their texts.
        boxes: their boxes (x0, y0, x1, y1), as the document has them.
        page: the page of its first word.
        score: the mean probability of its words' labels, 0..1.
        page_ids: the page of each of its words.
    """

    label: str
    word_ids: list[int]
    words: list[str]
    boxes: list[list[float]]
    page: int
    score: float
    page_ids: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its words, joined by spaces."""
        return " ".join(self.words)


@dataclass(frozen=True)
class TokenClassificationResult:
    """
    The predictions for one document of W words.

    Attributes:
        labels: the label of each word, W strings.
        label_ids: their indices, W numbers.
        scores: the probability of each label, W numbers in 0..1.
        entities: what the labels spell, in reading order.
    """

    labels: list[str]
    label_ids: list[int]
    scores: list[float]
    entities: list[Entity]


def merge_word_predictions(
    outputs: Any,
    batch: Mapping[str, Any],
    documents: Sequence[Any],
    id2label: Mapping[int, str],
    aggregation_strategy: str = "first",
    padding_side: str = "right",
    decode: Decode | None = None,
) -> list[TokenClassificationResult]:
    """
    One prediction for each word of each document; see `LayoutProcessor.post_process_token_classification`.

    Raises:
        InputError: where outputs, batch and documents do not fit, where logits are not finite, or where a word has no
            prediction.
    """
    if aggregation_strategy not in ("first", "mean"):
        raise InputError(f"aggregation_strategy is {aggregation_strategy!r}; choose 'first' or 'mean'.")
    blocks = read_logits(outputs, "logits", 3)
    seen = read_tokens(batch, blocks, documents, padding_side).best()
    num_labels = blocks[0].shape[2]
    if sorted(id2label) != list(range(num_labels)):
        raise InputError(
            f"The logits have {num_labels} classes, but id2label names {len(id2label)} (counted from 0); "
            "pass id2label=model.config.id2label."
        )
    if aggregation_strategy == "first":
        seen = seen.take(np.flatnonzero(seen.subwords == 0))
    probabilities = softmax(seen.gather(blocks))
    first = np.flatnonzero(np.diff(seen.words, prepend=-1) | np.diff(seen.documents, prepend=-1))
    if aggregation_strategy == "mean" and len(first):
        sizes = np.diff(np.append(first, len(seen.words)))
        probabilities = np.add.reduceat(probabilities, first, axis=0) / sizes[:, None]
    words, owners = seen.words[first], seen.documents[first]
    scheme = tagging_scheme(id2label.values())
    results, own = [], [np.flatnonzero(owners == index) for index in range(len(documents))]
    chosen = None
    if decode is not None:
        smallest = np.finfo(np.float64).tiny
        chosen = decode([np.log(np.maximum(probabilities[mine], smallest)) for mine in own])
    for index, document in enumerate(documents):
        mine = own[index]
        check_all_predicted(words[mine], get_words(document), _name(index, documents))
        label_ids = probabilities[mine].argmax(axis=1) if len(mine) else np.zeros(0, np.int64)
        if chosen is not None:
            label_ids = chosen[index]
        scores = probabilities[mine, label_ids].tolist()
        labels = [id2label[int(label)] for label in label_ids]
        entities = [
            make_entity(document, label, start, end, sum(scores[start:end]) / (end - start))
            for label, start, end in decode_entities(labels, scheme)
        ]
        results.append(TokenClassificationResult(labels, label_ids.tolist(), scores, entities))
    return results


def make_entity(document: Any, label: str, start: int, end: int, score: float) -> Entity:
    """The entity of the words start..end (exclusive) of a document."""
    boxes, pages = _get(document, "boxes"), _get(document, "page_ids")
    page_ids = [0] * (end - start) if pages is None else [int(page) for page in pages[start:end]]
    return Entity(
        label=label,
        word_ids=list(range(start, end)),
        words=list(get_words(document)[start:end]),
        boxes=[[float(value) for value in box] for box in boxes[start:end]] if boxes is not None else [],
        page=page_ids[0],
        score=score,
        page_ids=page_ids,
    )


@dataclass(frozen=True)
class SeenTokens:
    """
    Sub-words of words in windows; T of them, as arrays `[T]`.

    Attributes:
        documents, words, subwords: which sub-word of which word of which document.
        windows, columns: where its logits are: the window, and the place in it.
    """

    documents: np.ndarray
    words: np.ndarray
    subwords: np.ndarray
    windows: np.ndarray
    columns: np.ndarray

    def take(self, index: np.ndarray) -> "SeenTokens":
        """The chosen ones."""
        return SeenTokens(
            self.documents[index], self.words[index], self.subwords[index], self.windows[index], self.columns[index]
        )

    def best(self) -> "SeenTokens":
        """Each sub-word once, in the window that shows most of its surroundings; sorted by document and place."""
        if len(self.words) == 0:
            return self
        order = np.lexsort((self.windows, self.subwords, self.words, self.documents))
        tokens = self.take(order)
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(tokens.documents) != 0) | (np.diff(tokens.words) != 0) | (np.diff(tokens.subwords) != 0)
        rank = np.cumsum(new) - 1
        # Documents count from 0, each from its own first sub-word.
        num_documents = int(tokens.documents.max()) + 1
        lengths = np.bincount(tokens.documents[new], minlength=num_documents)
        positions = rank - (np.cumsum(lengths) - lengths)[tokens.documents]
        num_windows = int(tokens.windows.max()) + 1
        starts = np.full(num_windows, np.iinfo(np.int64).max)
        np.minimum.at(starts, tokens.windows, positions)
        ends = np.zeros(num_windows, dtype=np.int64)
        np.maximum.at(ends, tokens.windows, positions + 1)
        seen = context(positions, starts[tokens.windows], ends[tokens.windows], lengths[tokens.documents])
        # Of equal ones the first window: the sort is stable.
        preferred = np.lexsort((-seen, rank))
        return tokens.take(preferred[new])

    def gather(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """The values `[T, ...]` of these tokens out of blocks of windows `[W, N, ...]`, checked to be finite."""
        values = np.zeros((len(self.words), *blocks[0].shape[2:]), dtype=np.float64)
        first = 0
        for block in blocks:
            mine = (self.windows >= first) & (self.windows < first + len(block))
            values[mine] = block[self.windows[mine] - first, self.columns[mine]]
            first += len(block)
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            index = int((~finite).argmax())
            raise InputError(
                f"The output for word {self.words[index]} of document {self.documents[index]} is not finite; "
                "check the checkpoint, or run the model in float32."
            )
        return values


def read_tokens(
    batch: Mapping[str, Any], blocks: Sequence[np.ndarray], documents: Sequence[Any], padding_side: str
) -> SeenTokens:
    """Which column of which window holds which sub-word, from the ids that `return_word_ids=True` adds to a batch."""
    word_rows = id_rows(batch, "token_word_ids")
    subword_rows = id_rows(batch, "token_subword_ids")
    samples = window_documents(batch, len(word_rows))
    widths = [block.shape[1] for block in blocks for _ in range(len(block))]
    if len(widths) != len(word_rows):
        raise InputError(
            f"The outputs hold {len(widths)} windows but the batch {len(word_rows)}; "
            "pass the outputs of exactly the windows of this batch."
        )
    if len(samples) and samples.max() >= len(documents):
        raise InputError(
            f"The batch has windows of document {samples.max()}, but {len(documents)} documents are given; "
            "pass the documents that the processor was called with."
        )
    parts = []
    for window, (words, subwords, width) in enumerate(zip(word_rows, subword_rows, widths, strict=True)):
        places = np.flatnonzero(words >= 0)
        columns = places + (width - len(words) if padding_side == "left" else 0)
        if len(places) and (columns[0] < 0 or columns[-1] >= width):
            raise InputError(
                f"The outputs of window {window} have {width} places, too few for its {len(words)} tokens; "
                "pass the outputs of exactly the windows of this batch."
            )
        sample = np.full(len(places), samples[window])
        parts.append((sample, words[places], subwords[places], np.full(len(places), window), columns))
    return SeenTokens(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def id_rows(batch: Mapping[str, Any], key: str) -> list[np.ndarray]:
    """The rows of one of the id tensors of a batch, each int64 `[N]`."""
    if key not in batch:
        raise InputError(
            f"The batch has no {key}; call the processor with return_word_ids=True, and keep what it returns."
        )
    values = _to_array_or_list(batch[key])
    if len(values) and np.ndim(values[0]) == 0:
        values = [values]
    return [np.asarray(_to_array_or_list(row), dtype=np.int64) for row in values]


def window_documents(batch: Mapping[str, Any], num_windows: int) -> np.ndarray:
    """The document of each window, int64 `[W]`."""
    key = "overflow_to_sample_mapping"
    if key not in batch:
        raise InputError(f"The batch has no {key}; call the processor with return_word_ids=True.")
    samples = np.atleast_1d(np.asarray(_to_array_or_list(batch[key]), dtype=np.int64))
    if len(samples) != num_windows:
        raise InputError(
            f"The batch has {num_windows} windows but {len(samples)} entries in {key}; pass it as it was made."
        )
    return samples


def check_all_predicted(words: np.ndarray, texts: Sequence[str], name: str) -> None:
    """Raise `InputError` where `words`, ascending, are not all words of the document."""
    if len(words) == len(texts) and (len(words) == 0 or words[-1] == len(texts) - 1):
        return
    if len(words) and words[-1] >= len(texts):
        raise InputError(
            f"The batch has a word {words[-1]} in {name}, which has {len(texts)} words; "
            "pass the documents that the processor was called with."
        )
    missing = np.setdiff1d(np.arange(len(texts)), words)
    shown = f"Word {missing[0]} ({texts[missing[0]]!r:.40})"
    rest = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    raise InputError(
        f"{shown}{rest} of {name} have no prediction, because truncation cut them; "
        "call the processor with return_overflowing_tokens=True and pass the outputs of all windows."
    )


def read_logits(outputs: Any, key: str, ndim: int) -> list[np.ndarray]:
    """
    The logits of outputs in any of their forms as blocks `[windows, N]` (`ndim` 2) or `[windows, N, classes]` (3).

    An output with an attribute or key `key`, a `PredictionOutput`, a tensor, an array, nested lists, or a list of
    these (one for each batch).
    """
    found = _find_logits(outputs, key)
    if found is not outputs:
        return read_logits(found, key, ndim)
    if isinstance(outputs, tuple):
        # A model's output with return_dict=False: (loss, logits, ...) or (logits, ...).
        fitting = [item for item in outputs if getattr(item, "ndim", None) == ndim]
        if fitting:
            return read_logits(fitting[0], key, ndim)
    if isinstance(outputs, list | tuple) and (depth := _depth(outputs)) >= ndim:
        even = all(isinstance(item, list | tuple) and len(item) == len(outputs[0]) for item in outputs)
        if depth > ndim or not even:
            # One output for each batch, or windows of different lengths.
            return [block for item in outputs for block in read_logits(item, key, ndim)]
    array = np.asarray(_to_array_or_list(outputs))
    if array.ndim == ndim - 1:
        array = array[None]
    if array.ndim != ndim or array.dtype.kind not in "fiu":
        raise InputError(
            f"The {key} have the shape {list(array.shape)}; pass the model's output, or its {key} with {ndim} "
            "dimensions."
        )
    return [array]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, float64."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True)) if logits.size else logits
    return shifted / shifted.sum(axis=-1, keepdims=True) if logits.size else shifted


def get_words(document: Any) -> Sequence[str]:
    """The words of a `Document` or of a dict."""
    return _get(document, "words")


def _find_logits(outputs: Any, key: str) -> Any:
    if isinstance(outputs, Mapping):
        if key not in outputs:
            raise InputError(f"The outputs have no {key}, only {sorted(outputs)}; pass the output of a fitting model.")
        return outputs[key]
    for name in (key, "predictions"):
        if getattr(outputs, name, None) is not None:
            return getattr(outputs, name)
    return outputs


def _depth(values: Any) -> int:
    """How many dimensions nested lists of numbers or arrays have; more than any logits for lists of outputs."""
    if isinstance(values, list | tuple) and len(values):
        return 1 + _depth(values[0])
    if hasattr(values, "ndim"):
        return int(values.ndim)
    return 0 if isinstance(values, int | float) else 9


def _to_array_or_list(values: Any) -> Any:
    if hasattr(values, "detach"):
        values = values.detach()
        # numpy has no bfloat16.
        return (values.float() if values.is_floating_point() else values).cpu().numpy()
    return values


def _get(document: Any, key: str) -> Any:
    return document.get(key) if isinstance(document, Mapping) else getattr(document, key, None)


def _name(index: int, documents: Sequence[Any]) -> str:
    return "the document" if len(documents) == 1 else f"document {index}"
