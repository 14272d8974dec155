"""QMSum: meetings with summaries of the whole and of what was asked (Zhong et al., 2021)."""

import dataclasses
import glob
import json
import os
import re
from collections.abc import Iterator
from typing import Any, Literal

from broadsheet.dataset_scripts.builder import DocumentConfig
from broadsheet.dataset_scripts.json_lines import json_records
from broadsheet.dataset_scripts.text_summaries import SummaryBuilder, text_row
from broadsheet.tokenization.input_checks import InputError

SPLITS = {"train": "train", "validation": "val", "test": "test"}
_NOISE = re.compile(r"\{[^{}]*\}")


@dataclasses.dataclass
class QmSumConfig(DocumentConfig):
    """
    Options of QMSum.

    Attributes:
        queries: "general", the summary of the whole meeting; "specific", the answers to questions about parts of it,
            each a row whose words begin with the question; "all", both, all beginning with their question.
        clean: leave out the transcribers' marks, {disfmarker}, {vocalsound} and so on, as the authors do.
    """

    queries: Literal["general", "specific", "all"] = "general"
    clean: bool = True


class QmSum(SummaryBuilder):
    """
    The authors' `data/ALL/{train,val,test}/*.json`, one meeting a file, or `{train,val,test}.jsonl`, one a line:
    `meeting_transcripts` (speaker, content), `general_query_list` and `specific_query_list` (query, answer). Each turn
    begins with its speaker and a colon.
    """

    BUILDER_CONFIG_CLASS = QmSumConfig
    EXPECTED = "QMSum's folder data/ALL with train, val and test, from github.com/Yale-LILY/QMSum"
    DESCRIPTION = "Meetings with summaries (Zhong et al., 2021)."

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """The meetings of each split, in the folder itself or in the repository's."""
        found: dict[str, list[str]] = {}
        for split, name in SPLITS.items():
            for folder in ("", os.path.join("data", "ALL"), "ALL", "jsonl"):
                place = glob.escape(os.path.join(data_dir, folder))
                files = sorted(glob.glob(os.path.join(place, name, "*.json")))
                files = files or glob.glob(os.path.join(place, f"{name}.jsonl"))
                if files:
                    found[split] = files
                    break
        return found

    def read_rows(self, file: str) -> Iterator[dict[str, Any]]:
        """A row for each summary that `queries` asks for."""
        if self.config.queries not in ("general", "specific", "all"):
            raise InputError(f"queries is {self.config.queries!r}; choose general, specific or all.")
        stem = os.path.splitext(os.path.basename(file))[0]
        if file.endswith(".jsonl"):
            for number, meeting in json_records(file):
                yield from self._rows(meeting, f"{stem}-{number}", f"Line {number} of {file}", file)
            return
        with open(file, encoding="utf-8") as stream:
            try:
                meeting = json.load(stream)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise InputError(f"{file} is not valid JSON ({error}); get it from its authors again.") from None
        yield from self._rows(meeting, stem, file, file)

    def _rows(self, meeting: Any, name: str, where: str, file: str) -> Iterator[dict[str, Any]]:
        try:
            turns = [f"{turn['speaker']}: {turn['content']}" for turn in meeting["meeting_transcripts"]]
            asked = {
                kind: [(query["query"], query["answer"]) for query in meeting.get(f"{kind}_query_list", [])]
                for kind in ("general", "specific")
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where} is no meeting of QMSum ({error!r}); get it from its authors.") from None
        words = [word for turn in turns for word in (_NOISE.sub(" ", turn) if self.config.clean else turn).split()]
        for kind in ("general", "specific"):
            if self.config.queries not in (kind, "all"):
                continue
            for number, (query, answer) in enumerate(asked[kind]):
                if not str(answer).strip():
                    self.record_skipped(file, f"The {kind} query {number} has no answer.")
                    continue
                before = [] if self.config.queries == "general" else str(query).split()
                yield text_row(f"{name}-{kind}-{number}", before + words, str(answer).strip(), file)
