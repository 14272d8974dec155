"""
Train a summariser, write the summaries of the test documents, measure them.

    broadsheet summarize pubmed_deep_pyramidion --data_dir PUBMED --output_dir OUT
    broadsheet summarize --dataset text_summaries --data_dir MINE --preset transpooler --output_dir OUT
    accelerate launch -m broadsheet.training.summarize recipe.yaml
"""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoProcessor,
    AutoTokenizer,
    EarlyStoppingCallback,
    Seq2SeqTrainer,
    TrainerCallback,
    set_seed,
)
from transformers.trainer_utils import IntervalStrategy

from broadsheet.cards import fill
from broadsheet.metrics.rouge import rouge, rouge_scorer
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.layout_batch import LayoutBatch
from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor
from broadsheet.training.arguments import parse, parse_settings, recorded_options
from broadsheet.training.fingerprints import encoding_fingerprint
from broadsheet.training.ordered_prediction import OrderedPrediction
from broadsheet.training.preparation import load_splits
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
from broadsheet.training.summary_arguments import (
    SummaryDataArguments,
    SummaryModelArguments,
    SummaryRunArguments,
    SummaryTrainingArguments,
)
from broadsheet.training.summary_callbacks import EveryFewEpochs, TimeLimit
from broadsheet.training.tokenizer import train_tokenizer

_INTERRUPTED = 130
_COLUMNS = ("words", "boxes", "page_ids", "page_sizes")


@exit_with_sentence
def main(argv: Sequence[str] | None = None) -> None:
    """Train and measure as the arguments say; see `summarize`."""
    arguments = parse(
        [SummaryRunArguments, SummaryDataArguments, SummaryModelArguments, SummaryTrainingArguments],
        argv,
        "broadsheet summarize",
        "Train a summariser, write the test documents' summaries, and measure their ROUGE. The defaults are those of "
        "the paper's deep models.",
    )
    run_until_stopped(*arguments)


def run_until_stopped(*arguments: Any, **options: Any) -> None:
    """`summarize`; when it is stopped, a sentence says how to go on."""
    try:
        summarize(*arguments, **options)
    except Interrupted as interruption:
        if is_main_process():
            print(interruption)
        raise SystemExit(_INTERRUPTED) from None
    except KeyboardInterrupt:
        raise SystemExit("Stopped.") from None


