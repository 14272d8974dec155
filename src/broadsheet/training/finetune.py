"""
Fine-tune a model of the family, or train a small one from scratch.

    python -m broadsheet.training.finetune funsd_skimformer_scratch --data_dir FUNSD --output_dir OUT
    python -m broadsheet.training.finetune recipe.yaml --learning_rate 1e-4
    accelerate launch -m broadsheet.training.finetune recipe.yaml
"""

import os
import time
from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from transformers import EarlyStoppingCallback, set_seed

from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import (
    DataArguments,
    FamilyTrainingArguments,
    ModelArguments,
    RunArguments,
    parse,
    parse_settings,
    recorded_options,
)
from broadsheet.training.augmentation import AugmentingTrainer
from broadsheet.training.building import build
from broadsheet.training.card import model_card
from broadsheet.training.class_weights import WeightedLoss, balanced_weights
from broadsheet.training.learning_rates import check_learning_rates
from broadsheet.training.preparation import load_splits
from broadsheet.training.prepared import load_prepared
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
from broadsheet.training.task_choice import make_task
from broadsheet.training.tasks import Task, metric_table

_INTERRUPTED = 130


@exit_with_sentence
def main(argv: Sequence[str] | None = None) -> None:
    """Fine-tune as the arguments say; see `finetune`."""
    arguments = parse(
        [RunArguments, DataArguments, ModelArguments, FamilyTrainingArguments],
        argv,
        "broadsheet finetune",
        "Fine-tune a model on a dataset, measure it, and save it with its processor, results.json and a model card.",
    )
    try:
        finetune(*arguments)
    except Interrupted as interruption:
        if is_main_process():
            print(interruption)
        raise SystemExit(_INTERRUPTED) from None
    except KeyboardInterrupt:
        raise SystemExit("Stopped.") from None


def finetune(
    run: RunArguments, data: DataArguments, model: ModelArguments, training: FamilyTrainingArguments
) -> dict[str, Any]:
    """
    Train, measure, save.

    Returns:
        What `results.json` in `training.output_dir` holds: task, model, `metrics` of the validation and test split
        (with intervals), data, budget, seeds, environment, wall time.

    Raises:
        InputError: for arguments or data that do not fit, before training starts.
        Interrupted: after Ctrl-C, once a checkpoint is saved.
    """
    started = time.time()
    start_logging()
    output_dir = str(training.output_dir)
    _check(run, training)
    checkpoint = prepare_output_dir(output_dir, run.overwrite, training.resume_from_checkpoint)
    task = make_task(run.task, run.scheme)
    set_seed(training.seed)
    with training.main_process_first():
        documents, windows, network, processor = load_windows(run, data, model, training.seed, checkpoint)
    windows["train"] = task.training_windows(windows["train"])
    labels = task.labels(documents["train"])
    id2label = {int(index): name for index, name in network.config.id2label.items()}
    rates = check_learning_rates(parse_settings(run.learning_rates, "learning_rates"), network)
    _adapt(training, run, task, "validation" in documents)
    training.resume_from_checkpoint = checkpoint

    def measure(name: str, logits: Any, samples: int) -> dict[str, Any]:
        return task.measure(logits, windows[name], documents[name], processor, id2label, samples, seed=training.seed)

    def measure_validation(prediction: Any) -> dict[str, float]:
        metrics = measure("validation", prediction.predictions, 0)
        return {name: metrics[name] for name in (*task.scores, "accuracy") if name in metrics}

    weighted = run.class_weights == "train"
    if weighted and not labels:
        raise InputError(f"class_weights weigh labels, and {task.name} has none; leave them out.")
    loss = WeightedLoss(balanced_weights(windows["train"], len(id2label))) if weighted else None
    stop = StopOnSignal()
    trainer = AugmentingTrainer(
        model=network,
        args=training,
        train_dataset=windows["train"],
        eval_dataset=windows.get("validation"),
        processing_class=processor,
        data_collator=LayoutDataCollator(processor),  # type: ignore[arg-type]
        compute_metrics=measure_validation if "validation" in windows else None,
        compute_loss_func=loss,
        callbacks=[stop],
        token_dropout=run.token_dropout,
        box_augmentation=run.box_augmentation,
        learning_rates=rates,
    )
    if run.early_stopping_patience is not None:
        trainer.add_callback(EarlyStoppingCallback(run.early_stopping_patience))
    try:
        trained = trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        stop.restore()

    chosen = trainer.state.best_global_step if training.load_best_model_at_end else None
    trainer.save_model()
    trainer.compute_metrics = None
    metrics = {}
    for name in ("validation", "test"):
        if name in windows:
            logits = trainer.predict(windows[name], metric_key_prefix=name).predictions
            metrics[name] = measure(name, logits, run.bootstrap_samples)
    results = {
        "name": os.path.basename(os.path.abspath(output_dir)),
        "task": task.name,
        "model_type": network.config.model_type,
        "start": model.model_name_or_path,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "labels": list(id2label.values()) if labels else [],
        "metrics": metrics,
        "data": {
            "name": data.dataset,
            "options": recorded_options(data.dataset_options),
            "splits": {
                name: {
                    "documents": len(part),
                    "words": sum(map(len, part["words"])),
                    "windows": len(windows[name]),
                }
                for name, part in documents.items()
            },
            "validation": _validation_source(data, documents),
            **{name: getattr(data, name) for name in ("box_level", "max_length", "stride", "clip_boxes")},
            "scheme": run.scheme,
        },
        "budget": {
            "epochs": trainer.state.epoch or 0.0,
            "steps": trained.global_step,
            "model_step": chosen or trained.global_step,
            "batch_size": training.train_batch_size * training.gradient_accumulation_steps * training.world_size,
            "learning_rate": training.learning_rate,
            "learning_rates": rates,
            "schedule": str(getattr(training.lr_scheduler_type, "value", training.lr_scheduler_type)),
            "warmup_steps": training.warmup_steps,
            "weight_decay": training.weight_decay,
            "token_dropout": run.token_dropout,
            "box_augmentation": run.box_augmentation,
            "class_weights": run.class_weights,
            "training_loss": trained.training_loss,
            "resumed_from": checkpoint and os.path.basename(checkpoint),
            "training_time_s": round(trained.metrics.get("train_runtime", 0.0), 1),
        },
        "seeds": {"training": training.seed, "data": training.data_seed, "bootstrap": training.seed},
        "environment": environment(training.device),
        "wall_time_s": round(time.time() - started, 1),
    }
    if trainer.is_world_process_zero():
        # A pickle of this run's settings, which nobody who loads the model needs.
        os.remove(os.path.join(output_dir, "training_args.bin"))
        _report(results, task, output_dir)
    return results


