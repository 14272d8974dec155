"""`broadsheet graph FILE [--picture PNG]`, with a FormNet `--model DIR --select TEXT` or `--word 17`."""

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from broadsheet.consoles import make_console
from broadsheet.documents import Document, read_document
from broadsheet.maps.graph import HeadMapper, document_graph, draw_graph, draw_heads
from broadsheet.maps.selection import select_text
from broadsheet.tokenization.input_checks import InputError
from broadsheet.visualization import save_pages


def graph_command(
    file: Path,
    picture: Path | None = None,
    model: str | None = None,
    select: str | None = None,
    word: int | None = None,
    layer: int = -1,
    as_json: bool = False,
    console: Console | None = None,
    password: str | None = None,
) -> None:
    """
    Print and draw the beta-skeleton of a document's words, or what a FormNet's heads attend to from one word.

    Args:
        file: the document.
        picture: where to write the pages.
        model: a FormNet, to draw attention instead of the graph.
        select: choose the word that begins a text.
        word: choose a word by its number.
        layer: the layer whose heads are drawn.
        as_json: print JSON instead of a table.
        console: where the table goes.
        password: opens an encrypted PDF file.

    Raises:
        InputError: a model without a word, or a word without a model; or what is chosen is not there.
    """
    console = console or make_console()
    if (model is None) != (select is None and word is None) or (select is not None and word is not None):
        raise InputError(
            "Attention needs a model and one word: give --model with either --select TEXT or --word NUMBER, or none "
            "of them for the graph."
        )
    document = read_document(file, password=password)
    if model is None:
        graph = document_graph(document)
        if as_json:
            print(json.dumps({"file": str(file), **graph.to_dict()}))
        else:
            console.print(_graph_table(document, graph.edges, graph.neighbors))
        if picture is not None:
            save_pages(draw_graph(document, graph, password=password), picture)
        return
    chosen = word if select is None else select_text(document, select)[0]
    assert chosen is not None
    attention = HeadMapper.from_pretrained(model)(document, chosen, layer)
    if as_json:
        rows = [[None if np.isnan(value) else round(float(value), 8) for value in row] for row in attention]
        print(json.dumps({"file": str(file), "word": chosen, "layer": layer, "heads": rows}))
    else:
        console.print(_heads_table(document, chosen, attention))
    if picture is not None:
        pictures = draw_heads(document, chosen, attention, password)
        save_pages(pictures, picture, max_pages=len(pictures))


def _graph_table(document: Document, edges: np.ndarray, neighbors: np.ndarray) -> Table:
    table = Table()
    for heading in ("page", "words", "edges", "neighbours, mean", "most"):
        table.add_column(heading, justify="right")
    counts = (neighbors >= 0).sum(axis=1)
    for page in range(document.num_pages):
        words = document.word_ids_of_page(page)
        own = counts[words]
        numbers = (page + 1, len(words), int(np.isin(edges[:, 0], words).sum()))
        mean, most = (f"{own.mean():.2f}", str(own.max())) if len(words) else ("", "")
        table.add_row(*map(str, numbers), mean, most)
    return table


def _heads_table(document: Document, word: int, attention: np.ndarray, top: int = 3) -> Table:
    table = Table(title=f"What “{document.words[word]}” (word {word}) attends to most", title_justify="left")
    table.add_column("head", justify="right")
    table.add_column("words")
    for head, row in enumerate(attention):
        best = np.argsort(-np.nan_to_num(row))[:top]
        table.add_row(str(head), ", ".join(f"{document.words[index]} {100 * row[index]:.3g} %" for index in best))
    return table


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="broadsheet graph", description=__doc__)
    parser.add_argument("file", type=Path, help="the document: PDF, hOCR, ALTO, Tesseract TSV, or an image")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="write the pages with the graph, as .png or .pdf")
    parser.add_argument("--model", metavar="DIR", help="a FormNet: draw what its heads attend to instead")
    parser.add_argument("--select", metavar="TEXT", help="attend from the first word of this text")
    parser.add_argument("--word", type=int, metavar="NUMBER", help="attend from this word, counted from 0")
    parser.add_argument("--layer", type=int, default=-1, help="the layer whose heads are drawn (default: the last)")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    parser.add_argument("--password", help="opens an encrypted PDF file")
    arguments = parser.parse_args(argv)
    graph_command(**vars(arguments))
    return 0
