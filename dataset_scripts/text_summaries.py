"""Documents with summaries as JSON lines, and the base of the corpora of summaries: text without boxes."""

from collections.abc import Iterator, Sequence
from typing import Any

import datasets

from broadsheet.dataset_scripts import json_lines
from broadsheet.dataset_scripts.builder import DocumentBuilder
from broadsheet.dataset_scripts.json_lines import (
    JsonLinesConfig,
    document_columns,
    document_id,
    json_records,
    log_clipped,
    split_files,
)
from broadsheet.dataset_scripts.schema import check_row, document_features
from broadsheet.tokenization.input_checks import InputError, check_words


class SummaryBuilder(DocumentBuilder):
    """A corpus of summaries. A subclass finds its files and reads one of them into rows, some of which it may skip."""

    DESCRIPTION = "Documents with summaries."

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(description=self.DESCRIPTION, features=document_features(summary=True))

    def read_rows(self, file: str) -> Iterator[dict[str, Any]]:
        """The rows of a file: of `text_row`."""
        raise NotImplementedError

    def _generate_examples(self, files: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        for place, file in enumerate(files):
            for number, row in enumerate(self.read_rows(file)):
                yield f"{place}-{number}", row

    @classmethod
    def code_files(cls) -> list[str]:
        """Also the file of this base, which makes the rows."""
        return [*super().code_files(), __file__, json_lines.__file__]


def text_row(name: str, words: list[str], summary: str, source: str) -> dict[str, Any]:
    """
    A row of text without boxes.

    Args:
        name: of the document, unique in its split.
        words: in reading order.
        summary: its sentences one a line, where the source tells them apart.
        source: the file.

    Raises:
        InputError: there are no words, or no summary.
    """
    check_words(words, f"document {name!r}")
    if not summary.strip():
        raise InputError(f"Document {name!r} has no summary; leave it out.")
    return {
        "id": name,
        "words": words,
        "boxes": None,
        "page_ids": None,
        "page_sizes": None,
        "segment_ids": None,
        "source": source,
        "summary": summary,
    }


class TextSummaries(SummaryBuilder):
    """
    `train.jsonl`, `validation.jsonl`, `test.jsonl` (any names; the stem is the split), one document a line:

        {"text": "The whole document ...", "summary": "What it says."}

    Instead of `text`, a document may have `words` with `boxes`, `page_ids` and `page_sizes`, as the other datasets do,
    for models that read the layout too. `id` may be given.
    """

    BUILDER_CONFIG_CLASS = JsonLinesConfig
    EXPECTED = "a folder with train.jsonl and, as there are, validation.jsonl and test.jsonl, one document a line"

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """One file a split, named by its stem."""
        return split_files(data_dir)

    def read_rows(self, file: str) -> Iterator[dict[str, Any]]:
        """One row a line."""
        clipped = 0
        for number, record in json_records(file):
            where = f"Line {number} of {file}"
            if ("text" in record) == ("words" in record):
                raise InputError(f"{where} has both or neither of text and words; give one of them.")
            given = record["text"] if "text" in record else record["words"]
            if not isinstance(given, str if "text" in record else list) or not isinstance(record.get("summary"), str):
                raise InputError(f"{where} has no text, or no summary, as a string; see the dataset 'text_summaries'.")
            words = given.split() if isinstance(given, str) else given
            try:
                row = text_row(document_id(record, file, number), words, record["summary"], file)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            if record.get("boxes") is not None:
                if record.get("page_sizes") is None:
                    raise InputError(f"{where} has boxes but no page_sizes; give (width, height) of each page.")
                columns = document_columns({**record, "words": words}, file, number)
                row |= {name: columns[name] for name in ("boxes", "page_ids", "page_sizes")}
                clipped += check_row(row, self.config.clip_boxes)
            yield row
        log_clipped(clipped)
