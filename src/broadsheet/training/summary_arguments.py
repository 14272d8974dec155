"""What a summarisation run is told."""

import dataclasses
from typing import Any, Literal

import torch
from transformers import Seq2SeqTrainingArguments

from broadsheet.tokenization.input_checks import InputError


def _field(default: Any, text: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass
class SummaryDataArguments:
    """The corpus, its splits, and how its documents are read."""

    _argument_group_name = "data"

    dataset: str | None = _field(
        None, "Corpus: pubmed_summarization, arxiv_summarization, qmsum, text_summaries, or another with summaries."
    )
    data_dir: str | None = _field(None, "Folder of the corpus' official distribution.")
    dataset_options: str | None = _field(None, "Further options of the corpus, as 'name=value,name=value'.")
    train_split: str = _field("train", "Split to train on.")
    validation_split: str = _field("validation", "Split to choose the best checkpoint on, where there is one.")
    test_split: str | None = _field("test", "Split whose summaries are written and measured at the end.")
    validation_fraction: float = _field(0.1, "Share of the training documents held out where there is no such split.")
    test_fraction: float = _field(0.0, "Share of the training documents held out for the test likewise.")
    max_documents: int | None = _field(None, "Use only the first documents of each split (to try things out).")
    max_source_length: int = _field(8192, "Tokens of a document; what is longer is cut.")
    max_target_length: int = _field(512, "Tokens of a summary in training; what is longer is cut.")
    clip_boxes: bool = _field(False, "Cut boxes at the page's edge instead of refusing those beyond it.")
    num_proc: int | None = _field(None, "Processes that prepare the data.")
    cache_dir: str | None = _field(None, "Where prepared data is kept (default: the cache of datasets).")


@dataclasses.dataclass
class SummaryModelArguments:
    """The checkpoint to start from, or the model to build."""

    _argument_group_name = "model"

    model_name_or_path: str | None = _field(None, "Checkpoint to start from: a folder or a name on the Hub.")
    preset: Literal[
        "vanilla",
        "blockwise",
        "transpooler",
        "pyramidion",
        "deep_blockwise",
        "deep_pyramidion",
        "deep_pyramidion_early",
    ] = _field("deep_pyramidion", "Without a checkpoint: which of the paper's models to build.")
    config_overrides: str | None = _field(
        None, "Settings of a model built anew, as 'hidden_size=256,num_hidden_layers=4' (in a recipe: a mapping)."
    )
    tokenizer_name: str | None = _field(
        None, "Without a checkpoint: the tokenizer; if omitted, one is trained on the training texts and summaries."
    )
    tokenizer_kind: Literal["bpe", "unigram"] = _field("unigram", "Kind of the tokenizer trained when none is given.")
    tokenizer_vocab_size: int = _field(32000, "Its size.")


@dataclasses.dataclass
class SummaryRunArguments:
    """How long to train, how summaries are written and measured."""

    _argument_group_name = "run"

    evaluate_every: int = _field(1, "Validate and save after every so many epochs.")
    early_stopping_patience: int | None = _field(None, "Stop after so many validations without gain.")
    max_training_seconds: float | None = _field(None, "Stop training after so many seconds.")
    training_clock: Literal["wall", "cpu"] = _field(
        "wall", "Clock of max_training_seconds: the time that passes, or that the processor works for this run."
    )
    num_beams: int = _field(2, "Beams.")
    length_penalty: float = _field(1.0, "Exponent of the length that beams' scores are divided by.")
    min_length: int = _field(72, "Fewest tokens of a written summary.")
    max_length: int = _field(966, "Most tokens of a written summary.")
    no_repeat_ngram_size: int = _field(0, "Write no sequence of so many tokens twice; 0 for no such rule.")
    use_stemmer: bool = _field(True, "ROUGE of stems (the papers do not say; the setting stands with the result).")
    bootstrap_samples: int = _field(1000, "Resamples of the documents behind the confidence intervals; 0 for none.")
    overwrite: bool = _field(False, "Write into an output folder that is not empty, and remove its old checkpoints.")


@dataclasses.dataclass
class SummaryTrainingArguments(Seq2SeqTrainingArguments):
    """`Seq2SeqTrainingArguments` of transformers with the defaults of the paper's deep models (Table 6)."""

    _argument_group_name = "training (transformers.Seq2SeqTrainingArguments)"

    output_dir: str | None = _field(None, "Folder for checkpoints, the model, summaries, results.json and README.md.")
    num_train_epochs: float = _field(100.0, "Epochs at most.")
    learning_rate: float = _field(5e-4, "Learning rate after the warm-up.")
    lr_scheduler_type: str = _field("constant_with_warmup", "The learning rate does not decay.")
    warmup_steps: float = _field(5000, "Steps of warm-up.")
    weight_decay: float = _field(0.1, "Weight decay of AdamW.")
    eval_strategy: str = _field("epoch", "When to validate: no, steps or epoch (every evaluate_every epochs).")
    save_strategy: str = _field("epoch", "When to save a checkpoint: no, steps, epoch or best.")
    logging_strategy: str = _field("epoch", "When to log the loss: no, steps or epoch.")
    save_total_limit: int | None = _field(2, "Checkpoints to keep; the best is always kept.")
    load_best_model_at_end: bool = _field(True, "End with the best checkpoint rather than with the last.")
    predict_with_generate: bool = _field(
        False, "Validate by ROUGE of written summaries; else by their loss, which is faster by far."
    )
    report_to: str = _field("none", "Where to log besides the terminal: none, tensorboard, wandb, ...")
    dataloader_pin_memory: bool = _field(torch.cuda.is_available(), "Pin memory in data loaders.")
    resume_from_checkpoint: str | None = _field(
        None, "A checkpoint to continue from, or auto for the last complete one in output_dir (if there is one)."
    )

    def __post_init__(self) -> None:
        if not self.output_dir:
            raise InputError("There is no output_dir to save the model in; set --output_dir.")
        super().__post_init__()
