"""Question answering as a task of `broadsheet finetune`: the words of a document that answer a question."""

from typing import Any

import numpy as np
from datasets import Dataset
from transformers import AutoModelForQuestionAnswering

from broadsheet.metrics import anls
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.layout_batch import WORD_ID_KEYS
from broadsheet.training.fingerprints import encoding_fingerprint
from broadsheet.training.preparation import BATCH_OF_DOCUMENTS, window_columns, with_box_level, with_ids
from broadsheet.training.tasks import Task

UNKNOWN = -1
"""The position, in `start_positions`, of an answer that stands nowhere in the document's words."""


class QuestionAnswering(Task):
    """
    Find the words that answer a question; measured by ANLS and exact match (DocVQA's), over all windows of a document.

    Every question of a document gets windows of its own. A window without the answer points at its first token; of an
    answer with several places the first is learned. Questions whose answer stands nowhere in the words are measured,
    and nothing is learned from them.
    """

    name = "question_answering"
    auto_model = AutoModelForQuestionAnswering
    metric = "anls"
    answers = "questions"
    scores = ("anls", "exact")

    def labels(self, documents: Dataset) -> list[str]:
        if "questions" not in documents.features:
            raise InputError(
                f"The dataset has no questions (its columns are {', '.join(documents.column_names)}); choose "
                "json_questions, or funsd with --dataset_options questions=true."
            )
        return []

    def encode(self, documents: Dataset, processor: Any, id2label: dict[int, str], options: dict[str, Any]) -> Dataset:
        self.labels(documents)
        counts = np.array([len(questions) for questions in documents["questions"]])
        rows = np.flatnonzero(counts)
        if len(rows) == 0:
            raise InputError("No document of the dataset has a question; check its column 'questions'.")
        arguments = {
            "processor": processor,
            "rows": rows.tolist(),
            "first_questions": (counts.cumsum() - counts)[rows].tolist(),
            "box_level": options["box_level"],
            "settings": {name: options[name] for name in ("max_length", "stride", "clip_boxes")},
        }
        asked = documents.select(rows)
        return asked.map(
            _encode_batch,
            with_indices=True,
            batched=True,
            batch_size=BATCH_OF_DOCUMENTS,
            num_proc=options["num_proc"] if (options["num_proc"] or 1) < len(asked) else None,
            remove_columns=asked.column_names,
            fn_kwargs=arguments,
            new_fingerprint=encoding_fingerprint(asked, arguments, __file__),
            desc="Cutting documents into windows, once for each question",
        )

    def training_windows(self, windows: Dataset) -> Dataset:
        known = np.flatnonzero(np.asarray(windows["start_positions"]) != UNKNOWN)
        if len(known) == 0:
            raise InputError(
                "No answer stands in the words of its document, so that there is nothing to learn; check the answers, "
                "or give their spans."
            )
        return windows if len(known) == len(windows) else windows.select(known)

    def measure(
        self,
        logits: tuple[np.ndarray, np.ndarray],
        windows: Dataset,
        documents: Dataset,
        processor: Any,
        id2label: dict[int, str],
        bootstrap_samples: int,
        seed: int,
    ) -> dict[str, Any]:
        """
        ANLS of the best answers.

        `logits` are start and end scores, `[windows, length]` each. Where a question of the data has no answer, the
        model may give none; an empty answer to such a question is right.
        """
        columns = [name for name in ("input_ids", "attention_mask", *WORD_ID_KEYS) if name in windows.column_names]
        batch = LayoutDataCollator(processor)(windows.select_columns(columns).to_list())
        batch["overflow_to_sample_mapping"] = np.asarray(windows["question"])
        length = batch["input_ids"].shape[1]
        rows = documents.select_columns(["words", "boxes", "page_ids", "page_sizes"]).to_list()
        asked = [(row, question) for row, questions in enumerate(documents["questions"]) for question in questions]
        references = [question["answers"] or [""] for _, question in asked]
        found = processor.post_process_question_answering(
            (logits[0][:, :length], logits[1][:, :length]),
            batch,
            [rows[row] for row, _ in asked],
            allow_no_answer=any(not question["answers"] for _, question in asked),
        )
        predictions = [answers[0].text if answers else "" for answers in found]
        owners = [row for row, _ in asked]
        metrics = anls(predictions, references, owners, bootstrap_samples=bootstrap_samples, seed=seed)
        metrics["located"] = sum(bool(question["spans"] or not question["answers"]) for _, question in asked)
        return metrics


def _encode_batch(
    columns: dict[str, list[Any]],
    indices: list[int],
    processor: Any,
    rows: list[int],
    first_questions: list[int],
    box_level: str,
    settings: dict[str, Any],
) -> dict[str, Any]:
    columns = with_box_level(columns, box_level)
    groups = columns.pop("questions")
    # The place in this batch, and the number among all questions of the dataset, of each question's document.
    owners = [place for place, group in enumerate(groups) for _ in group]
    numbers = [
        first_questions[index] + n for index, group in zip(indices, groups, strict=True) for n in range(len(group))
    ]
    asked = [question for group in groups for question in group]
    repeated = {name: [values[owner] for owner in owners] for name, values in columns.items()}
    try:
        windows = processor(
            [question["question"] for question in asked], documents=repeated, truncation=True,
            return_overflowing_tokens=True, return_word_ids=True, **settings,
        )  # fmt: skip
    except InputError as error:
        raise InputError(with_ids(str(error), repeated["id"])) from None
    spans = [question["spans"][0] if question["spans"] else None for question in asked]
    is_lost = [bool(question["answers"]) and not question["spans"] for question in asked]
    positions = processor.align_answers(windows, spans)
    samples = list(windows.pop("overflow_to_sample_mapping"))
    features = window_columns(windows, processor)
    for name, values in positions.items():
        features[name] = [UNKNOWN if is_lost[sample] else value for sample, value in zip(samples, values, strict=True)]
    features["document"] = [rows[indices[owners[sample]]] for sample in samples]
    features["question"] = [numbers[sample] for sample in samples]
    return features
