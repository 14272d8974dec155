"""
Measure a saved model on a split of a dataset.

    python -m broadsheet.training.evaluate --model_name_or_path OUT --dataset funsd --data_dir FUNSD --json OUT.json
"""

import json
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from transformers import Trainer, TrainingArguments
from transformers.utils import cached_file

from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import EvaluationArguments, parse
from broadsheet.training.building import load
from broadsheet.training.preparation import has_answers, load_split
from broadsheet.training.runs import environment, exit_with_sentence, start_logging, write_json
from broadsheet.training.task_choice import make_task
from broadsheet.training.tasks import metric_table

_DEFAULTS = {"scheme": "IOB2", "box_level": "word", "max_length": 512, "stride": 64}


@exit_with_sentence
def main(argv: Sequence[str] | None = None) -> None:
    """Measure a model as the arguments say, print a table, and write JSON."""
    description = "Measure a saved model on a split of a dataset."
    (arguments,) = parse([EvaluationArguments], argv, "broadsheet evaluate", description)
    results = evaluate(arguments)
    print(metric_table(results["metrics"]))
    if arguments.json:
        write_json(arguments.json, results)
        print(f"Written to {arguments.json}.")


def evaluate(arguments: EvaluationArguments) -> dict[str, Any]:
    """
    Measure a model.

    Returns:
        `metrics` with intervals, and what they depend on.

    Raises:
        InputError: for a model or data that do not fit the task or each other.
    """
    started = time.time()
    start_logging()
    if arguments.model_name_or_path is None:
        raise InputError("There is no model to measure; set --model_name_or_path.")
    trained = training_options(trained_with(arguments.model_name_or_path))
    options: dict[str, Any] = {"clip_boxes": arguments.clip_boxes, "num_proc": arguments.num_proc}
    for name, value in trained.items():
        given = getattr(arguments, name)
        options[name] = value if given is None else given
    task = make_task(arguments.task, options["scheme"])
    network, processor = load(arguments.model_name_or_path, task)
    documents = load_split(arguments, arguments.split)
    if not has_answers(documents, task.answers):
        raise InputError(
            f"Split {arguments.split!r} of dataset {arguments.dataset!r} comes without labels; measure on another, "
            "or where the model was trained with --dataset_options held_out=0.2, set that and --split held_out."
        )
    id2label = {int(index): name for index, name in network.config.id2label.items()}
    windows = task.encode(documents, processor, id2label, options)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=network,
            args=TrainingArguments(
                output_dir=folder,
                per_device_eval_batch_size=arguments.batch_size,
                report_to="none",
                use_cpu=arguments.use_cpu,
            ),
            data_collator=LayoutDataCollator(processor),  # type: ignore[arg-type]
        )
        logits: Any = trainer.predict(windows).predictions  # type: ignore[arg-type]
        device = trainer.args.device
    metrics = task.measure(
        logits, windows, documents, processor, id2label, arguments.bootstrap_samples, arguments.seed
    )
    return {
        "model": arguments.model_name_or_path,
        "model_type": network.config.model_type,
        "task": task.name,
        "metrics": metrics,
        "data": {
            "name": arguments.dataset,
            "split": arguments.split,
            "documents": len(documents),
            "windows": len(windows),
            **{name: options[name] for name in (*trained, "clip_boxes")},
        },
        "seeds": {"bootstrap": arguments.seed},
        "environment": environment(device),
        "wall_time_s": round(time.time() - started, 1),
    }


def trained_with(path: str) -> dict[str, Any]:
    """The results.json of a model in a folder or on the Hub; nothing where it has none, or none that can be read."""
    try:
        file = cached_file(path, "results.json")
        if file is None:
            return {}
        with open(file, encoding="utf-8") as stream:
            results = json.load(stream)
    except (OSError, ValueError):
        return {}
    return results if isinstance(results, dict) else {}


def training_options(results: dict[str, Any]) -> dict[str, Any]:
    """Scheme and cut of the documents in training, as its results.json says; where it does not, the defaults."""
    data = results.get("data")
    known = data if isinstance(data, dict) else {}
    return {name: known.get(name, default) for name, default in _DEFAULTS.items()}


if __name__ == "__main__":
    main()