def load_windows(
    run: RunArguments, data: DataArguments, model: ModelArguments, seed: int, checkpoint: str | None = None
) -> tuple[dict[str, Dataset], dict[str, Dataset], Any, Any]:
    """
    Documents and their windows by split, the model and its processor.

    The windows are made now, or were made before (`data.prepared_dir`, whose settings `data` takes over).

    Raises:
        InputError: for arguments or data that do not fit.
    """
    task = make_task(run.task, run.scheme)
    if data.prepared_dir is not None:
        return load_prepared(data, model, task, purpose_of(run), checkpoint)
    options = {name: getattr(data, name) for name in ("box_level", "max_length", "stride", "clip_boxes", "num_proc")}
    documents = load_splits(data, seed, task.answers)
    labels = task.labels(documents["train"])
    network, processor = build(model, task, labels, documents["train"]["words"], checkpoint, data.max_length)
    id2label = {int(index): name for index, name in network.config.id2label.items()}
    windows = {name: task.encode(part, processor, id2label, options) for name, part in documents.items()}
    return documents, windows, network, processor


def purpose_of(run: RunArguments) -> dict[str, Any]:
    """What windows depend on besides data and processor."""
    return {"task": run.task, "scheme": run.scheme}


def _check(run: RunArguments, training: FamilyTrainingArguments) -> None:
    """Raises `InputError` for settings that would not do what they say."""
    if run.early_stopping_patience is not None and training.eval_strategy == "no":
        raise InputError("Early stopping needs evaluations; set eval_strategy to steps or epoch, or leave it out.")
    if training.label_smoothing_factor and run.class_weights != "none":
        raise InputError("label_smoothing_factor has no effect with class_weights; leave one of them out.")
    if training.label_smoothing_factor and run.task == "question_answering":
        raise InputError("label_smoothing_factor has no effect on question_answering; leave it out.")


def _adapt(training: FamilyTrainingArguments, run: RunArguments, task: Task, validates: bool) -> None:
    """Fit the training arguments to the task and to whether there is validation data."""
    if not validates:
        if run.early_stopping_patience is not None:
            raise InputError("Early stopping needs validation data; set validation_fraction above 0, or leave it out.")
        training.eval_strategy = type(training.eval_strategy)("no")
        training.load_best_model_at_end = False
        return
    if not training.metric_is_given:
        training.metric_for_best_model = task.metric
        training.greater_is_better = True
    if run.early_stopping_patience is not None:
        # Otherwise a resumed run starts to count anew and stops later than an uninterrupted one.
        training.restore_callback_states_from_checkpoint = True


def _validation_source(data: DataArguments, documents: dict[str, Any]) -> str | None:
    if "validation" not in documents:
        return None
    own = data.validation_split in str(documents["validation"].split or "")
    return f"split {data.validation_split}" if own else f"{data.validation_fraction:g} of the training documents"


def _report(results: dict[str, Any], task: Task, output_dir: str) -> None:
    write_text(os.path.join(output_dir, "README.md"), model_card(results, task.auto_model.__name__, task.scores))
    # Last, so that its presence says that the run is complete.
    write_json(os.path.join(output_dir, "results.json"), results)
    for name, metrics in results["metrics"].items():
        print(f"\n{name}\n{metric_table(metrics)}")
    print(f"\nThe model, its processor, results.json and README.md are in {output_dir}.")


if __name__ == "__main__":
    main()