def summarize(
    run: SummaryRunArguments,
    data: SummaryDataArguments,
    model: SummaryModelArguments,
    training: SummaryTrainingArguments,
    make: Callable[..., tuple[Any, Any]] | None = None,
) -> dict[str, Any]:
    """
    Train, write, measure, save.

    Args:
        run: what to write and how to stop.
        data: the corpus.
        model: what to start from.
        training: of transformers.
        make: makes the model and its processor, as `build`, which does so when None.

    Returns:
        What `results.json` in `training.output_dir` holds: model, ROUGE with intervals and settings, data, budget,
        seeds, environment, wall time. The written summaries are in `summaries-SPLIT.jsonl`.

    Raises:
        InputError: for arguments or data that do not fit, before training starts.
        Interrupted: after Ctrl-C, once a checkpoint is saved.
    """
    started = time.time()
    start_logging()
    _check_writing(run)
    rouge_scorer()
    output_dir = str(training.output_dir)
    checkpoint = prepare_output_dir(output_dir, run.overwrite, training.resume_from_checkpoint)
    set_seed(training.seed)
    with training.main_process_first():
        documents = load_splits(data, training.seed)  # type: ignore[arg-type]
        if "summary" not in documents["train"].column_names:
            raise InputError(f"Dataset {data.dataset!r} has no summaries; choose a corpus of summaries.")
    tokenizer = _trained_tokenizer(model, documents["train"], checkpoint, training.world_size)
    with training.main_process_first():
        network, processor = (make or build)(model, checkpoint, tokenizer)
        encoded = {name: encode(part, processor, data) for name, part in documents.items()}
        for name, part in encoded.items():
            if network.config.use_layout and "bbox" not in part.column_names:
                raise InputError(
                    f"The model reads boxes, but the {name} documents of {data.dataset} have none; choose a corpus "
                    "with boxes, or a model with use_layout=false."
                )
    network.generation_config.update(
        num_beams=run.num_beams,
        length_penalty=run.length_penalty,
        min_new_tokens=run.min_length,
        max_new_tokens=run.max_length,
        max_length=None,
        no_repeat_ngram_size=run.no_repeat_ngram_size,
    )
    _adapt(training, run, "validation" in documents)
    training.resume_from_checkpoint = checkpoint

    def measure(name: str, tokens: Any, samples: int) -> tuple[dict[str, Any], list[str]]:
        written = processor.post_process_summaries(tokens)
        # Sentences end at punctuation for rougeLsum; the other types do not look at them.
        options: dict[str, Any] = {
            "use_stemmer": run.use_stemmer, "sentence_split": "punctuation", "seed": training.seed,
        }  # fmt: skip
        return rouge(written, documents[name]["summary"], bootstrap_samples=samples, **options), written

    def measure_validation(prediction: Any) -> dict[str, float]:
        metrics, _ = measure("validation", prediction.predictions, 0)
        return {kind: metrics[kind]["f1"] for kind in ("rouge1", "rouge2", "rougeL")}

    stop = StopOnSignal()
    callbacks: list[TrainerCallback] = [stop, EveryFewEpochs(run.evaluate_every)]
    limit = None
    if run.max_training_seconds is not None:
        limit = TimeLimit(run.max_training_seconds, run.training_clock, checkpoint)
        callbacks.insert(0, limit)  # it writes beside a checkpoint before another callback stops the run
    if run.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(run.early_stopping_patience))
    trainer = SummaryTrainer(
        model=network,
        args=training,
        train_dataset=encoded["train"],
        eval_dataset=encoded.get("validation"),
        processing_class=processor,
        data_collator=SummaryCollator(processor, network if training.label_smoothing_factor else None),  # type: ignore[arg-type]
        compute_metrics=measure_validation if training.predict_with_generate and "validation" in encoded else None,
        callbacks=callbacks,
    )
    try:
        trained = trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        stop.restore()
    chosen = trainer.state.best_global_step if training.load_best_model_at_end else None
    trainer.save_model()
    trainer.compute_metrics = None
    training.predict_with_generate = True
    metrics = {}
    for name in ("test",) if "test" in encoded else ("validation",):
        if name in encoded:
            writing = time.time()
            tokens = trainer.predict(encoded[name], metric_key_prefix=name).predictions
            metrics[name], written = measure(name, tokens, run.bootstrap_samples)
            metrics[name]["writing_time_s"] = round(time.time() - writing, 1)
            if trainer.is_world_process_zero():
                lines = zip(documents[name]["id"], written, documents[name]["summary"], strict=True)
                rows = ({"id": row, "written": text, "summary": true} for row, text, true in lines)
                text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
                write_text(os.path.join(output_dir, f"summaries-{name}.jsonl"), text)
    lengths = [len(row) for row in encoded["train"]["input_ids"]]
    results = {
        "name": os.path.basename(os.path.abspath(output_dir)),
        "task": "summarization",
        "model_type": network.config.model_type,
        "start": model.model_name_or_path,
        "preset": None if model.model_name_or_path else model.preset,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "metrics": metrics,
        "data": {
            "name": data.dataset,
            "options": recorded_options(data.dataset_options),
            "splits": {name: {"documents": len(part)} for name, part in documents.items()},
            "max_source_length": data.max_source_length,
            "max_target_length": data.max_target_length,
            "training_tokens": {"mean": float(np.mean(lengths)), "most": max(lengths)},
        },
        "generation": {
            name: getattr(run, name)
            for name in ("num_beams", "length_penalty", "min_length", "max_length", "no_repeat_ngram_size")
        },
        "budget": {
            "epochs": trainer.state.epoch or 0.0,
            "steps": trained.global_step,
            "model_step": chosen or trained.global_step,
            "batch_size": training.train_batch_size * training.gradient_accumulation_steps * training.world_size,
            "learning_rate": training.learning_rate,
            "schedule": str(getattr(training.lr_scheduler_type, "value", training.lr_scheduler_type)),
            "warmup_steps": training.warmup_steps,
            "weight_decay": training.weight_decay,
            "training_loss": trained.training_loss,
            "max_training_seconds": run.max_training_seconds,
            "training_clock": run.training_clock,
            "stopped_by_time": bool(limit and limit.reached),
            "training_time_s": round(trained.metrics.get("train_runtime", 0.0), 1),
        },
        "seeds": {"training": training.seed, "data": training.data_seed, "bootstrap": training.seed},
        "environment": environment(training.device),
        "wall_time_s": round(time.time() - started, 1),
    }
    if trainer.is_world_process_zero():
        # A pickle of this run's settings, which nobody who loads the model needs.
        os.remove(os.path.join(output_dir, "training_args.bin"))
        write_text(os.path.join(output_dir, "README.md"), summary_card(results))
        # Last, so that its presence says that the run is complete.
        write_json(os.path.join(output_dir, "results.json"), results)
        print(f"\n{_table(metrics)}\nThe model, its processor, summaries and results.json are in {output_dir}.")
    return results


