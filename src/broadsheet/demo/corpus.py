"""
A small corpus of business documents as PDF files, with the entities on them, made on the spot.

The documents are drawn (see `templates`), written as PDF, and read back with `read_pdf`; the entities are tied to the
reader's own words by the place where they were drawn, so that labels are exact. The held-out documents come from
templates of their own, with other wordings, other field orders and other companies.
"""

import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

from tqdm.auto import tqdm

from broadsheet.demo.sheet import Sheet, TracedEntity
from broadsheet.demo.templates import draw_document
from broadsheet.demo.wordings import FIELDS
from broadsheet.documents import Document, InputError, read_pdf
from broadsheet.tokenization.tagging import encode_entities

ENTITY_TYPES = FIELDS
SPLITS = ("train", "test")
_VERSION = 7  # raise when the same parameters give other documents
_MARK = "corpus.json"  # written last: a folder with it is complete


def make_corpus(
    folder: str | os.PathLike[str], num_train: int = 400, num_test: int = 100, seed: int = 0, progress: bool = True
) -> None:
    """
    Make the corpus in `folder`: `train/0000.pdf`, ..., `test/0000.pdf`, ..., `train.jsonl`, `test.jsonl`.

    The same parameters give the same bytes. A folder that already holds this corpus is left as it is, one that holds
    another is replaced; it appears complete or not at all. A line of the JSON files has `file`, `kind` and
    `entities`, each with `type`, `text`, `page` (from 0) and `word_ids` in the words that `read_pdf` finds.

    Args:
        folder: where to, missing or empty or with a corpus in it.
        num_train: documents of the training templates.
        num_test: documents of the held-out templates.
        seed: of everything random.
        progress: show a progress bar.

    Raises:
        InputError: the folder holds other files, or a number is below zero.
    """
    folder = Path(folder)
    if num_train < 0 or num_test < 0:
        raise InputError(f"A corpus of {num_train} and {num_test} documents cannot be made; pass counts from 0 up.")
    parameters = {"version": _VERSION, "num_train": num_train, "num_test": num_test, "seed": seed}
    if folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not (folder / _MARK).exists()):
            raise InputError(f"{folder} holds other files than a corpus; pass a new or empty folder.")
        if (folder / _MARK).exists() and json.loads((folder / _MARK).read_text()) == parameters:
            return
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        with tqdm(total=num_train + num_test, desc="Making documents", unit="doc", disable=not progress) as bar:
            for split, count in zip(SPLITS, (num_train, num_test), strict=True):
                (partial / split).mkdir(parents=True)
                lines = []
                for index in range(count):
                    rng = Random(f"{seed}/{split}/{index}")
                    lines.append(json.dumps(_make_document(partial, split, index, rng), ensure_ascii=False))
                    bar.update()
                (partial / f"{split}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        (partial / _MARK).write_text(json.dumps(parameters))
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_corpus(folder: str | os.PathLike[str], split: str) -> list[tuple[Document, list[str]]]:
    """
    Read a split of a corpus: each document with one IOB2 label per word (`B-total`, `I-total`, ..., `O`).

    Raises:
        InputError: there is no such corpus or split, or its files do not match its annotations.
    """
    return [
        (document, encode_entities(_spans(annotation), len(document)))
        for document, annotation in read_annotated(folder, split)
    ]


def read_annotated(folder: str | os.PathLike[str], split: str) -> list[tuple[Document, dict[str, Any]]]:
    """Read a split of a corpus: each document with its line of the annotations; errors as `read_corpus`."""
    folder = Path(folder)
    if split not in SPLITS:
        raise InputError(f"The corpus has no split {split!r}; it has 'train' and 'test'.")
    path = folder / f"{split}.jsonl"
    if not path.exists():
        raise InputError(f"There is no corpus in {folder} ({path.name} is missing); make it with make_corpus.")
    documents = []
    for line in path.read_text(encoding="utf-8").splitlines():
        annotation = json.loads(line)
        document = read_pdf(folder / annotation["file"])
        for entity in annotation["entities"]:
            if (
                " ".join(document.words[index] for index in entity["word_ids"] if index < len(document))
                != entity["text"]
            ):
                raise InputError(
                    f"{folder / annotation['file']} does not have {entity['text']!r} where its annotation says; "
                    "delete the corpus and make it again."
                )
        documents.append((document, annotation))
    return documents


def _spans(annotation: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(entity["type"], entity["word_ids"][0], entity["word_ids"][-1] + 1) for entity in annotation["entities"]]


def _make_document(folder: Path, split: str, index: int, rng: Random) -> dict[str, Any]:
    sheet, kind = draw_document(rng, split)
    file = f"{split}/{index:04}.pdf"
    sheet.write(folder / file, title=f"{split} {index}")
    document = read_pdf(folder / file)
    return {"file": file, "kind": kind, "entities": _find_entities(sheet, document, file)}


def _find_entities(sheet: Sheet, document: Document, file: str) -> list[dict[str, Any]]:
    """The entities of a sheet among the words of the document read back from it, in reading order."""
    found = []
    for entity in sheet.entities():
        word_ids = _find_words(entity, document)
        assert word_ids == list(range(word_ids[0], word_ids[0] + len(entity.words))), (
            f"The words of {entity} in {file} stand apart when read: {word_ids}."
        )
        found.append({"type": entity.label, "text": " ".join(entity.words), "page": entity.page, "word_ids": word_ids})
    return sorted(found, key=lambda entity: entity["word_ids"])


def _find_words(entity: TracedEntity, document: Document) -> list[int]:
    """The word of the document at each of the entity's points; it must be there, once, and read as drawn."""
    word_ids = []
    for word, (x, y) in zip(entity.words, entity.points, strict=True):
        at_point = [
            index
            for index, (x0, y0, x1, y1) in enumerate(document.boxes)
            if document.page_ids[index] == entity.page and x0 <= x <= x1 and y0 <= y <= y1
        ]
        assert [document.words[index] for index in at_point] == [word], (
            f"{word!r} of {entity} was read as {[document.words[index] for index in at_point]} in {document.source}."
        )
        word_ids += at_point
    return word_ids
