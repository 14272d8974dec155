"""What a pre-training run is told besides its model."""

import dataclasses
from typing import Literal

from broadsheet.training.arguments import FamilyTrainingArguments, _field


@dataclasses.dataclass
class PretrainingArguments:
    """What is hidden, how long it takes to say how well it is found again, and where the run may write."""

    _argument_group_name = "run"

    mask_probability: float = _field(
        0.15, "Share of the tokens to predict: 80 %% hidden, 10 %% exchanged, 10 %% kept."
    )
    whole_words: bool = _field(False, "Draw whole words instead of tokens.")
    mask_seed: int = _field(0, "Seed of the masks of validation and test data, the same for every model and run.")
    overwrite: bool = _field(False, "Write into an output folder that is not empty, and remove its old checkpoints.")
    bootstrap_samples: int = _field(1000, "Resamples of the documents behind the confidence intervals; 0 for none.")


@dataclasses.dataclass
class CorpusArguments:
    """The corpora, their split by document, and how their pages become windows."""

    _argument_group_name = "data"

    dataset: list[str] | None = _field(
        None, "Names of the corpora, for example pdf_folder docbank; one name serves all folders."
    )
    data_dir: list[str] | None = _field(None, "Folder of each corpus.")
    prepared_dir: str | None = _field(None, "In place of both: a folder made by `broadsheet prepare pretrain`.")
    dataset_options: str | None = _field(
        None, "Further options of the corpora, as 'name=value,...'; 'docbank.name=value' for one of several."
    )
    validation_fraction: float = _field(
        0.1, "Share of the documents for validation, of each corpus without a split of that name."
    )
    test_fraction: float = _field(0.1, "Share of the documents for the test, likewise.")
    split_seed: int = _field(0, "Seed of the split by document.")
    unit: Literal["page", "document"] = _field(
        "page", "Cut windows within each page (the papers' corpora are single pages), or across a document's pages."
    )
    max_documents: int | None = _field(None, "Use only the first documents of each corpus (to try things out).")
    max_length: int = _field(512, "Tokens in a window, special tokens included.")
    stride: int = _field(0, "Tokens that a window shares with the one before it.")
    clip_boxes: bool = _field(False, "Cut boxes at the page's edge instead of refusing those beyond it.")
    num_proc: int | None = _field(None, "Processes that prepare the data.")
    cache_dir: str | None = _field(None, "Where prepared data is kept (default: the cache of datasets).")


@dataclasses.dataclass
class PretrainingSchedule(FamilyTrainingArguments):
    """`TrainingArguments` of transformers with the schedule of Skim-Attention (section 5.2) as defaults."""

    _argument_group_name = "training (transformers.TrainingArguments)"

    max_steps: int = _field(10_000, "Steps.")
    learning_rate: float = _field(1e-4, "Learning rate after warm-up; it falls to 0 in a straight line.")
    warmup_steps: float = _field(100, "Steps of warm-up, or their share of all steps where below 1.")
    weight_decay: float = _field(0.01, "Weight decay.")
    per_device_train_batch_size: int = _field(8, "Windows in a batch, on each device.")
    eval_strategy: str = _field("steps", "When to measure on validation data: no, steps or epoch.")
    eval_steps: float | None = _field(500, "Steps from one measurement to the next: the curve's points.")
    save_strategy: str = _field("steps", "When to save a checkpoint: no, steps, epoch or best.")
    save_steps: float = _field(500, "Steps from one checkpoint to the next.")
    logging_strategy: str = _field("steps", "When to log the loss: no, steps or epoch.")
    logging_steps: float = _field(100, "Steps from one log of the loss to the next.")
    load_best_model_at_end: bool = _field(False, "End with the best checkpoint rather than with the last.")
