"""All entries. A new model adds a file of entries, and a line here."""

import fnmatch

from benchmarks import formnet, lambert, long_layoutlm, long_skimformer, pyramidion, skimformer, skimming_mask
from benchmarks.entry import Benchmark
from broadsheet.tokenization.input_checks import InputError

_FILES = (skimformer, long_skimformer, skimming_mask, lambert, long_layoutlm, pyramidion, formnet)

ENTRIES: dict[str, Benchmark] = {entry.name: entry for file in _FILES for entry in file.ENTRIES}


def choose(names: list[str]) -> list[Benchmark]:
    """
    The entries of the given names, in the catalogue's order.

    Args:
        names: exact names, patterns ("skimformer-training-*") or "all".

    Raises:
        InputError: for a name that fits no entry.
    """
    chosen: set[str] = set()
    for name in names:
        found = fnmatch.filter(ENTRIES, "*" if name == "all" else name)
        if not found:
            raise InputError(f"There is no benchmark {name}; choose from {', '.join(ENTRIES)}, or all.")
        chosen.update(found)
    return [entry for entry in ENTRIES.values() if entry.name in chosen]
