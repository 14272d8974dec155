"""
Pre-train a model by masked language modelling: one of the family, or one of transformers that it is compared with.

    python -m broadsheet.training.pretrain skim_pretrain_small --data_dir PDFS MORE_PDFS --output_dir OUT
    python -m broadsheet.training.pretrain skim_pretrain_small --model_type layoutlm ...
    accelerate launch -m broadsheet.training.pretrain skim_pretrain_paper --data_dir DOCBANK --output_dir OUT
"""

import inspect
import os
import time
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import set_seed

from broadsheet.metrics.perplexity import corpus_perplexity
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.masking import MaskedLMCollator
from broadsheet.training.arguments import ModelArguments, parse, recorded_options
from broadsheet.training.baselines import remarks
from broadsheet.training.building import build
from broadsheet.training.corpora import load_corpora
from broadsheet.training.masked_lm import CountEpochs, MaskedLM, MaskedLMTrainer, losses_and_counts
from broadsheet.training.preparation import encode
from broadsheet.training.prepared import load_prepared
from broadsheet.training.pretraining_arguments import CorpusArguments, PretrainingArguments, PretrainingSchedule
from broadsheet.training.pretraining_card import pretraining_card
from broadsheet.training.runs import (
    Interrupted,
    StopOnSignal,
    environment,
    exit_with_sentence,
    is_main_process,
    prepare_output_dir,
    start_logging,
    write_json,
    write_text,
)

_INTERRUPTED = 130
PURPOSE = {"task": MaskedLM.name}
_MASK_COLUMNS = ("token_word_ids",)


@exit_with_sentence
def main(argv: Sequence[str] | None = None) -> None:
    """Pre-train as the arguments say; see `pretrain`."""
    arguments = parse(
        [PretrainingArguments, CorpusArguments, ModelArguments, PretrainingSchedule],
        argv,
        "broadsheet pretrain",
        "Pre-train a model by masked language modelling on pages of documents, measure its perplexity, and save it "
        "with its processor, results.json and a model card.",
    )
    try:
        pretrain(*arguments)
    except Interrupted as interruption:
        if is_main_process():
            print(interruption)
        raise SystemExit(_INTERRUPTED) from None
    except KeyboardInterrupt:
        raise SystemExit("Stopped.") from None


def pretrain(
    run: PretrainingArguments, data: CorpusArguments, model: ModelArguments, training: PretrainingSchedule
) -> dict[str, Any]:
    """
    Train, measure, save.

    Returns:
        What `results.json` in `training.output_dir` holds: task, model, `metrics` of the validation and test split
        (perplexity, loss, with intervals over documents), `curve` of [step, validation perplexity], data, budget,
        seeds, environment, wall time.

    Raises:
        InputError: for arguments or data that do not fit, before training starts.
        Interrupted: after Ctrl-C, once a checkpoint is saved.
    """
    started = time.time()
    start_logging()
    output_dir = str(training.output_dir)
    if training.dataloader_persistent_workers:
        raise InputError("Persistent workers would repeat the masks of the first epoch; leave them out.")
    if training.label_smoothing_factor:
        raise InputError("label_smoothing_factor has no effect on masked language modelling; leave it out.")
    checkpoint = prepare_output_dir(output_dir, run.overwrite, training.resume_from_checkpoint)
    with training.main_process_first():
        set_seed(training.seed)
        texts, windows, network, processor = load_windows(data, model, checkpoint)
    windows = {name: _model_columns(part, network, run.whole_words) for name, part in windows.items()}
    rows_of = {name: part["document"] for name, part in windows.items()}
    windows = {name: part.remove_columns("document") for name, part in windows.items()}
    if "validation" not in windows:
        training.eval_strategy = type(training.eval_strategy)("no")
        training.load_best_model_at_end = False
    training.remove_unused_columns = False
    training.resume_from_checkpoint = checkpoint

    def collator(seed: int) -> MaskedLMCollator:
        return MaskedLMCollator(processor, run.mask_probability, run.whole_words, seed)

    stop, collate = StopOnSignal(), collator(training.seed)
    trainer = MaskedLMTrainer(
        model=network,
        args=training,
        train_dataset=windows["train"],
        eval_dataset=windows.get("validation"),
        processing_class=processor,
        data_collator=collate,
        eval_collator=collator(run.mask_seed),
        callbacks=[stop, CountEpochs(collate)],
    )
    try:
        trained = trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        stop.restore()

    trainer.save_model()
    trainer.compute_metrics = None
    metrics = {}
    for name in ("validation", "test"):
        if name in windows:
            output: Any = trainer.predict(windows[name], metric_key_prefix=name)
            groups = texts[name]["group"]
            metrics[name] = corpus_perplexity(
                *losses_and_counts(output.predictions, output.label_ids),
                [groups[row] for row in rows_of[name]],
                run.bootstrap_samples,
                seed=training.seed,
            )
    results = {
        "name": os.path.basename(os.path.abspath(output_dir)),
        "task": MaskedLM.name,
        "model_type": network.config.model_type,
        "start": model.model_name_or_path,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "config": network.config.to_diff_dict(),
        "remarks": remarks(network),
        "metrics": metrics,
        "curve": _curve(trainer.state.log_history),
        "data": {
            "name": " + ".join(data.dataset or []),
            "folders": [os.path.basename(os.path.normpath(folder)) for folder in data.data_dir or []],
            "options": recorded_options(data.dataset_options),
            "splits": {name: _size(texts[name], windows[name]) for name in windows},
            **{name: getattr(data, name) for name in ("unit", "validation_fraction", "test_fraction")},
            "box_level": "word",
            **{name: getattr(data, name) for name in ("max_length", "stride", "clip_boxes")},
        },
        "masking": {
            "probability": run.mask_probability,
            "whole_words": run.whole_words,
            "masked": MaskedLMCollator.mask_share,
            "random": MaskedLMCollator.random_share,
        },
        "budget": {
            "epochs": trainer.state.epoch or 0.0,
            "steps": trained.global_step,
            "batch_size": training.train_batch_size * training.gradient_accumulation_steps * training.world_size,
            "learning_rate": training.learning_rate,
            "schedule": str(getattr(training.lr_scheduler_type, "value", training.lr_scheduler_type)),
            "warmup_steps": training.warmup_steps,
            "weight_decay": training.weight_decay,
            "precision": "bfloat16" if training.bf16 else "float16" if training.fp16 else "float32",
            "training_loss": trained.training_loss,
            "training_time_s": round(trained.metrics.get("train_runtime", 0.0), 1),
        },
        "seeds": {
            "training": training.seed,
            "masks": run.mask_seed,
            "split": data.split_seed,
            "bootstrap": training.seed,
        },
        "environment": environment(training.device),
        "wall_time_s": round(time.time() - started, 1),
    }
    if trainer.is_world_process_zero():
        # A pickle of this run's settings, which nobody who loads the model needs.
        os.remove(os.path.join(output_dir, "training_args.bin"))
        _report(results, output_dir)
    return results


