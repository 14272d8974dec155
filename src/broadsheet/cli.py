"""The command line: `broadsheet --help`."""

import json
import logging
import sys
from enum import StrEnum
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from broadsheet.consoles import make_console, print_error
from broadsheet.documents import Document, InputError, read_document

app = typer.Typer(
    name="broadsheet",
    help="Models that read documents by their layout, and read them whole. Start with: broadsheet demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = make_console()

# The training commands hand their arguments on to the parser that `python -m broadsheet.training.finetune` uses too.
PASS_ON: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    "add_help_option": False,
}


class Ocr(StrEnum):
    """Which pages of a PDF file to read with Tesseract."""

    never = "never"
    empty_pages = "empty_pages"
    always = "always"


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the documents, the model and the pictures.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of documents and training.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training documents; the demo's own if omitted.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the comparison to results/demo.json too.")] = False,
) -> None:
    """Make business documents as PDFs, train a small Skimformer on them, extract the fields of one it never saw."""
    from broadsheet.demo.run import run_demo
    from broadsheet.results.record import results_folder

    folder = results_folder() if record else None
    run_demo(output, seed=seed, epochs=epochs, console=console, record=folder)


@app.command()
def extract(
    files: Annotated[list[Path], typer.Argument(help="The documents: PDF, hOCR, ALTO, Tesseract TSV, or images.")],
    model: Annotated[str, typer.Option(help="A fine-tuned model: a folder, or a repository of the Hub.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per document and line.")] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Write the pages with the fields drawn on them: a PNG file, or with several documents a folder."
        ),
    ] = None,
    ocr: Annotated[
        Ocr, typer.Option(help="Pages of PDF files to read with Tesseract: none, those without text, or all.")
    ] = Ocr.never,
    languages: Annotated[str, typer.Option(help="The text's languages, for Tesseract, as in eng+deu.")] = "eng",
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Leave out fields that score below this.")] = 0.0,
    max_length: Annotated[int | None, typer.Option(help="Tokens of a window; the tokenizer's own if omitted.")] = None,
    stride: Annotated[
        int | None, typer.Option(help="Tokens that neighbouring windows share; a quarter if omitted.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Windows in one forward pass.")] = 8,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU if there is one.")] = None,
    password: Annotated[str | None, typer.Option(help="Opens encrypted PDF files.")] = None,
) -> None:
    """
    Print the fields of documents, each with its page, box and score.

    A file that cannot be read is named on standard error, the others are done all the same, and the exit code is 2.
    """
    from broadsheet.extraction import FieldExtractor
    from broadsheet.visualization import annotate_pages, save_pages

    targets = picture_files(files, picture) if picture is not None else [None] * len(files)
    extractor = FieldExtractor.from_pretrained(
        model, max_length=max_length, stride=stride, batch_size=batch_size, device=device
    )
    failed = 0
    for path, target in _with_progress(list(zip(files, targets, strict=True))):
        try:
            document = read_document(path, ocr=ocr.value, languages=languages, password=password)
            result = extractor(document)
        except InputError as error:
            print_error(error)
            failed += 1
            continue
        entities = [entity for entity in result.entities if entity.score >= min_score]
        if as_json:
            print(json.dumps(fields_as_json(path, document, entities), ensure_ascii=False))
        else:
            print_fields(path, document, entities)
        if target is not None:
            save_pages(annotate_pages(document, entities, password=password), target)
            make_console(stderr=True).print(f"picture: {target}", soft_wrap=True)
    if failed:
        raise typer.Exit(2)


def _hand_on(command: str, module: str, text: str, group: typer.Typer = app, function: str = "main") -> None:
    """Add a command whose arguments go to a function of a module, which has a `--help` of its own."""

    def run(context: typer.Context) -> None:
        raise typer.Exit(getattr(import_module(module), function)(context.args) or 0)

    group.command(command, help=text, **PASS_ON)(run)


prepare = typer.Typer(
    help="Cut a corpus into the windows that a model reads, once, as Parquet files to train on.", no_args_is_help=True
)
app.add_typer(prepare, name="prepare")
for command, function in (("finetune", "main_finetune"), ("pretrain", "main_pretrain")):
    _hand_on(
        command,
        "broadsheet.training.prepare",
        f"For `broadsheet {command} --prepared_dir`: see `broadsheet prepare {command} --help`.",
        prepare,
        function,
    )
