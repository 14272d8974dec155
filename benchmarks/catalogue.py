"""All entries. A new model adds a file of entries, and a line here."""

import fnmatch

from benchmarks import (
    formnet,
    formnet_parts,
    lambert,
    long_layoutlm,
    long_layoutlm_processor,
    long_skimformer,
    pyramidion,
    skimformer,
    skimming_mask,
    topk,
)
from benchmarks.entry import Benchmark, Study
from broadsheet.tokenization.input_checks import InputError

_FILES = (skimformer, long_skimformer, skimming_mask, lambert, long_layoutlm, pyramidion, formnet)

ENTRIES: dict[str, Benchmark] = {entry.name: entry for file in _FILES for entry in file.ENTRIES}

STUDIES: dict[str, Study] = {
    study.name: study for study in (topk.STUDY, long_layoutlm_processor.STUDY, formnet_parts.STUDY)
}


def choose(names: list[str]) -> list[Benchmark]:
    """
    The entries of the given names, in the catalogue's order.

    Args:
        names: exact names, patterns ("skimformer-training-*") or "all".

    Raises:
        InputError: for a name that fits neither an entry nor a study.
    """
    chosen = _fitting(names)
    return [entry for entry in ENTRIES.values() if entry.name in chosen]


def choose_studies(names: list[str]) -> list[Study]:
    """The studies of the given names; as `choose`."""
    chosen = _fitting(names)
    return [study for study in STUDIES.values() if study.name in chosen]


def _fitting(names: list[str]) -> set[str]:
    chosen: set[str] = set()
    every = [*ENTRIES, *STUDIES]
    for name in names:
        found = fnmatch.filter(every, "*" if name == "all" else name)
        if not found:
            raise InputError(f"There is no benchmark {name}; choose from {', '.join(every)}, or all.")
        chosen.update(found)
    return chosen
