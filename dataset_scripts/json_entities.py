"""Documents with entities as JSON lines: the format for one's own labelled documents."""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import datasets

from broadsheet.dataset_scripts import json_lines
from broadsheet.dataset_scripts.builder import DocumentBuilder
from broadsheet.dataset_scripts.json_lines import (
    JsonLinesConfig,
    document_columns,
    json_records,
    log_clipped,
    split_files,
)
from broadsheet.dataset_scripts.schema import check_row, document_features
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import bio_labels

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class JsonEntitiesConfig(JsonLinesConfig):
    """
    Options of JSON lines with entities.

    Attributes:
        clip_boxes: as of `JsonLinesConfig`.
        entity_types: the types in the order of their labels; those found in the files, sorted, when None.
    """

    entity_types: list[str] | None = None


class JsonEntities(DocumentBuilder):
    """
    `train.jsonl`, `validation.jsonl`, `test.jsonl` (any names; the stem is the split), one document a line:

        {"words": ["Invoice", "17"], "boxes": [[50, 60, 98, 72], [102, 60, 115, 72]], "page_ids": [0, 0],
         "page_sizes": [[595, 842]], "entities": [{"type": "number", "word_ids": [1]}]}

    `id`, `segment_ids`, `source` and an entity's `text` may be given too; `page_ids` may be left out on one page. The
    rows have IOB2 `labels`. A word belongs to one entity at most. Of an entity whose words do not follow each other
    the labels show each run as an entity of its own; how many there are is logged.
    """

    BUILDER_CONFIG_CLASS = JsonEntitiesConfig
    EXPECTED = "a folder with train.jsonl and, as there are, validation.jsonl and test.jsonl, one document a line"

    def _info(self) -> datasets.DatasetInfo:
        types = self.config.entity_types
        if types is None:
            found: set[str] = set()
            for files in self.files.values():
                for file in files:
                    for number, record in json_records(file):
                        entities = _entities(record, _place(file, number)) if "entities" in record else []
                        found.update(entity["type"] for entity in entities)
            types = sorted(found)
        self._types = types
        features = document_features(labels=bio_labels(types), entities=True)
        return datasets.DatasetInfo(description="Documents with entities from JSON lines.", features=features)

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """One file a split, named by its stem."""
        self._broken = 0
        return split_files(data_dir)

    def _generate_examples(self, files: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        clipped = 0
        for file in files:
            for number, record in json_records(file):
                row = self._row(record, file, number)
                clipped += check_row(row, self.config.clip_boxes)
                yield f"{number}-{row['id']}", row
        log_clipped(clipped)
        if self._broken:
            logger.warning("%d entities have gaps; their labels show each run as an entity.", self._broken)
            self._broken = 0

    def _row(self, record: dict[str, Any], file: str, number: int) -> dict[str, Any]:
        where = _place(file, number)
        missing = [key for key in ("words", "boxes", "page_sizes", "entities") if key not in record]
        if missing:
            raise InputError(f"{where} lacks {', '.join(missing)}; see the format of dataset 'json_entities'.")
        columns = document_columns(record, file, number)
        words = columns["words"]
        labels = ["O"] * len(words)
        entities = []
        for entity in _entities(record, where):
            if entity["type"] not in self._types:
                raise InputError(
                    f"{where} has an entity of the type {entity['type']!r}, which is not in entity_types "
                    f"({', '.join(self._types)})."
                )
            word_ids = sorted(entity["word_ids"])
            if not word_ids or word_ids[0] < 0 or word_ids[-1] >= len(words):
                raise InputError(
                    f"{where} has an entity {entity['type']!r} with the word_ids {word_ids}; they count the "
                    f"{len(words)} words from 0, and there is at least one."
                )
            for previous, word in zip([None, *word_ids], word_ids, strict=False):
                if labels[word] != "O":
                    raise InputError(
                        f"{where} puts word {word} ({words[word]!r}) into two entities; keep one of them."
                    )
                inside = previous is not None and word == previous + 1
                labels[word] = f"{'I' if inside else 'B'}-{entity['type']}"
            self._broken += word_ids[-1] - word_ids[0] + 1 != len(word_ids)
            text = entity.get("text", " ".join(words[word] for word in word_ids))
            entities.append({"type": entity["type"], "word_ids": word_ids, "text": text})
        return {**columns, "labels": labels, "entities": entities}

    @classmethod
    def code_files(cls) -> list[str]:
        """Also the reader of the lines."""
        return [*super().code_files(), json_lines.__file__]


def _place(file: str, number: int) -> str:
    return f"Line {number} of {file}"


def _entities(record: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The entities of a line, each with a type and with whole numbers as `word_ids`, none twice."""
    entities = record["entities"]
    if not isinstance(entities, list):
        raise InputError(f"{where} has the entities {entities!r}; write a list, [] where there are none.")
    for entity in entities:
        if not isinstance(entity, dict):
            raise InputError(
                f'{where} has {entity!r} among its entities; write each as {{"type": "date", "word_ids": [3, 4]}}.'
            )
        kind, word_ids = entity.get("type"), entity.get("word_ids")
        if not isinstance(kind, str) or not kind:
            raise InputError(f"{where} has an entity of the type {kind!r}; give it a type, a string.")
        # Not isinstance: true and false are whole numbers to Python.
        if not isinstance(word_ids, list) or any(type(word) is not int for word in word_ids):
            raise InputError(
                f"{where} has an entity {kind!r} with the word_ids {word_ids!r}; write a list of whole numbers, which "
                "count the words from 0."
            )
        if len(set(word_ids)) < len(word_ids):
            twice = next(word for word in word_ids if word_ids.count(word) > 1)
            raise InputError(
                f"{where} has an entity {kind!r} with the word_ids {word_ids}, word {twice} twice; name it once."
            )
    return entities
