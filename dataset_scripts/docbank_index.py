"""Which pages of DocBank belong to which split and subset."""

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence

from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

SUBSETS: Mapping[str, Mapping[str, int]] = {
    "mix": {"train": 20_000, "validation": 2_500, "test": 2_500},
    "la": {"train": 8_000, "validation": 1_000, "test": 1_000},
}
"""Sizes of Skim-Attention's subsets (section 5.1), in the order in which they are drawn."""

_FOLDERS = (
    os.path.join("DocBank_500K_txt", "DocBank_500K_txt"),
    "DocBank_500K_txt",
    os.path.join("DocBank_samples", "DocBank_samples"),
    "DocBank_samples",
    "",
)
_LIST_FOLDERS = ("indexed_files", "", "MSCOCO_Format_Annotation")
_LISTS = {
    "train": ("500K_train.txt", "500K_train.json"),
    "validation": ("500K_dev.txt", "500K_valid.txt", "500K_valid.json", "500K_dev.json"),
    "test": ("500K_test.txt", "500K_test.json"),
}
_PAGE_FILE = re.compile(r"(.+_\d+)\.txt")
_FILE_NAME = re.compile(r'"file_name"\s*:\s*("(?:[^"\\]|\\.)*")')
_BLOCK = 1 << 20


def page_folder(data_dir: str) -> tuple[str, set[str]]:
    """The folder of the distribution that holds the pages, and their names without ".txt"; an empty set for none."""
    for name in _FOLDERS:
        folder = os.path.join(data_dir, name) if name else data_dir
        if os.path.isdir(folder):
            with os.scandir(folder) as entries:
                matches = [_PAGE_FILE.fullmatch(entry.name) for entry in entries]
            pages = {match[1] for match in matches if match}
            if pages:
                return folder, pages
    return data_dir, set()


def image_folders(data_dir: str) -> list[str]:
    """The folders of the distribution that hold the pictures of the pages, as far as there are any."""
    folders = ("DocBank_500K_ori_img", os.path.join("DocBank_500K_ori_img", "DocBank_500K_ori_img"))
    paths = [os.path.join(data_dir, folder) for folder in folders]
    return [path for path in paths if os.path.isdir(path)]


def find_lists(data_dir: str) -> dict[str, str]:
    """The official list of each split, those of GitHub (`indexed_files`) before those in COCO's format."""
    found = {}
    for split, names in _LISTS.items():
        paths = [os.path.join(data_dir, folder, name) for name in names for folder in _LIST_FOLDERS]
        present = [path for path in paths if os.path.isfile(path)]
        if present:
            found[split] = present[0]
    return found


def read_list(path: str) -> list[str]:
    """
    The pages that a list names, in its order, each once.

    A text file has a page a line: "1.tar_1.gz_a_3", or the name of its text file or picture. Of a JSON file in COCO's
    format the `file_name`s of the images are taken, block by block, because the official ones are too large to parse.

    Raises:
        InputError: no such file, or no page in it.
    """
    if not os.path.isfile(path):
        raise InputError(f"The list of pages {path} does not exist; pass the path of a text file with a page a line.")
    names = _coco_names(path) if path.endswith(".json") else _lines(path)
    pages = [re.sub(r"(\.txt|(_ori)?\.jpg)$", "", os.path.basename(name)) for name in names]
    if not pages:
        raise InputError(f"The list of pages {path} names none; copy it again.")
    once = list(dict.fromkeys(pages))
    if len(once) < len(pages):
        logger.warning("%s names %d pages more than once.", path, len(pages) - len(once))
    return once


def choose_pages(pages: Sequence[str], split: str, subset: str, seed: int = 0) -> list[str]:
    """
    The pages of a split that belong to a subset, in their order.

    The authors of Skim-Attention give sizes but no lists. Here the pages of a split are ranked by the SHA-256 digest
    of "{seed}/{page}" (hexadecimal), which depends on neither their order nor the machine: MIX takes the first of
    them, DocBank-LA those that follow, so that the two have no page in common. (Pages of one paper may be in both, and
    are in different splits of DocBank too.)

    Args:
        pages: names of all pages of the split, as in the official list.
        split: "train", "validation" or "test".
        subset: "mix" or "la".
        seed: another draw.

    Raises:
        InputError: fewer pages than the subsets need.
    """
    sizes = {name: splits[split] for name, splits in SUBSETS.items()}
    if len(pages) < sum(sizes.values()):
        raise InputError(
            f"Split {split!r} has {len(pages)} pages, but the subsets of DocBank take {sum(sizes.values())}; put the "
            "complete official lists beside the pages."
        )
    ranked = sorted(pages, key=lambda page: hashlib.sha256(f"{seed}/{page}".encode()).hexdigest())
    start = 0
    for name, size in sizes.items():
        if name == subset:
            break
        start += size
    chosen = set(ranked[start : start + sizes[subset]])
    return [page for page in pages if page in chosen]


def check_lists(splits: Mapping[str, Sequence[str]], data_dir: str, subset: str) -> None:
    """Raise `InputError` unless all three official lists are there, which a subset is drawn from."""
    missing = [split for split in _LISTS if split not in splits]
    if missing:
        raise InputError(
            f"subset={subset!r} is drawn from the official lists, but {data_dir} has none for {', '.join(missing)}; "
            "put indexed_files/500K_train.txt, 500K_dev.txt and 500K_test.txt of "
            "https://github.com/doc-analysis/DocBank there, or pass pages='your-list.txt'."
        )


def select_listed(splits: Mapping[str, Sequence[str]], pages: Sequence[str], path: str) -> dict[str, list[str]]:
    """The pages of each split that are in a list of one's own, in the splits' order."""
    wanted = set(pages)
    unknown = wanted.difference(*splits.values())
    if unknown:
        raise InputError(
            f"The list of pages {path} names {min(unknown)}, which is in no split ({', '.join(splits)}) of this "
            f"DocBank, and {len(unknown) - 1} more such; correct the list, or put the complete official lists there."
        )
    return {split: [page for page in names if page in wanted] for split, names in splits.items()}


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def _coco_names(path: str) -> list[str]:
    names: list[str] = []
    rest = ""
    with open(path, encoding="utf-8") as text:
        while block := text.read(_BLOCK):
            rest += block
            end = 0
            for match in _FILE_NAME.finditer(rest):
                names.append(json.loads(match[1]))
                end = match.end()
            # A name cut by the block's end is shorter than this, and is found with the next block.
            rest = rest[max(end, len(rest) - 4096) :]
    return names
