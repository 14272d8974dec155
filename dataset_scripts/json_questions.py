"""Documents with questions as JSON lines: the format for one's own questions and answers."""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import datasets

from broadsheet.dataset_scripts import json_lines, value_alignment
from broadsheet.dataset_scripts.builder import DocumentBuilder
from broadsheet.dataset_scripts.json_lines import (
    JsonLinesConfig,
    document_columns,
    json_records,
    log_clipped,
    split_files,
)
from broadsheet.dataset_scripts.schema import check_row, document_features
from broadsheet.dataset_scripts.value_alignment import WordIndex, check_options
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class JsonQuestionsConfig(JsonLinesConfig):
    """
    Options of JSON lines with questions.

    Attributes:
        clip_boxes: as of `JsonLinesConfig`.
        min_similarity: how alike words must be to an answer that stands nowhere as it is, above 0 to 1 (no others).
    """

    min_similarity: float = 1.0


class JsonQuestions(DocumentBuilder):
    """
    `train.jsonl`, `validation.jsonl`, `test.jsonl` (any names; the stem is the split), one document a line:

        {"words": ["Invoice", "17"], "boxes": [[50, 60, 98, 72], [102, 60, 115, 72]], "page_sizes": [[595, 842]],
         "questions": [{"question": "Which number?", "answers": ["17"], "spans": [[1, 1]]}]}

    `answers` are texts any of which is right; a question that the document does not answer has none. `spans` are
    their places, (first word, last word) counted from 0; where they are left out the answers are sought in the words.
    `id`, `segment_ids` and `source` may be given too; `page_ids` may be left out on one page. How many answers were
    found nowhere is logged: they count in a measurement, but nothing is learned from them.
    """

    BUILDER_CONFIG_CLASS = JsonQuestionsConfig
    EXPECTED = "a folder with train.jsonl and, as there are, validation.jsonl and test.jsonl, one document a line"

    def _info(self) -> datasets.DatasetInfo:
        check_options("all", self.config.min_similarity)
        features = document_features(questions=True)
        return datasets.DatasetInfo(description="Documents with questions from JSON lines.", features=features)

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """One file a split, named by its stem."""
        return split_files(data_dir)

    def _generate_examples(self, files: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        answered = lost = clipped = 0
        for file in files:
            for number, record in json_records(file):
                where = f"Line {number} of {file}"
                missing = [key for key in ("words", "boxes", "page_sizes", "questions") if key not in record]
                if missing:
                    raise InputError(
                        f"{where} lacks {', '.join(missing)}; see the format of dataset 'json_questions'."
                    )
                row = document_columns(record, file, number)
                clipped += check_row(row, self.config.clip_boxes)
                index = WordIndex(row["words"])
                if not isinstance(record["questions"], list):
                    raise InputError(
                        f"{where} has the questions {record['questions']!r}; write a list, [] where there are none."
                    )
                row["questions"] = [
                    self._question(question, len(row["words"]), index, where) for question in record["questions"]
                ]
                answered += sum(bool(question["answers"]) for question in row["questions"])
                lost += sum(bool(question["answers"]) and not question["spans"] for question in row["questions"])
                yield f"{number}-{row['id']}", row
        log_clipped(clipped)
        if lost:
            logger.warning("Of %d answers %d stand nowhere in their document.", answered, lost)

    def _question(self, given: Any, num_words: int, index: WordIndex, where: str) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise InputError(
                f"{where} has {given!r} among its questions; write each as "
                '{"question": "Which number?", "answers": ["17"]}.'
            )
        text, answers = given.get("question"), given.get("answers", [])
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where} has a question without text ({text!r}); write it under 'question'.")
        if not isinstance(answers, list) or any(
            not isinstance(answer, str) or not answer.strip() for answer in answers
        ):
            raise InputError(
                f"{where} has the answers {answers!r} to {text!r}; give a list of texts, an empty one for no answer."
            )
        spans = given.get("spans")
        if spans is None:
            found = [place for answer in answers for place in index.find(answer, self.config.min_similarity)]
            spans = [list(span) for span in sorted({(place.first, place.last) for place in found})]
        if not isinstance(spans, list):
            raise InputError(f"{where} has the spans {spans!r} to {text!r}; write a list, as [[3, 4]].")
        for span in spans:
            if not _is_span(span, num_words):
                raise InputError(
                    f"{where} has the span {span!r} as an answer to {text!r}; it is [first word, last word], counted "
                    f"from 0 over {num_words} words, in a list of spans."
                )
        if spans and not answers:
            raise InputError(f"{where} has spans but no answers to {text!r}; give the answers' texts too.")
        return {"question": text, "answers": answers, "spans": spans}

    @classmethod
    def code_files(cls) -> list[str]:
        """Also the reader of the lines, and what finds the answers."""
        return [*super().code_files(), json_lines.__file__, value_alignment.__file__]


def _is_span(span: Any, num_words: int) -> bool:
    # Not isinstance: true and false are whole numbers to Python.
    if not isinstance(span, list) or len(span) != 2 or any(type(word) is not int for word in span):
        return False
    return 0 <= span[0] <= span[1] < num_words