def load_windows(
    data: CorpusArguments, model: ModelArguments, checkpoint: str | None = None
) -> tuple[dict[str, Dataset], dict[str, Dataset], Any, Any]:
    """
    Texts and their windows by split, the model and its processor.

    The windows are made now, or were made before (`data.prepared_dir`, whose settings `data` takes over).

    Raises:
        InputError: for arguments or data that do not fit.
    """
    if data.prepared_dir is not None:
        return load_prepared(data, model, MaskedLM, PURPOSE, checkpoint)
    texts = load_corpora(data)
    words = (row["words"] for row in texts["train"].select_columns("words"))
    network, processor = build(model, MaskedLM, [], words, checkpoint, data.max_length)
    options: dict[str, Any] = {"box_level": "word"}
    options |= {name: getattr(data, name) for name in ("max_length", "stride", "clip_boxes", "num_proc")}
    return (
        texts,
        {name: encode(rows, processor, None, None, options) for name, rows in texts.items()},
        network,
        processor,
    )


def _model_columns(windows: Dataset, network: Any, whole_words: bool) -> Dataset:
    """What the model takes and the collator needs, and the row of each window (`document`)."""
    wanted = {*inspect.signature(network.forward).parameters, "document", *(_MASK_COLUMNS if whole_words else ())}
    return windows.select_columns([name for name in windows.column_names if name in wanted])


def _curve(log: list[dict[str, float]]) -> list[list[float]]:
    return [[int(entry["step"]), entry["eval_perplexity"]] for entry in log if "eval_perplexity" in entry]


def _size(texts: Dataset, windows: Dataset) -> dict[str, int]:
    return {
        "documents": len(set(texts["group"])),
        "texts": len(texts),
        "words": sum(map(len, texts["words"])),
        "windows": len(windows),
        "tokens": sum(map(len, windows["input_ids"])),
    }


def _report(results: dict[str, Any], output_dir: str) -> None:
    write_text(os.path.join(output_dir, "README.md"), pretraining_card(results))
    # Last, so that its presence says that the run is complete.
    write_json(os.path.join(output_dir, "results.json"), results)
    for name, metrics in results["metrics"].items():
        interval = metrics["interval"]
        between = "" if interval is None else " ({:.2f} to {:.2f})".format(*interval["perplexity"])
        print(f"{name}: perplexity {metrics['perplexity']:.2f}{between}, {metrics['tokens']} tokens predicted")
    print(f"The model, its processor, results.json and README.md are in {output_dir}.")


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    main()
