"""arXiv and PubMed papers with their abstracts (Cohan et al., 2018)."""

import os
import re
from collections.abc import Iterator
from typing import Any

from broadsheet.dataset_scripts.json_lines import json_records
from broadsheet.dataset_scripts.text_summaries import SummaryBuilder, text_row
from broadsheet.tokenization.input_checks import InputError

SPLITS = {"train": ("train",), "validation": ("val", "validation"), "test": ("test",)}
_TAG = re.compile(r"^\s*<S>\s*|\s*</S>\s*$")


class ArxivSummarization(SummaryBuilder):
    """
    `train.txt`, `val.txt`, `test.txt` as published, one paper a line: `article_id`, `article_text` and
    `abstract_text`, lists of sentences, those of the abstract between `<S>` and `</S>`. The sentences are tokenised
    and lower-cased by the authors; words are what stands between spaces. The summary has one sentence a line. Papers
    without text or abstract, of which there are some, are skipped and noted.
    """

    EXPECTED = "the folder arxiv-dataset of Cohan et al. with train.txt, val.txt and test.txt"
    FOLDER = "arxiv-dataset"
    DESCRIPTION = "Papers with their abstracts (Cohan et al., 2018)."

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """One file a split, in the folder or in the one that it was published in."""
        found: dict[str, list[str]] = {}
        for split, stems in SPLITS.items():
            paths = [
                os.path.join(data_dir, folder, f"{stem}{suffix}")
                for folder in ("", self.FOLDER)
                for stem in stems
                for suffix in (".txt", ".jsonl")
            ]
            found[split] = [path for path in paths if os.path.isfile(path)][:1]
        return found

    def read_rows(self, file: str) -> Iterator[dict[str, Any]]:
        """One row a line."""
        for number, record in json_records(file):
            where = f"Line {number} of {file}"
            article, abstract = record.get("article_text"), record.get("abstract_text")
            for key, sentences in (("article_text", article), ("abstract_text", abstract)):
                if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
                    raise InputError(f"{where} has no {key}, a list of sentences; get the file from its authors.")
            assert isinstance(article, list)
            assert isinstance(abstract, list)
            words = [word for sentence in article for word in sentence.split()]
            summary = "\n".join(filter(None, (_TAG.sub("", sentence).strip() for sentence in abstract)))
            if not words or not summary:
                self.record_skipped(file, f"Line {number} has no {'summary' if words else 'text'}.")
                continue
            yield text_row(str(record.get("article_id", number)), words, summary, file)


class PubMedSummarization(ArxivSummarization):
    """The same for PubMed's papers."""

    EXPECTED = "the folder pubmed-dataset of Cohan et al. with train.txt, val.txt and test.txt"
    FOLDER = "pubmed-dataset"
