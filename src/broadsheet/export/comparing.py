"""An exported encoder beside the model it came from: the same labels, and how long each takes for a page."""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from broadsheet.dataset_scripts import load_dataset
from broadsheet.export.exporting import export_model
from broadsheet.export.running import ExportedEncoder
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.evaluate import trained_with, training_options
from broadsheet.training.task_choice import make_task
from broadsheet.training.tasks import TokenClassification, merged_predictions

NAMES = {"torch": "torch", "onnx": "ONNX", "int8": "ONNX, int8"}
Pages = list[dict[str, torch.Tensor]]


def compare(model: Any, processor: Any, arguments: argparse.Namespace) -> Record:
    """
    Export a token classifier to `onnx` and `int8` in the folder, and measure both beside it on labelled documents.

    All run with torch's number of threads, one document's windows at a time. The three runtimes take turns at each
    document, so that what slows the machine down slows all of them down.

    Args:
        model: a token classifier of the family, float32.
        processor: its processor.
        arguments: `model`, `folder`, `compare` (the corpus' name), `data_dir`, `split`, `repetitions`, `length`.

    Returns:
        The record, named `onnx_CORPUS-small`.

    Raises:
        InputError: for a model with another head, or data whose labels it does not know.
    """
    trained = trained_with(arguments.model)
    options = training_options(trained)
    task: Any = make_task(TokenClassification.name, options["scheme"])
    if not type(model).__name__.endswith(task.auto_model.__name__.removeprefix("AutoModel")):
        raise InputError(f"{type(model).__name__} does not label words; compare a model for token classification.")
    documents = load_dataset(arguments.compare, data_dir=arguments.data_dir, split=arguments.split)
    id2label = {int(index): name for index, name in model.config.id2label.items()}
    windows = task.encode(documents, processor, id2label, {"clip_boxes": True, "num_proc": None, **options})
    pages = batches(windows, processor)
    runtimes: dict[str, Callable[..., Any]] = {"torch": model.eval()}
    for form in ("onnx", "int8"):
        export_model(model, processor, Path(arguments.folder) / form, form, arguments.length)
        runtimes[form] = ExportedEncoder(Path(arguments.folder) / form, threads=torch.get_num_threads())
    logits, seconds = run_in_turns(runtimes, pages, arguments.repetitions)
    found, scores = {}, {}
    for name, rows in logits.items():
        outputs = np.full((len(windows), max(row.shape[1] for row in rows), len(id2label)), -1e9, dtype=np.float32)
        start = 0
        for row in rows:
            outputs[start : start + len(row), : row.shape[1]] = row
            start += len(row)
        results = merged_predictions(outputs, windows, documents, processor, id2label, task.decoder(id2label))
        found[name] = [label for result in results for label in result.labels]
        scores[name] = task.measure(outputs, windows, documents, processor, id2label, 1000, 0)
    measurements = {
        name: {
            "same_labels": statistics.fmean(a == b for a, b in zip(found[name], found["torch"], strict=True)),
            "f1": scores[name]["f1"],
            "f1_interval": scores[name]["interval"]["f1"],
            "f1_difference": scores[name]["f1"] - scores["torch"]["f1"],
            "largest_logit_difference": max(
                float(np.abs(one - other).max()) for one, other in zip(logits[name], logits["torch"], strict=True)
            ),
            **{
                f"page_{clock}": {
                    "ms": summary([1000 * value for value in values[name]]),
                    "over_torch": summary(
                        [own / peer for own, peer in zip(values[name], values["torch"], strict=True)]
                    ),
                }
                for clock, values in seconds.items()
            },
            "mebibytes": size_of(model, Path(arguments.folder), name) / 2**20,
        }
        for name in runtimes
    }
    return _record(arguments, model, trained, options, documents, windows, found["torch"], measurements)


def batches(windows: Any, processor: Any) -> Pages:
    """The windows of each document as one batch `[windows, length, ...]`, documents in their order."""
    columns = [name for name in processor.tensor_specs() if name in windows.column_names and name != "labels"]
    documents: dict[int, list[dict[str, Any]]] = {}
    for place, row in zip(windows["document"], windows.select_columns(columns).to_list(), strict=True):
        documents.setdefault(place, []).append(row)
    collate = LayoutDataCollator(processor)
    return [dict(collate(rows)) for rows in documents.values()]


