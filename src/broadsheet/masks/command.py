"""
Show what LongLayoutLM's attention patterns let the words of a document attend to.

    broadsheet masks report.pdf
    broadsheet masks report.pdf --select "total amount" --neighbors 512 --output pictures
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from broadsheet.consoles import make_console, print_error
from broadsheet.documents import Document, read_document
from broadsheet.maps.selection import select_text
from broadsheet.masks.patterns import PATTERNS, PatternMask, pattern_masks
from broadsheet.masks.picture import draw_masks, draw_neighbors
from broadsheet.tokenization.input_checks import InputError
from broadsheet.visualization import save_pages


def masks_command(
    file: Path,
    output: Path,
    select: str | None = None,
    word: int | None = None,
    neighbors: int = 512,
    window: int = 512,
    length: int = 2048,
    console: Console | None = None,
    password: str | None = None,
) -> list[PatternMask]:
    """
    Print how much each pattern attends to, and write `masks.png` and `neighbors.png`.

    Args:
        file: the document.
        output: folder of the pictures.
        select: draw the neighbours of the first word of this text.
        word: or of the word of this number; by default of one in the middle.
        neighbors: nearest words of a word.
        window: words around a word.
        length: words shown at most.
        console: where the table goes.
        password: opens an encrypted PDF file.

    Raises:
        InputError: the word is not among those shown, a number is impossible, or the output is no folder.
    """
    if select is not None and word is not None:
        raise InputError("Choose the word by --select or by --word, not by both.")
    if output.is_file():
        raise InputError(f"{output} is a file, but there are two pictures to write; name a folder as --output.")
    document = read_document(file, password=password)
    masks = pattern_masks(document, neighbors, window, length)
    shown = len(masks[0].scores)
    if select is not None:
        word = select_text(document, select)[0]
    word = shown // 2 if word is None else word
    if not 0 <= word < shown:
        raise InputError(f"Word {word} is not among the {shown} words that are shown; pass another, or a --length.")
    console = console or make_console()
    console.print(masks_table(document, masks, word))
    output.mkdir(parents=True, exist_ok=True)
    draw_masks(masks).save(output / "masks.png")
    save_pages(draw_neighbors(document, masks, word, password), output / "neighbors.png")
    console.print(f"pictures: {output / 'masks.png'}, {output / 'neighbors.png'}", soft_wrap=True)
    return masks


def masks_table(document: Document, masks: list[PatternMask], word: int) -> Table:
    """For each pattern: how many words a word attends to, and how far off those of the chosen word stand."""
    pages, centers = np.asarray(document.page_ids), np.asarray(document.boxes).reshape(-1, 2, 2).mean(1)
    page = pages[word]
    table = Table(
        title=f"{len(masks[0].scores)} of {len(document)} words, each taken as one token; word {word} is "
        f"“{document.words[word]}” on page {page + 1}",
        title_justify="left",
    )
    for heading in ("pattern", "words attended to, mean", f"by word {word}", "of these on its page", "mean distance"):
        table.add_column(heading, justify="left" if heading == "pattern" else "right")
    for mask in masks:
        attended = np.flatnonzero(mask.scores[word])
        here = attended[pages[attended] == page]
        share = "-"
        if len(here):
            distance = np.linalg.norm(centers[here] - centers[word], axis=1).mean()
            share = f"{distance / document.page_sizes[page][0]:.2f} of the width"
        table.add_row(
            PATTERNS[mask.pattern],
            f"{mask.scores.sum(1).mean():.1f}",
            str(len(attended)),
            str(len(here)),
            share,
        )
    return table


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="broadsheet masks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the document: PDF, hOCR, ALTO, Tesseract TSV, or an image")
    parser.add_argument("--output", type=Path, default=Path("masks"), help="folder of the pictures (masks)")
    parser.add_argument("--select", metavar="TEXT", help="the word whose neighbours are drawn: the first of this text")
    parser.add_argument("--word", type=int, metavar="N", help="or the word of this number, counted from 0")
    parser.add_argument("--neighbors", type=int, default=512, help="nearest words of a word (512, as in Figure 2)")
    parser.add_argument("--window", type=int, default=512, help="words around a word (512)")
    parser.add_argument("--length", type=int, default=2048, help="words of the document at most (2048)")
    parser.add_argument("--password", help="opens an encrypted PDF file")
    arguments = parser.parse_args(argv)
    try:
        masks_command(
            arguments.file,
            arguments.output,
            arguments.select,
            arguments.word,
            arguments.neighbors,
            arguments.window,
            arguments.length,
            password=arguments.password,
        )
    except InputError as error:
        print_error(error)
        return 2
    return 0
