"""The demo: the main job from a bare machine, on documents it makes itself."""

import json
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from broadsheet.cli import print_fields
from broadsheet.consoles import make_console
from broadsheet.demo.corpus import make_corpus, read_corpus
from broadsheet.documents import Document, read_pdf
from broadsheet.extraction import FieldExtractor
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable, write_record
from broadsheet.tokenization.tagging import decode_entities
from broadsheet.training.arguments import (
    DataArguments,
    FamilyTrainingArguments,
    ModelArguments,
    RunArguments,
    parse,
    parse_settings,
)
from broadsheet.training.finetune import finetune
from broadsheet.visualization import annotate_pages, save_pages

NUM_TRAIN, NUM_TEST = 700, 100

# Name, what it sees, which data, what differs in the model's configuration.
CONTESTANTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("layout", "words and their boxes", "documents", {}),
    ("shuffled", "words and the boxes of other words", "shuffled", {}),
    (
        "no-boxes",
        "words in their order, no boxes",
        "documents",
        {"skim_input": "position", "contextualize_layout": False},
    ),
)


def run_demo(
    output: Path,
    seed: int = 0,
    epochs: int | None = None,
    console: Console | None = None,
    record: Path | None = None,
) -> None:
    """
    Make documents, train three models of one size on them, compare these, and extract the fields of one document.

    Args:
        output: folder for everything. What is complete there is not made again.
        seed: seed of documents and training.
        epochs: passes over the training documents; those of the recipe when None.
        console: where to print.
        record: folder to write the comparison to as a record of results; not written when None.
    """
    console = console or make_console()
    started = time.time()
    # So small a model gains little from a second thread, and loses much where other work shares the cores.
    torch.set_num_threads(1)
    console.rule("1. Documents")
    make_corpus(output / "pdfs", num_train=NUM_TRAIN, num_test=NUM_TEST, seed=seed)
    splits = {split: read_corpus(output / "pdfs", split) for split in ("train", "test")}
    for split, documents in splits.items():
        write_json_lines(output / "documents" / f"{split}.jsonl", documents)
        write_json_lines(output / "shuffled" / f"{split}.jsonl", shuffle_boxes(documents, seed))
        pages = sum(document.num_pages for document, _ in documents)
        console.print(f"{split}: {len(documents)} PDF files, {pages} pages, read back from {output / 'pdfs' / split}")

    results = {}
    for number, (name, sees, data, changes) in enumerate(CONTESTANTS, start=2):
        console.rule(f"{number}. A Skimformer that sees {sees}")
        results[name] = train(output / name, output / data, seed, epochs, changes, console)

    console.rule("5. Held-out documents, whose templates name and order the fields differently")
    console.print(comparison(results))
    if record is not None:
        console.print(f"Recorded in {write_record(record, make_record(results, seed))}")

    console.rule("6. The fields of one of them")
    extractor = FieldExtractor.from_pretrained(output / "layout")
    source = longest(document for document, _ in splits["test"])
    document = read_pdf(source)
    entities = extractor(document).entities
    print_fields(Path(source), document, entities)
    picture = output / "fields.png"
    save_pages(annotate_pages(document, entities), picture)
    console.print(f"The same on the page: {picture}")
    console.print(f"Your own files: broadsheet extract FILE.pdf --model {output / 'layout'} --picture fields.png")
    console.print(f"{time.time() - started:.0f} seconds.")


def train(
    output: Path, data: Path, seed: int, epochs: int | None, changes: dict[str, Any], console: Console
) -> dict[str, Any]:
    """One training run by the recipe `demo`; its results, read again where the folder has them already."""
    argv = ["demo", "--data_dir", str(data), "--output_dir", str(output), "--seed", str(seed), "--overwrite"]
    if epochs is not None:
        argv += ["--num_train_epochs", str(epochs)]
    kinds = [RunArguments, DataArguments, ModelArguments, FamilyTrainingArguments]
    run_arguments, data_arguments, model_arguments, training_arguments = parse(
        kinds, argv, "broadsheet demo", "One of the demo's models."
    )
    settings = {**parse_settings(model_arguments.config_overrides, "config_overrides"), **changes}
    model_arguments.config_overrides = json.dumps(settings)
    command = [*argv, settings]
    recorded, results = output / "command.json", output / "results.json"
    if results.exists() and recorded.exists() and json.loads(recorded.read_text()) == command:
        console.print(f"{output} is complete; delete it to train again.")
        return json.loads(results.read_text())
    measured = finetune(run_arguments, data_arguments, model_arguments, training_arguments)
    recorded.write_text(json.dumps(command))
    return measured


def comparison(results: dict[str, dict[str, Any]]) -> Table:
    """Entity precision, recall and F1 of the contestants, F1 with its interval."""
    table = Table()
    headings, *rows = comparison_cells(results)
    table.add_column(headings[0])
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def comparison_cells(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The comparison as text: headings, then a row for each contestant."""
    rows = [["the model sees", "precis.", "recall", "F1", "95 % of F1", "parameters", "training"]]
    for name, sees, _, _ in CONTESTANTS:
        metrics, budget = results[name]["metrics"]["test"], results[name]["budget"]
        low, high = metrics["interval"]["f1"]
        scores = [f"{metrics[key]:.3f}" for key in ("precision", "recall", "f1")]
        interval, seconds = f"{low:.3f}-{high:.3f}", f"{budget['training_time_s']:.0f} s"
        rows.append([sees, *scores, interval, f"{results[name]['parameters']:,}", seconds])
    return rows


def make_record(results: dict[str, dict[str, Any]], seed: int) -> Record:
    """The comparison as a record of results."""
    headings, *rows = comparison_cells(results)
    return Record(
        name="demo",
        title="The demo: fields of business documents whose templates name and order them differently",
        kind="table",
        command="broadsheet demo --record",
        date=today(),
        data=f"{NUM_TRAIN} made documents to train on, {NUM_TEST} of held-out templates",
        budget={name: result["budget"] for name, result in results.items()},
        seeds=[seed],
        environment=describe_environment(),
        measurements={name: result["metrics"]["test"] for name, result in results.items()},
        tables=[ResultTable("Entity precision, recall and F1 (strict) on the held-out documents.", headings, rows)],
        notes=["The model without boxes attends by the words' places in the sequence and has no layout tables."],
    )


def write_json_lines(path: Path, documents: Iterable[tuple[Document, list[str]]]) -> None:
    """Write documents and their labels (IOB2) in the format of dataset `json_entities`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for document, labels in documents:
        entities = [
            {"type": label, "word_ids": list(range(start, end))} for label, start, end in decode_entities(labels)
        ]
        lines.append(json.dumps({**document.to_dict(), "entities": entities}))
    temporary = path.with_suffix(".part")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def shuffle_boxes(documents: Iterable[tuple[Document, list[str]]], seed: int) -> list[tuple[Document, list[str]]]:
    """The documents with the boxes of each page dealt out to its words anew."""
    shuffler = random.Random(seed)
    shuffled = []
    for document, labels in documents:
        row = document.to_dict()
        for page in range(document.num_pages):
            word_ids = document.word_ids_of_page(page)
            boxes = [document.boxes[word] for word in word_ids]
            shuffler.shuffle(boxes)
            for word, box in zip(word_ids, boxes, strict=True):
                row["boxes"][word] = box
        shuffled.append((Document.from_dict(row), labels))
    return shuffled


def longest(documents: Iterable[Document]) -> str:
    """The file of the first document with the most pages."""
    document = max(documents, key=lambda document: document.num_pages)
    assert document.source is not None
    return document.source