def run_in_turns(
    runtimes: dict[str, Callable[..., Any]], pages: Pages, repetitions: int
) -> tuple[dict[str, list[np.ndarray]], dict[str, dict[str, list[float]]]]:
    """
    Returns:
        The logits of each page by runtime, float32 `[windows, length, labels]`; and by clock and runtime the median of
        each page's repetitions in seconds, the first run of each page not counted. "wall" is the time that passed,
        "cpu" what the process' threads were given of it, on a busy machine the steadier one.
    """
    logits: dict[str, list[np.ndarray]] = {name: [] for name in runtimes}
    seconds: dict[str, dict[str, list[float]]] = {clock: {name: [] for name in runtimes} for clock in ("wall", "cpu")}
    with torch.inference_mode():
        for page in pages:
            for name, run in runtimes.items():
                logits[name].append(run(**page).logits.numpy())
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in runtimes}
            for _ in range(repetitions):
                for name, run in runtimes.items():
                    wall, cpu = time.perf_counter(), time.process_time()
                    run(**page)
                    times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
            for name, pairs in times.items():
                for clock, values in zip(seconds, zip(*pairs, strict=True), strict=True):
                    seconds[clock][name].append(statistics.median(values))
    return logits, seconds


def summary(values: list[float]) -> dict[str, Any]:
    """The median over pages, with quartiles."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"median": statistics.median(values), "quartiles": [quartiles[0], quartiles[2]]}


def size_of(model: Any, folder: Path, name: str) -> int:
    """Bytes of the weights, of a graph with its weights."""
    if name == "torch":
        return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return sum(file.stat().st_size for file in (folder / name).glob("model.onnx*"))


def comparison_table(
    measurements: dict[str, Any], documents: int, words: int, repetitions: int, scheme: str
) -> ResultTable:
    """What RESULTS.md shows of the measurements."""
    rows = [
        [
            NAMES[name],
            f"{row['same_labels']:.2%}",
            f"{row['f1']:.4f}",
            f"{row['page_cpu']['ms']['median']:.1f}",
            f"{row['page_cpu']['over_torch']['median']:.2f}",
            f"{row['page_wall']['over_torch']['median']:.2f}",
            f"{row['mebibytes']:.1f}",
        ]
        for name, row in measurements.items()
    ]
    return ResultTable(
        caption=(
            f"{documents} documents, {words} words. Of each document the median of {repetitions} turns, the model "
            "alone; of these, and of their ratios, the median over the documents."
        ),
        columns=[
            "",
            "words labelled as by torch",
            "macro F1 of words" if scheme == "plain" else "entity F1",
            "processor ms a page",
            "processor time over torch's",
            "time over torch's",
            "MiB",
        ],
        rows=rows,
    )


def _record(
    arguments: argparse.Namespace,
    model: Any,
    trained: dict[str, Any],
    options: dict[str, Any],
    documents: Any,
    windows: Any,
    words: list[str],
    measurements: dict[str, Any],
) -> Record:
    import onnxruntime

    corpus = arguments.compare
    start = Path(str(trained.get("start") or "")).name
    return Record(
        name=f"onnx_{corpus}-small",
        title=f"A fine-tuned {model.config.model_type} in torch, ONNX and int8 ONNX: {corpus.upper()}",
        kind="table",
        command=f"broadsheet export MODEL OUT --compare {corpus} --data_dir DATA --record",
        date=today(),
        data={
            "name": corpus,
            "split": arguments.split,
            "documents": len(documents),
            "words": len(words),
            "windows": len(windows),
            **options,
        },
        budget={
            "repetitions": arguments.repetitions,
            "model": {
                "type": model.config.model_type,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "start": start or None,
                "training": trained.get("budget"),
            },
        },
        seeds={"training": trained.get("seeds"), "bootstrap": 0},
        environment={**describe_environment(), "onnxruntime": onnxruntime.__version__},
        measurements=measurements,
        tables=[
            comparison_table(measurements, len(documents), len(words), arguments.repetitions, options["scheme"]),
        ],
        notes=[
            f"MODEL is what `broadsheet finetune` wrote{f' from {start}' if start else ''}; OUT gets both graphs. "
            "int8: weights of the matrix products in 8 bits with a scale for each output, activations quantised "
            "as they come."
        ],
    )
