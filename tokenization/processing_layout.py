"""
The processor that all members of the family share: words and raw boxes in, windows of tokens and layout out.

    batch = processor(text=words, boxes=boxes, page_ids=page_ids, page_sizes=page_sizes, truncation=True,
                      max_length=512, stride=128, padding=True, return_overflowing_tokens=True, return_word_ids=True,
                      return_tensors="pt")
    outputs = model(**batch.model_inputs)
    results = processor.post_process_token_classification(outputs, batch, document)

A model's own processor declares its tensors and computes them for one window; everything else is here.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
from transformers.processing_utils import ProcessorMixin

from .answer_spans import Answer, answer_positions, best_answers
from .boxes import check_in_range, check_within_pages, split_boxes
from .collation import TensorSpec, pad_features
from .document_input import IGNORED_LABEL, DocumentInput, document_list, read_input
from .input_checks import InputError
from .layout_batch import WORD_ID_KEYS, LayoutBatch
from .layout_window import Window, make_window
from .merging import Decode, TokenClassificationResult, merge_word_predictions
from .windows import check_stride, cut_windows
from .word_tokenization import (
    SpecialTokens,
    TokenizedWords,
    prepare_tokenizer,
    special_tokens,
    tokenize_questions,
    tokenize_words,
)

logger = logging.getLogger(__name__)

# transformers gives tokenizers without a limit a model_max_length of 1e30.
_NO_LIMIT = 10**9

# Processors that have warned of truncation; kept here so that a warning does not change a processor's fingerprint.
_told_of_cut: WeakSet[Any] = WeakSet()


class LayoutProcessor(ProcessorMixin):
    """
    Base of the family's processors: wraps any fast tokenizer.

    A subclass declares `tensors` and implements `layout_tensors`; it may override `window_spans` (how documents are
    cut), `batch_tensors` (what depends on the whole batch), `check_boxes`, and set

    - `largest_coordinate`, `integer_boxes`: the range of boxes that come without page sizes (0..1000, whole numbers);
    - `boxes_required`: False where text without boxes will do; their boxes are then zero (`document.has_boxes`);
    - `add_special_tokens`: False where windows carry none.

    Args:
        tokenizer: a fast tokenizer. Byte-level BPE is set to `add_prefix_space=True`, on the tokenizer itself.
        subword_boxes: "word": every sub-word has its word's box; "split": its share of it along the line.
        only_label_first_subword: label the first sub-word of each word and ignore (-100) the others.
        id2label: index -> label of each class; checks `word_labels`, reads string labels, names predictions.
    """

    tensors: ClassVar[dict[str, TensorSpec]] = {}
    largest_coordinate: int = 1000
    integer_boxes: ClassVar[bool] = True
    boxes_required: ClassVar[bool] = True
    add_special_tokens: ClassVar[bool] = True

    def __init__(
        self,
        tokenizer: Any,
        subword_boxes: str = "word",
        only_label_first_subword: bool = True,
        id2label: Mapping[Any, str] | None = None,
        **kwargs: Any,
    ) -> None:
        if subword_boxes not in ("word", "split"):
            raise InputError(f"subword_boxes is {subword_boxes!r}; choose 'word' or 'split'.")
        super().__init__(tokenizer, **kwargs)
        prepare_tokenizer(tokenizer)
        self.subword_boxes = subword_boxes
        self.only_label_first_subword = only_label_first_subword
        # JSON turns the keys into strings.
        self.id2label = None if id2label is None else {int(index): label for index, label in id2label.items()}

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """
        The model's tensors of one window, those that `tensors` declares, each with one entry for each of its N tokens.

        `window` brings float boxes in page units, page ids and page sizes, so that a model may normalise, stack pages
        or find neighbours as it needs to.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how to compute its tensors.")

    def batch_tensors(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """
        Further tensors that are computed from a padded batch, such as block tables; none unless overridden.

        Called by the collator and by the processor itself wherever a padded batch is made.
        """
        return {}

    def window_spans(
        self, document: DocumentInput, word_ids: np.ndarray, capacity: int, stride: int
    ) -> list[tuple[int, int]]:
        """
        (start, end) of each window of a document's T sub-words, of which `word_ids` `[T]` names the words: in order,
        without gaps, all covered, at most `capacity` each.
        """
        return cut_windows(len(word_ids), capacity, stride)

    @property
    def largest_corner(self) -> tuple[float, float]:
        """The largest x and y of boxes that come without page sizes."""
        return (float(self.largest_coordinate),) * 2

    def check_boxes(self, document: DocumentInput) -> None:
        """Raise `InputError` at a box that overhangs its page, or, without page sizes, is out of the model's range."""
        boxes, words, name = document.boxes, document.words, document.name
        if document.page_sizes is None:
            check_in_range(boxes, self.largest_coordinate, words, name, self.integer_boxes)
        else:
            check_within_pages(boxes, document.page_ids, document.page_sizes, words, name)

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """The form of every tensor that one window may have, for padding."""
        tokenizer = self.tokenizer
        return {
            "input_ids": TensorSpec(pad_value=tokenizer.pad_token_id),
            "attention_mask": TensorSpec(),
            "token_type_ids": TensorSpec(pad_value=tokenizer.pad_token_type_id),
            "labels": TensorSpec(pad_value=IGNORED_LABEL),
            "start_positions": TensorSpec((), holds_positions=True),
            "end_positions": TensorSpec((), holds_positions=True),
            **{key: TensorSpec(pad_value=-1) for key in WORD_ID_KEYS if key.startswith("token_")},
            **self.tensors,
        }

    @property
    def model_input_names(self) -> list[str]:
        """The names of the tensors that a model takes."""
        return list(dict.fromkeys([*self.tokenizer.model_input_names, *self.tensors]))

    def __call__(  # type: ignore[override]
        self,
        text: Any = None,
        text_pair: Any = None,
        boxes: Any = None,
        page_ids: Any = None,
        page_sizes: Any = None,
        word_labels: Any = None,
        documents: Any = None,
        *,
        padding: bool | str = False,
        truncation: bool | str = False,
        max_length: int | None = None,
        stride: int = 0,
        return_overflowing_tokens: bool = False,
        return_word_ids: bool = False,
        return_tensors: Any = None,
        pad_to_multiple_of: int | None = None,
        clip_boxes: bool = False,
    ) -> LayoutBatch:
        """
        Turn one document or a batch of documents into windows.

        Args:
            text: the words of a document (`list[str]`), or of several (`list[list[str]]`); with `text_pair` or
                `documents`, the question about the document (`str`), or one for each document.
            text_pair: the words, where `text` is the question.
            boxes: (x0, y0, x1, y1) of each word, in the unit of `page_sizes`.
            page_ids: the page of each word, ascending from 0; all on page 0 when omitted.
            page_sizes: (width, height) of each page. Without them boxes must already be in the model's range.
            word_labels: the label of each word, a number or a name in `id2label`; -100 for none.
            documents: instead of words, boxes and pages: a `Document`, a dict with these keys, or a list of them.
            padding: True or "longest", "max_length", or False.
            truncation: cut windows of at most `max_length` tokens. Without it a document of more tokens than the
                tokenizer's `model_max_length` is refused.
            max_length: the most tokens of a window; the tokenizer's `model_max_length` unless told.
            stride: how many tokens a window shares with the one before it.
            return_overflowing_tokens: return all windows of a document; otherwise only its first one, with a warning
                that says how many words were cut.
            return_word_ids: also return what `post_process_token_classification` and its like need.
            return_tensors: "pt", "np", or None for lists. One document without `return_overflowing_tokens` gives lists
                without the dimension of the batch, as transformers' tokenizers do.
            pad_to_multiple_of: round the padded length up to a multiple of it.
            clip_boxes: move coordinates outside their page to its edge, and log how many boxes were changed.

        Returns:
            `LayoutBatch` of W windows: `input_ids [W, N]`, `attention_mask [W, N]`, `token_type_ids [W, N]` where the
            tokenizer has them, `bbox [W, N, 4]` and the model's further tensors; `labels [W, N]` with `word_labels`
            (-100 on special tokens, question, and later sub-words). With `return_word_ids`: `token_word_ids [W, N]`,
            `token_subword_ids [W, N]` (0 for the first sub-word of a word), `token_page_ids [W, N]`, all -1 where
            there is no word, and `overflow_to_sample_mapping [W]`, the document of each window.

        Raises:
            InputError: for input that cannot be used, naming document, word and box.
        """
        cut = _switch("truncation", truncation, ("only_first", "only_second", "longest_first"), "do_not_truncate")
        pad = _switch("padding", padding, ("longest", "max_length"), "do_not_pad")
        clip_to = self.largest_corner if clip_boxes else None
        given = (text, text_pair, boxes, page_ids, page_sizes, word_labels, documents)
        read, batched = read_input(*given, clip_to, self.id2label, self.boxes_required)
        for document in read:
            self.check_boxes(document)
        limit = self._length_limit(max_length, truncation if cut else None)
        if pad and padding == "max_length" and limit is None:
            raise InputError("padding='max_length' needs a length, but the tokenizer names none; pass max_length.")
        tokens = tokenize_words(
            self.tokenizer, [document.words for document in read], [document.name for document in read]
        )
        features = self._windows(read, tokens, cut, limit, stride, return_overflowing_tokens, return_word_ids)
        return self._finish(
            features,
            flat=not batched and not return_overflowing_tokens,
            pad=pad,
            length=limit if padding == "max_length" else None,
            pad_to_multiple_of=pad_to_multiple_of,
            return_tensors=return_tensors,
        )

    def _length_limit(self, max_length: int | None, truncation: bool | str | None) -> int | None:
        if max_length is not None:
            if max_length < 1:
                raise InputError(f"max_length is {max_length}; pass the most tokens of a window, at least one.")
            return max_length
        limit = self.tokenizer.model_max_length
        if limit is not None and limit < _NO_LIMIT:
            return int(limit)
        if truncation:
            logger.warning(
                "truncation=%r cuts nothing: the tokenizer names no length, and max_length is not given.", truncation
            )
        return None

    def _windows(
        self,
        documents: list[DocumentInput],
        tokens: TokenizedWords,
        cut: bool,
        limit: int | None,
        stride: int,
        keep_all: bool,
        with_word_ids: bool,
    ) -> list[dict[str, Any]]:
        asked = documents[0].question is not None
        questions = tokenize_questions(self.tokenizer, [doc.question or "" for doc in documents]) if asked else []
        specials = special_tokens(self.tokenizer, asked)
        if not self.add_special_tokens:
            specials = replace(specials, prefix=([], []), middle=([], []), suffix=([], []))
        token_boxes, token_pages, token_labels = self._token_tensors(documents, tokens)
        features: list[dict[str, Any]] = []
        words_cut = documents_cut = 0
        for index, document in enumerate(documents):
            start, end = int(tokens.bounds[index]), int(tokens.bounds[index + 1])
            question = questions[index] if asked else []
            num_other = len(specials) + len(question)
            spans = [(0, end - start)]
            if limit is not None and cut:
                check_stride(limit - num_other, stride, num_other, limit)
                spans = self.window_spans(document, tokens.words[start:end], limit - num_other, stride)
            elif limit is not None and end - start + num_other > limit:
                raise InputError(
                    f"The {len(document.words)} words of {document.name} make {end - start + num_other} tokens, but "
                    f"{limit} is the most; pass truncation=True, max_length={limit}, stride={limit // 4}, "
                    "return_overflowing_tokens=True to get windows."
                )
            if not keep_all and len(spans) > 1:
                spans = spans[:1]
                documents_cut += 1
                words_cut += len(document.words) - 1 - int(tokens.words[start + spans[0][1] - 1])
            for first, last in spans:
                part = slice(start + first, start + last)
                window = make_window(document, tokens, token_boxes, token_pages, part, question, specials)
                labels = token_labels[part] if token_labels is not None else None
                features.append(self._feature(window, question, specials, labels, index if with_word_ids else None))
        if words_cut and self not in _told_of_cut:
            _told_of_cut.add(self)
            logger.warning(
                "Truncation cut %d words of %d documents, which get no prediction; pass "
                "return_overflowing_tokens=True for windows over all words. Later cuts are not reported.",
                words_cut,
                documents_cut,
            )
        return features

    def _token_tensors(
        self, documents: list[DocumentInput], tokens: TokenizedWords
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Boxes `[T, 4]`, page ids `[T]` and labels `[T]` (or None) of all sub-words."""
        first_word = np.cumsum([0] + [len(document.words) for document in documents])
        word = first_word[tokens.documents] + tokens.words
        boxes = np.concatenate([document.boxes for document in documents])[word]
        pages = np.concatenate([document.page_ids for document in documents])[word]
        first = tokens.pieces == 0
        if self.subword_boxes == "split":
            lengths = np.array([len(text) for document in documents for text in document.words])
            boxes = split_boxes(boxes, tokens.starts, first, lengths[word])
        if all(document.labels is None for document in documents):
            return boxes, pages, None
        unlabelled = [document.name for document in documents if document.labels is None]
        if unlabelled:
            raise InputError(f"{unlabelled[0]} has no word_labels, but others have; pass labels for all.".capitalize())
        labels = np.concatenate([document.labels for document in documents])[word]  # type: ignore[misc]
        if self.only_label_first_subword:
            labels = np.where(first, labels, IGNORED_LABEL)
        return boxes, pages, labels

    def _feature(
        self,
        window: Window,
        question: list[int],
        specials: SpecialTokens,
        labels: np.ndarray | None,
        sample: int | None,
    ) -> dict[str, Any]:
        length = len(window.input_ids)
        feature: dict[str, Any] = {
            "input_ids": window.input_ids,
            "attention_mask": np.ones(length, dtype=np.int64),
        }
        is_word = window.word_ids >= 0
        if "token_type_ids" in self.tokenizer.model_input_names:
            types = np.full(length, specials.words_type, dtype=np.int64)
            types[~is_word] = (
                specials.prefix[1] + [specials.question_type] * len(question) + specials.middle[1] + specials.suffix[1]
            )
            feature["token_type_ids"] = types
        feature.update(self.layout_tensors(window))
        if labels is not None:
            feature["labels"] = np.full(length, IGNORED_LABEL, dtype=np.int64)
            feature["labels"][is_word] = labels
        if sample is not None:
            feature["token_word_ids"] = window.word_ids
            feature["token_subword_ids"] = window.subword_ids
            feature["token_page_ids"] = window.page_ids
            feature["overflow_to_sample_mapping"] = sample
        return feature

    def _finish(
        self,
        features: list[dict[str, Any]],
        flat: bool,
        pad: bool,
        length: int | None,
        pad_to_multiple_of: int | None,
        return_tensors: Any,
    ) -> LayoutBatch:
        lengths = {len(feature["input_ids"]) for feature in features}
        if not pad and return_tensors is not None and len(lengths) > 1:
            raise InputError(
                f"The windows have {min(lengths)} to {max(lengths)} tokens and make no tensor; pass padding=True."
            )
        if not pad and return_tensors is None:
            lists = [{key: np.asarray(value).tolist() for key, value in feature.items()} for feature in features]
            if flat:
                return LayoutBatch(lists[0])
            return LayoutBatch({key: [row[key] for row in lists] for key in lists[0]})
        batch = pad_features(
            features,
            self.tensor_specs(),
            self.tokenizer.padding_side,
            pad_to_multiple_of if pad else None,
            length,
        )
        batch.update(self.batch_tensors(batch))
        if return_tensors is not None:
            return LayoutBatch(batch, tensor_type=return_tensors)
        if flat:
            return LayoutBatch({key: value[0].tolist() for key, value in batch.items()})
        return LayoutBatch({key: value.tolist() for key, value in batch.items()})

    def post_process_token_classification(
        self,
        outputs: Any,
        batch: Mapping[str, Any],
        documents: Any,
        id2label: Mapping[int, str] | None = None,
        aggregation_strategy: str = "first",
        decode: Decode | None = None,
    ) -> list[TokenClassificationResult]:
        """
        Merge the predictions of windows and sub-words into exactly one prediction for each word.

        Args:
            outputs: a model's output with `logits [W, N, classes]`, or the logits themselves; a tensor, an array or
                lists. Outputs of several batches may be passed as a list, or concatenated and padded on the right.
            batch: what this processor returned for `documents` with `return_word_ids=True` (the same windows in the
                same order, padded or not).
            documents: what was processed, one or several; a dict with `words` and `boxes` will do.
            id2label: index -> label; the processor's own unless told.
            aggregation_strategy: "first": the first sub-word of each word; "mean": the mean of the probabilities of
                its sub-words. Either way a token counts once, in the window that shows most of its surroundings.
            decode: chooses the labels from the log-probabilities of all documents' words, as the `WordDecoder` of
                BIOES does; each word's most probable label when None.

        Returns:
            One result for each document: a label and its probability for each word, and the entities they spell.

        Raises:
            InputError: where a word has no prediction, because truncation cut it.
        """
        labels = self.id2label if id2label is None else {int(index): label for index, label in id2label.items()}
        if labels is None:
            raise InputError("The names of the labels are unknown; pass id2label=model.config.id2label.")
        rows, _ = document_list(documents)
        side = self.tokenizer.padding_side
        return merge_word_predictions(outputs, batch, rows, labels, aggregation_strategy, side, decode)

    def align_answers(self, batch: Mapping[str, Any], answers: Any) -> dict[str, Any]:
        """
        Start and end positions to train question answering on.

        Args:
            batch: what this processor returned for questions and documents, with `return_word_ids=True`.
            answers: for each document the (first word, last word) of its answer, both inclusive, or None for none;
                a single pair for a single document.

        Returns:
            `start_positions [W]`, `end_positions [W]` (inclusive), int64, in the form of the batch (tensors, arrays or
            lists), ready for `batch.update`: the window's first token (its `[CLS]`) where the window does not hold the
            whole answer.
        """
        return answer_positions(batch, answers)

    def post_process_question_answering(
        self,
        outputs: Any,
        batch: Mapping[str, Any],
        documents: Any,
        n_best: int = 1,
        max_answer_words: int = 30,
        allow_no_answer: bool = False,
        no_answer_threshold: float = 0.0,
    ) -> list[list[Answer]]:
        """
        The best answers over all windows.

        Args:
            outputs: a model's output with `start_logits [W, N]` and `end_logits [W, N]`, or a pair of the two.
            batch: what this processor returned for questions and `documents`, with `return_word_ids=True`.
            documents: what was asked about, one or several.
            n_best: at most so many answers for each document.
            max_answer_words: no answer is longer.
            allow_no_answer: return none where the first token of every window scores higher than the best answer.
            no_answer_threshold: by how much it has to.

        Returns:
            For each document its answers, best first: words, boxes, page, and a probability among all candidates.
        """
        rows, _ = document_list(documents)
        return best_answers(
            outputs,
            batch,
            rows,
            n_best=n_best,
            max_answer_words=max_answer_words,
            allow_no_answer=allow_no_answer,
            no_answer_threshold=no_answer_threshold,
            padding_side=self.tokenizer.padding_side,
        )


def _switch(name: str, value: bool | str | None, on: tuple[str, ...], off: str) -> bool:
    value = getattr(value, "value", value)
    if value is None or value is False or value == off:
        return False
    if value is True or value in on:
        return True
    raise InputError(f"{name} is {value!r}; pass True, False or one of {', '.join(map(repr, on))}.")
