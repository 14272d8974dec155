"""
Corpora prepared once: Parquet files of the windows that a model reads, with what is costly (neighbours, graphs).

    broadsheet prepare finetune long_layoutlm_small --dataset document_classes --data_dir DATA --output_dir PREPARED
    broadsheet finetune long_layoutlm_small --prepared_dir PREPARED --output_dir RUN

`prepare finetune` takes what `finetune` takes, `prepare pretrain` what `pretrain` takes, the same recipes too; what is
about training alone is passed over. A prepared folder is read memory-mapped, a window at a time.
"""

import dataclasses
import json
import os
import shutil
from typing import Any, NamedTuple

from datasets import Dataset

from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import ModelArguments, recorded_options
from broadsheet.training.building import build, load_processor
from broadsheet.training.runs import write_json

FACTS = "prepared.json"
_FORMAT = 1


class Prepared(NamedTuple):
    """Documents and windows by split, the processor that made the windows, and what `prepared.json` says."""

    documents: dict[str, Dataset]
    windows: dict[str, Dataset]
    processor: Any
    facts: dict[str, Any]


def check_empty(folder: str | None, overwrite: bool) -> str:
    """The folder to prepare in. Raises `InputError` where it is in use, or none is named."""
    if not folder:
        raise InputError("There is no folder to write to; set --output_dir.")
    if os.path.isdir(folder) and os.listdir(folder) and not overwrite:
        raise InputError(f"The output folder {folder} is not empty; set --overwrite to replace it, or name another.")
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.isfile(os.path.join(folder, FACTS)):
        raise InputError(
            f"The output folder {folder} holds other files than a prepared corpus (it has no {FACTS}), which "
            "--overwrite would delete; name another."
        )
    return os.path.abspath(folder)


def write_prepared(
    folder: str,
    documents: dict[str, Dataset],
    windows: dict[str, Dataset],
    processor: Any,
    model_type: str,
    purpose: dict[str, Any],
    data: Any,
) -> None:
    """
    Write a prepared folder, beside its place first and then into it, so that a broken run leaves none.

    Args:
        folder: where; what was there is replaced.
        documents: rows to measure by, by split.
        windows: what the task's `encode` made of them.
        processor: what it was made by.
        model_type: whose processor that is.
        purpose: what the windows are for: `task`, and `scheme`, or what else they depend on.
        data: the data arguments.
    """
    beside = f"{folder}.partial"
    shutil.rmtree(beside, ignore_errors=True)
    os.makedirs(beside)
    processor.save_pretrained(beside)
    for name in windows:
        documents[name].to_parquet(os.path.join(beside, f"documents-{name}.parquet"))
        windows[name].to_parquet(os.path.join(beside, f"windows-{name}.parquet"))
    facts: dict[str, Any] = {
        "format": _FORMAT,
        "model_type": model_type,
        "purpose": purpose,
        "splits": {name: {"documents": len(documents[name]), "windows": len(windows[name])} for name in windows},
        "builders": {name: part.info.builder_name for name, part in documents.items()},
        "data": _told({name: value for name, value in dataclasses.asdict(data).items() if name not in _OWN}),
    }
    write_json(os.path.join(beside, FACTS), facts)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(beside, folder)
    counts = ", ".join(
        f"{part['documents']} {name} ({part['windows']} windows)" for name, part in facts["splits"].items()
    )
    print(f"Prepared documents: {counts}. They are in {folder}; train with --prepared_dir {folder}.")


_OWN = ("prepared_dir", "num_proc", "cache_dir")
"""Data arguments that do not change what was prepared."""


def _told(settings: dict[str, Any]) -> dict[str, Any]:
    """Data arguments as `prepared.json` tells them: the options of the dataset in one spelling, without passwords."""
    options = recorded_options(settings["dataset_options"])
    return {**settings, "dataset_options": json.dumps(options) if options else None}


def read_prepared(folder: str, purpose: dict[str, Any], data: Any) -> Prepared:
    """
    Open a prepared folder, and let the data arguments say what it was prepared with.

    Raises:
        InputError: where it is none, was prepared for something else, or with other settings than those given.
    """
    try:
        with open(os.path.join(folder, FACTS), encoding="utf-8") as stream:
            facts = json.load(stream)
    except (OSError, json.JSONDecodeError):
        raise InputError(
            f"{folder} is no prepared folder (it has no {FACTS} that can be read); make one with broadsheet prepare."
        ) from None
    if facts.get("format") != _FORMAT:
        raise InputError(f"{folder} was prepared by another version of Broadsheet; prepare it again.")
    for name, wanted in purpose.items():
        if facts["purpose"].get(name) != wanted:
            raise InputError(
                f"{folder} was prepared for {name} {facts['purpose'].get(name)}, not {wanted}; set that, or prepare "
                "the corpus again."
            )
    defaults, settings = type(data)(), _told(dataclasses.asdict(data))
    for name, used in _told(facts["data"]).items():
        given = settings[name]
        if given != used and given != getattr(defaults, name):
            raise InputError(
                f"{folder} was prepared with {name}={used!r}, but {given!r} is set; leave {name} out, or prepare the "
                "corpus again."
            )
        setattr(data, name, used)
    documents, windows = {}, {}
    for name in facts["splits"]:
        documents[name], windows[name] = (
            Dataset.from_parquet(os.path.join(folder, f"{kind}-{name}.parquet"), cache_dir=data.cache_dir)
            for kind in ("documents", "windows")
        )
        documents[name].info.builder_name = facts["builders"][name]
    return Prepared(documents, windows, load_processor(folder, facts["model_type"]), facts)


def load_prepared(
    data: Any, model: ModelArguments, task: Any, purpose: dict[str, Any], checkpoint: str | None
) -> tuple[dict[str, Dataset], dict[str, Dataset], Any, Any]:
    """
    Documents and windows of `data.prepared_dir`, the model and its processor, which has to be the folder's.

    Raises:
        InputError: as `read_prepared` and `build`, or where the model reads windows of another kind.
    """
    prepared = read_prepared(data.prepared_dir, purpose, data)
    labels = task.labels(prepared.documents["train"]) if hasattr(task, "labels") else []
    if model.model_name_or_path is None and model.tokenizer_name is None:
        model = dataclasses.replace(model, tokenizer_name=data.prepared_dir)
    network, processor = build(model, task, labels, (), checkpoint, data.max_length)
    _check_processor(processor, prepared.processor, data.prepared_dir)
    return prepared.documents, prepared.windows, network, processor


def _check_processor(ours: Any, theirs: Any, folder: str) -> None:
    settings, used = ours.to_dict(), theirs.to_dict()
    differing = [name for name in sorted({*settings, *used}) if settings.get(name) != used.get(name)]
    if ours.tokenizer.get_vocab() != theirs.tokenizer.get_vocab():
        differing.append("tokenizer")
    if differing:
        raise InputError(
            f"{folder} was prepared by a processor of another {', '.join(differing)} than this model's; prepare the "
            "corpus for this model."
        )
