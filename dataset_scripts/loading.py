"""`load_dataset`: the one way to every corpus."""

import os
from collections.abc import Mapping
from typing import Any

from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

from broadsheet.dataset_scripts.builder import DocumentBuilder, read_reports
from broadsheet.dataset_scripts.cord import Cord, CordR
from broadsheet.dataset_scripts.docbank import DocBank
from broadsheet.dataset_scripts.document_classes import DocumentClasses
from broadsheet.dataset_scripts.funsd import Funsd
from broadsheet.dataset_scripts.json_entities import JsonEntities
from broadsheet.dataset_scripts.json_questions import JsonQuestions
from broadsheet.dataset_scripts.kleister import KleisterCharity, KleisterNda
from broadsheet.dataset_scripts.page_collection import PageCollection
from broadsheet.dataset_scripts.pdf_folder import PdfFolder
from broadsheet.dataset_scripts.qmsum import QmSum
from broadsheet.dataset_scripts.rvl_cdip import RvlCdip
from broadsheet.dataset_scripts.scientific_papers import ArxivSummarization, PubMedSummarization
from broadsheet.dataset_scripts.sroie import Sroie
from broadsheet.dataset_scripts.text_summaries import TextSummaries
from broadsheet.tokenization.input_checks import InputError

BUILDERS: Mapping[str, type[DocumentBuilder]] = {
    "arxiv_summarization": ArxivSummarization,
    "cord": Cord,
    "cord_r": CordR,
    "docbank": DocBank,
    "document_classes": DocumentClasses,
    "funsd": Funsd,
    "json_entities": JsonEntities,
    "json_questions": JsonQuestions,
    "kleister_charity": KleisterCharity,
    "kleister_nda": KleisterNda,
    "page_collection": PageCollection,
    "pdf_folder": PdfFolder,
    "pubmed_summarization": PubMedSummarization,
    "qmsum": QmSum,
    "rvl_cdip": RvlCdip,
    "sroie": Sroie,
    "text_summaries": TextSummaries,
}


def load_dataset(
    name: str,
    data_dir: str | os.PathLike | None = None,
    split: str | None = None,
    streaming: bool = False,
    num_proc: int | None = None,
    cache_dir: str | None = None,
    **config: Any,
) -> Dataset | DatasetDict | IterableDataset | IterableDatasetDict:
    """
    Load a corpus from its official files on this machine, in the one schema of `document_features`.

    Args:
        name: "funsd", "json_entities", "pdf_folder", ... (`BUILDERS` lists all).
        data_dir: the folder of the official distribution.
        split: "train", "test", a slice such as "train[:10]" (not when streaming); all splits when omitted.
        streaming: read documents as they are asked for instead of preparing them on disk first.
        num_proc: processes that prepare the corpus.
        cache_dir: where prepared data goes; default: the cache of `datasets`. It follows the files: a changed file,
            option or reader is prepared anew.
        config: the options of the corpus (see its config class, for example `FunsdConfig`).

    Returns:
        A Dataset (or IterableDataset), or a dict of them where `split` is omitted.

    Raises:
        InputError: an unknown name, option or split; a missing folder or file; a file that cannot be read.
    """
    if name not in BUILDERS:
        raise InputError(f"There is no dataset {name!r}; the datasets are {', '.join(sorted(BUILDERS))}.")
    builder = BUILDERS[name](data_dir=data_dir, cache_dir=cache_dir, **config)
    if split is not None:
        for part in split.split("+"):
            if part.split("[")[0].strip() not in (*builder.files, "all"):
                raise InputError(
                    f"Dataset {name!r} in {builder.config.data_dir} has no split {part.strip()!r}; "
                    f"its splits are {', '.join(builder.files)}."
                )
    if streaming:
        if split is not None and split not in builder.files:
            raise InputError(
                f"Split {split!r} cannot be streamed; stream one of {', '.join(builder.files)} and use its "
                "take() and skip()."
            )
        return builder.as_streaming_dataset(split=split)
    builder.download_and_prepare(num_proc=num_proc)
    for name_of_split, info in builder.info.splits.items():
        if info.num_examples == 0:
            skipped = read_reports(builder.cache_dir, name_of_split)
            if not skipped:
                raise InputError(
                    f"Split {name_of_split!r} of {builder.config.data_dir} has no documents; remove its files, or "
                    "fill them."
                )
            raise InputError(
                f"No document of {builder.config.data_dir} could be used; {len(skipped)} were skipped, the first "
                f"because: {skipped[0]['reason']}"
            )
    return builder.as_dataset(split=split)