def _trained_tokenizer(
    model: SummaryModelArguments, documents: Dataset, checkpoint: str | None, processes: int
) -> Any | None:
    """For a new model, where none is named: trained once, and the same for all processes."""
    if checkpoint or model.model_name_or_path or model.tokenizer_name:
        return None
    made: list[Any] = [None]
    if is_main_process():
        made = [train_tokenizer(_texts(documents), model.tokenizer_kind, model.tokenizer_vocab_size)]
    if processes > 1:
        torch.distributed.broadcast_object_list(made)
    return made[0]


def build(model: SummaryModelArguments, checkpoint: str | None, tokenizer: Any | None) -> tuple[Any, Any]:
    """
    The model and its processor: of the run's checkpoint, of another, or new. Raises `InputError` as `summarize`.

    Args:
        model: what to start from.
        checkpoint: of the run, to continue from.
        tokenizer: of a new model where none is named.
    """
    path = checkpoint or model.model_name_or_path
    if path is not None:
        if model.config_overrides and not checkpoint:
            raise InputError("config_overrides are for a new model; a checkpoint brings its own, leave them out.")
        try:
            network, processor = AutoModelForSeq2SeqLM.from_pretrained(path), AutoProcessor.from_pretrained(path)
        except (OSError, ValueError, StrictDataclassError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{path} holds no summariser that can be read ({reason}); name another.") from None
        if not isinstance(processor, PyramidionProcessor):
            raise InputError(f"{path} has no PyramidionProcessor; save one there with its save_pretrained.")
        return network, processor
    if tokenizer is None:
        try:
            tokenizer = AutoTokenizer.from_pretrained(model.tokenizer_name)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"There is no tokenizer in {model.tokenizer_name} ({reason}); name another.") from None
    processor = PyramidionProcessor(tokenizer)
    settings = parse_settings(model.config_overrides, "config_overrides")
    known = {field.name for field in dataclasses.fields(PyramidionConfig)}
    for setting in settings:
        if setting not in known:
            raise InputError(f"The configuration of Pyramidion has no setting {setting!r}.")
    (end,) = processor.target_ids(["a"])[0][-1:]
    given = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": end,
        "decoder_start_token_id": end,
    }
    try:
        config = getattr(PyramidionConfig, model.preset)(**{**given, **settings})
    except (StrictDataclassError, ValueError, TypeError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"The settings of the new model do not fit: {reason}") from None
    return PyramidionForConditionalGeneration(config), processor


def encode(documents: Dataset, processor: Any, data: SummaryDataArguments) -> Dataset:
    """The documents as `input_ids`, `attention_mask`, `bbox` where they have boxes, and `labels`."""
    arguments = {
        "processor": processor,
        "max_source_length": data.max_source_length,
        "max_target_length": data.max_target_length,
        "clip_boxes": data.clip_boxes,
    }
    return documents.map(
        _encode_batch,
        batched=True,
        batch_size=16,
        num_proc=data.num_proc if (data.num_proc or 1) < len(documents) else None,
        remove_columns=documents.column_names,
        fn_kwargs=arguments,
        new_fingerprint=encoding_fingerprint(documents, arguments, __file__),
        desc="Encoding documents",
    )


def _encode_batch(
    columns: dict[str, list[Any]], processor: Any, max_source_length: int, max_target_length: int, clip_boxes: bool
) -> dict[str, Any]:
    given = {name: columns[name] for name in _COLUMNS if any(value is not None for value in columns[name])}
    return dict(
        processor(
            documents=given,
            text_target=columns["summary"],
            max_target_length=max_target_length,
            truncation=True,
            max_length=max_source_length,
            clip_boxes=clip_boxes,
        )
    )


def _texts(documents: Dataset) -> Iterator[str]:
    for row in documents.select_columns(["words", "summary"]):
        yield " ".join(row["words"])
        yield row["summary"]


