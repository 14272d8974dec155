"""
A part of the training documents held out for testing, where a corpus' official test split has no answers.

Documents of one group (a vendor's receipts) stay together, so that nothing of a group is on both sides.
"""

import hashlib
import re
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

from broadsheet.dataset_scripts.value_mentions import fold
from broadsheet.tokenization.input_checks import InputError

SPLIT = "held_out"
SAME_NAME = 0.8
"""Share of letters in common from which two names are taken to be one vendor's, misspelt or of another branch."""

_BRACKETS = re.compile(r"\([^)]*\)?")
_LEGAL = re.compile(r"\b(?:sdn\.?\s*bhd|sbn\.?\s*bhd|s/b|sb|bhd|plt|co)\b\.?")


def check_share(share: float) -> None:
    """Raise `InputError` unless the share of held out documents is one."""
    if not 0 <= share < 1:
        raise InputError(f"held_out is {share!r}; it is the share of documents to hold out, from 0 to below 1.")


def hold_out(files: dict[str, list[str]], groups: Sequence[Hashable], share: float, seed: int) -> dict[str, list[str]]:
    """
    Files by split, some of "train" moved to "held_out".

    Args:
        files: by split.
        groups: the group of each file of "train"; groups are moved whole.
        share: of the documents to move, 0 to below 1: groups are moved until there are as many.
        seed: another seed, another choice. The order of the files does not matter.

    Raises:
        InputError: there is nothing to move, or nothing would be left.
    """
    train = files.get("train", [])
    if not share:
        return files

    def place(group: Hashable) -> str:
        return hashlib.blake2b(f"{seed}\0{group}".encode(), digest_size=16).hexdigest()

    moved: set[Hashable] = set()
    count = 0
    for group in sorted(set(groups), key=place):
        if count >= share * len(train):
            break
        moved.add(group)
        count += list(groups).count(group)
    if not count or count == len(train):
        raise InputError(
            f"held_out={share:g} of {len(train)} training documents in {len(set(groups))} groups leaves one side "
            "empty; choose another share."
        )
    held = [file for file, group in zip(train, groups, strict=True) if group in moved]
    kept = [file for file, group in zip(train, groups, strict=True) if group not in moved]
    return {"train": kept, **{name: part for name, part in files.items() if name != "train"}, SPLIT: held}


def vendor_groups(names: Sequence[str], addresses: Sequence[str]) -> list[str]:
    """
    The vendor of each receipt, by a name that all of its receipts share.

    Two receipts are of one vendor where the names are the same, one begins with the other, or they have most letters
    in common (without brackets, legal forms, case and punctuation), or where the addresses are the same.
    """
    keys = [_name(name) for name in names]
    parent = {key: key for key in sorted(set(keys))}

    def root(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    def join(one: str, other: str) -> None:
        first, second = sorted((root(one), root(other)))
        parent[second] = first

    distinct = list(parent)
    for index, one in enumerate(distinct):
        for other in distinct[index + 1 :]:
            if _same(one, other):
                join(one, other)
    at: dict[str, str] = {}
    for key, address in zip(keys, addresses, strict=True):
        place = re.sub(r"\W", "", fold(address))
        if place:
            join(at.setdefault(place, key), key)
    return [root(key) for key in keys]


def _name(name: str) -> str:
    folded = fold(name)
    return re.sub(r"\W", "", _LEGAL.sub(" ", _BRACKETS.sub(" ", folded))) or re.sub(r"\W", "", folded)


def _same(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if len(short) >= 6 and long.startswith(short):
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.real_quick_ratio() >= SAME_NAME and matcher.ratio() >= SAME_NAME