_hand_on(
    "finetune",
    "broadsheet.training.finetune",
    "Fine-tune a model on labelled documents, by a YAML recipe, flags, or both: see `broadsheet finetune --help`.",
)
_hand_on(
    "evaluate",
    "broadsheet.training.evaluate",
    "Measure a fine-tuned model on labelled documents, by entity type: see `broadsheet evaluate --help`.",
)
_hand_on(
    "pretrain",
    "broadsheet.training.pretrain",
    "Pre-train a model by masked language modelling on pages of documents: see `broadsheet pretrain --help`.",
)
_hand_on(
    "summarize",
    "broadsheet.training.summarize",
    "Train a summariser of long documents, and measure what it writes: see `broadsheet summarize --help`.",
)
_hand_on(
    "train-tokenizer",
    "broadsheet.training.tokenizer",
    "Train a tokenizer on documents or text: see `broadsheet train-tokenizer --help`.",
)
_hand_on(
    "attention",
    "broadsheet.maps.command",
    "Draw what chosen words of a document attend to, as numbers and on the page: see `broadsheet attention --help`.",
)
_hand_on(
    "graph",
    "broadsheet.maps.graph_command",
    "Draw FormNet's graph of a document's words, or what its heads attend to: see `broadsheet graph --help`.",
)
_hand_on(
    "masks",
    "broadsheet.masks.command",
    "Draw what LongLayoutLM's attention patterns let a document's words attend to: see `broadsheet masks --help`.",
)
_hand_on(
    "bench",
    "broadsheet.bench",
    "Measure the speed promises side by side with their peers: see `broadsheet bench --help`.",
)
_hand_on(
    "reproduce",
    "broadsheet.results.reproduce",
    "Run a paper's table, each row with its seeds, resumable, beside the paper's numbers: see `broadsheet reproduce "
    "--help`.",
)
_hand_on(
    "results",
    "broadsheet.results.publish",
    "Make RESULTS.md, and the numbers that README and cards quote, from results/*.json: see `broadsheet results "
    "--help`.",
)
_hand_on(
    "combine",
    "broadsheet.conversion.combining",
    "Make one model of two trained ones: a text encoder with a Skimformer's mask or layout embeddings.",
)
_hand_on(
    "push",
    "broadsheet.hub.command",
    "Push a saved model, processor or dataset to the Hub, with its code if asked: see `broadsheet push --help`.",
)
_hand_on(
    "export",
    "broadsheet.export.command",
    "Write a model as ONNX, int8 ONNX or torch.export, for any length: see `broadsheet export --help`.",
)
convert = typer.Typer(
    help="Convert others' checkpoints: released ones of the papers, BERT, RoBERTa, LayoutLM.", no_args_is_help=True
)
app.add_typer(convert, name="convert")
_hand_on(
    "skim-attention",
    "broadsheet.conversion.skim_attention",
    "Skim-Attention's released folders (Skimformer, LongSkimformer, SkimmingMask, BERT + SkimEmbeddings).",
    convert,
)
_hand_on(
    "pyramidion",
    "broadsheet.conversion.pyramidion",
    "Pyramidion's released fairseq checkpoints.",
    convert,
)
_hand_on(
    "lambert",
    "broadsheet.conversion.lambert",
    "A BERT or RoBERTa as a LAMBERT with the same outputs; --extend-positions for long inputs.",
    convert,
)
_hand_on(
    "long-layoutlm",
    "broadsheet.conversion.long_layoutlm",
    "A LayoutLM, BERT or RoBERTa as a LongLayoutLM that reads 4,096 tokens.",
    convert,
)


def fields_as_json(path: Path, document: Document, entities: list[Any]) -> dict[str, Any]:
    """A document's fields as plain data: boxes in page units, pages counted from 1, scores in 0..1."""
    return {
        "file": str(path),
        "page_sizes": [list(size) for size in document.page_sizes],
        "fields": [
            {
                "label": entity.label,
                "text": entity.text,
                "page": entity.page + 1,
                "score": round(entity.score, 4),
                "boxes": [[round(edge, 2) for edge in box] for box in entity.boxes],
                "words": entity.word_ids,
            }
            for entity in entities
        ],
    }


def print_fields(path: Path, document: Document, entities: list[Any]) -> None:
    """Print a document's fields as a table."""
    pages = f"{document.num_pages} page{'s' if document.num_pages != 1 else ''}"
    if not entities:
        console.print(f"{path}: no fields found", soft_wrap=True)
        return
    # Outside the table, whose title would be broken to the terminal's width.
    console.print(f"{path} ({pages}, {len(document)} words)", soft_wrap=True)
    table = Table()
    for heading in ("field", "text"):
        table.add_column(heading)
    for heading in ("page", "score"):
        table.add_column(heading, justify="right")
    for entity in entities:
        table.add_row(entity.label, entity.text, str(entity.page + 1), f"{entity.score:.3f}")
    console.print(table)


def picture_files(files: list[Path], picture: Path) -> list[Path]:
    """
    Where the documents' pictures go: of one to `picture`, of several into that folder, as a.png for a.pdf. The second
    of a name gets a number, as a-2.png, or the next that is free.

    Raises:
        InputError: the picture is of no known format, or the folder is a file.
    """
    from broadsheet.visualization import check_picture_suffix

    if len(files) == 1:
        check_picture_suffix(picture)
        return [picture]
    if picture.is_file():
        raise InputError(f"{picture} is a file, but there are {len(files)} documents; name a folder as --picture.")
    # Without case: some file systems make no difference.
    stems, given = {file.stem.casefold() for file in files}, set[str]()
    names = []
    for file in files:
        name = file.stem
        if name.casefold() in given:
            name = next(new for number in count(2) if (new := f"{file.stem}-{number}").casefold() not in stems | given)
        given.add(name.casefold())
        names.append(picture / f"{name}.png")
    return names


def _with_progress(documents: list[Any]) -> Any:
    if len(documents) < 2:
        return documents
    from tqdm.auto import tqdm

    return tqdm(documents, unit="document", disable=None)


def main(argv: list[str] | None = None) -> None:
    """Run a command. Unusable input ends with one sentence on standard error and exit code 2."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    try:
        app(argv)
    except InputError as error:
        print_error(error)
        sys.exit(2)