def _check_writing(run: SummaryRunArguments) -> None:
    for name, least in (
        ("num_beams", 1), ("min_length", 0), ("max_length", 1), ("no_repeat_ngram_size", 0), ("bootstrap_samples", 0),
    ):  # fmt: skip
        if getattr(run, name) < least:
            raise InputError(f"{name}={getattr(run, name)} is too small; set it to {least} or more.")
    if run.min_length > run.max_length:
        raise InputError(f"min_length={run.min_length} is above max_length={run.max_length}; change one of them.")
    if run.num_beams == 1 and run.length_penalty != 1:
        raise InputError(
            f"length_penalty={run.length_penalty} is for beams; set num_beams to 2 or more, or leave it out."
        )


def _adapt(training: SummaryTrainingArguments, run: SummaryRunArguments, validates: bool) -> None:
    if run.evaluate_every < 1:
        raise InputError(f"evaluate_every={run.evaluate_every} is no number of epochs; set it to 1 or more.")
    if not validates:
        if run.early_stopping_patience is not None:
            raise InputError("Early stopping needs validation data; set validation_fraction above 0, or leave it out.")
        training.eval_strategy = type(training.eval_strategy)("no")
        training.load_best_model_at_end = False
        return
    if run.early_stopping_patience is not None and training.eval_strategy == IntervalStrategy.NO:
        raise InputError("Early stopping needs validations; set eval_strategy to epoch or steps, or leave it out.")
    if training.metric_for_best_model in (None, "loss"):
        training.metric_for_best_model = "rouge1" if training.predict_with_generate else "loss"
        training.greater_is_better = training.predict_with_generate
    if run.early_stopping_patience is not None:
        training.restore_callback_states_from_checkpoint = True


class SummaryCollator(LayoutDataCollator):
    """
    Adds what the decoder reads, for a loss that is computed outside of the model, as label smoothing is.

    Args:
        processor: the processor that made the features.
        model: shifts the labels; None leaves that to its forward pass.
    """

    def __init__(self, processor: Any, model: PyramidionForConditionalGeneration | None = None):
        super().__init__(processor)
        self.model = model

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> LayoutBatch:
        """`decoder_input_ids` int64 `[batch, target length]` beside what `LayoutDataCollator` makes."""
        batch = super().__call__(features)
        if self.model is not None:
            batch["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(batch["labels"])
        return batch


class SummaryTrainer(OrderedPrediction, Seq2SeqTrainer):
    """Summaries come in the order of their documents, one for each however many processes write them."""

    def evaluation_loop(self, *arguments: Any, **options: Any) -> Any:
        """Without those that fill up the last batch, which `Seq2SeqTrainer` keeps."""
        self.gather_function = self.accelerator.gather_for_metrics
        return super().evaluation_loop(*arguments, **options)


def summary_card(results: dict[str, Any]) -> str:
    """A README.md with the front matter of the Hub, from what results.json holds."""
    front = {
        "library_name": "transformers",
        "tags": ["broadsheet", results["model_type"], "summarization", "long-documents"],
        "pipeline_tag": "summarization",
    }
    data, budget = results["data"], results["budget"]
    return fill(
        "model_cards/templates/summarizer.md",
        front,
        title=results["name"],
        model_type=results["model_type"],
        max_source_length=data["max_source_length"],
        dataset=data["name"],
        start=f"from `{results['start']}`" if results["start"] else f"from scratch (`{results['preset']}`)",
        parameters=results["parameters"],
        path=results["name"],
        results=_table(results["metrics"]),
        steps=budget["steps"],
        batch_size=budget["batch_size"],
        epochs=budget["epochs"],
        learning_rate=budget["learning_rate"],
        schedule=budget["schedule"],
        seed=results["seeds"]["training"],
        minutes=budget["training_time_s"] / 60,
        device=results["environment"]["device"],
    )


def _table(metrics: dict[str, Any]) -> str:
    if not metrics:
        return "Nothing was measured: the data had neither validation nor test split."
    lines = ["| split | ROUGE-1 | ROUGE-2 | ROUGE-L | documents |", "|---|---|---|---|---|"]
    for name, found in metrics.items():
        cells = []
        for kind in ("rouge1", "rouge2", "rougeL"):
            cell = f"{100 * found[kind]['f1']:.2f}"
            if found["interval"]:
                cell += " ({:.2f} to {:.2f})".format(*(100 * edge for edge in found["interval"][kind]))
            cells.append(cell)
        lines.append(f"| {name} | {' | '.join(cells)} | {found['documents']} |")
    settings = next(iter(metrics.values()))["settings"]
    stems = "stems" if settings["use_stemmer"] else "words"
    lines += ["", f"F1 in per cent by {settings['package']}, of {stems}; intervals are 95 % over documents."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
