"""`broadsheet attention FILE --model DIR --select TEXT | --words 3-17 | --label author`."""

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from broadsheet.consoles import make_console
from broadsheet.documents import Document, read_document
from broadsheet.maps.attention import AttentionMap, SkimMapper
from broadsheet.maps.picture import draw_attention, percent
from broadsheet.maps.selection import select_label, select_text, select_words
from broadsheet.tokenization.input_checks import InputError
from broadsheet.visualization import save_pages

TEXT_LENGTH = 60  # characters of a block that the table shows


def attention_command(
    file: Path,
    model: str,
    select: str | None = None,
    words: str | None = None,
    label: str | None = None,
    picture: Path | None = None,
    as_json: bool = False,
    max_length: int | None = None,
    top: int = 12,
    console: Console | None = None,
    password: str | None = None,
) -> AttentionMap:
    """
    Print what chosen words of a document attend to, and draw it if asked to.

    Args:
        file: the document.
        model: a Skimformer, LongSkimformer or SkimmingMask; for `label` one that labels words.
        select: choose the words of a text.
        words: choose words by their numbers.
        label: choose the words that the model gives a label.
        picture: where to write the pages with the map on them.
        as_json: print JSON instead of a table.
        max_length: tokens of a window.
        top: how many blocks the table shows.
        console: where the table goes.
        password: opens an encrypted PDF file.

    Raises:
        InputError: not exactly one way to choose is given, or what is chosen is not there.
    """
    given = [name for name, value in (("--select", select), ("--words", words), ("--label", label)) if value]
    if len(given) != 1:
        told = f"you gave {' and '.join(given)}" if given else "you gave none"
        raise InputError(f"Choose words by one of --select TEXT, --words 3-17 or --label NAME; {told}.")
    document = read_document(file, password=password)
    if select:
        chosen, caption = select_text(document, select), f"“{select}”"
    elif words:
        chosen, caption = select_words(document, words), f"words {words}"
    else:
        assert label is not None
        chosen, caption = select_label(document, label, model), f"words labelled {label}"
    attention = SkimMapper.from_pretrained(model, max_length=max_length)(document, chosen)
    if as_json:
        print(json.dumps({"file": str(file), **attention.to_dict()}))
    else:
        (console or make_console()).print(blocks_table(document, attention, caption, top))
    if picture is not None:
        save_pages(draw_attention(document, attention, caption, password=password), picture)
    return attention


def blocks_table(document: Document, attention: AttentionMap, caption: str, top: int) -> Table:
    """The blocks that get most, with the mean of their tokens and what all of them get together."""
    seen = [block for block in attention.blocks if block.mean == block.mean]
    seen.sort(key=lambda block: -block.mean)
    title = f"What {caption} attend to: the first {min(top, len(seen))} of {len(seen)} blocks"
    table = Table(title=title, title_justify="left")
    table.add_column("text")
    for heading in ("page", "mean of a token", "together"):
        table.add_column(heading, justify="right")
    chosen = set(attention.selected)
    for block in seen[:top]:
        text = " ".join(document.words[index] for index in block.word_ids)
        text = text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 3] + "..."
        mark = "* " if chosen & set(block.word_ids) else ""
        table.add_row(mark + text, str(block.page + 1), percent(block.mean), percent(block.total))
    window = "one window" if attention.windows == 1 else f"{attention.windows_averaged} of {attention.windows} windows"
    table.caption = f"* holds chosen words; special tokens get {percent(attention.special)}; {window}"
    return table


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="broadsheet attention", description=__doc__)
    parser.add_argument("file", type=Path, help="the document: PDF, hOCR, ALTO, Tesseract TSV, or an image")
    parser.add_argument(
        "--model", required=True, help="a Skimformer or its like: a folder, or a repository of the Hub"
    )
    parser.add_argument("--select", metavar="TEXT", help="choose every place where this text stands")
    parser.add_argument("--words", metavar="3-17", help="choose words by their numbers, counted from 0")
    parser.add_argument("--label", metavar="NAME", help="choose the words that the model gives this label")
    parser.add_argument("--picture", type=Path, help="write the pages with the map on them: .png or .pdf")
    parser.add_argument("--json", action="store_true", help="print the numbers of all words and blocks as JSON")
    parser.add_argument("--max-length", type=int, help="tokens of a window; the model's limit, or 2048")
    parser.add_argument("--top", type=int, default=12, help="how many blocks the table shows")
    parser.add_argument("--password", help="opens an encrypted PDF file")
    arguments = parser.parse_args(argv)
    attention_command(
        arguments.file,
        arguments.model,
        arguments.select,
        arguments.words,
        arguments.label,
        arguments.picture,
        arguments.json,
        arguments.max_length,
        arguments.top,
        password=arguments.password,
    )
    return 0
