"""What a training or evaluation run is told, by a YAML recipe, by flags, or by both (flags win)."""

import ast
import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Sequence
from importlib import resources
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import torch
import yaml
from transformers import HfArgumentParser, TrainingArguments

from broadsheet.tokenization.input_checks import InputError


def _field(default: Any, text: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass
class DataArguments:
    """The dataset, its splits, and how its documents become windows."""

    _argument_group_name = "data"

    dataset: str | None = _field(None, "Name of the dataset, for example funsd.")
    data_dir: str | None = _field(None, "Folder of the dataset's official distribution.")
    prepared_dir: str | None = _field(None, "In place of both: a folder made by `broadsheet prepare`.")
    dataset_options: str | None = _field(
        None, "Further options of the dataset, as 'name=value,name=value' (in a recipe: a mapping)."
    )
    train_split: str = _field("train", "Split to train on.")
    validation_split: str = _field("validation", "Split to choose the best checkpoint on, where the dataset has it.")
    test_split: str | None = _field("test", "Split for the final measurement, where the dataset has it.")
    validation_fraction: float = _field(
        0.1, "Share of the training documents held out for validation where the dataset has no such split; 0 for none."
    )
    test_fraction: float = _field(
        0.0, "Share of the training documents held out for the final measurement where the dataset has no such split."
    )
    max_documents: int | None = _field(None, "Use only the first documents of each split (to try things out).")
    box_level: Literal["word", "segment"] = _field(
        "word", "Boxes of the words, or of the text block around each (union of its words' boxes)."
    )
    max_length: int = _field(512, "Tokens in a window, special tokens included.")
    stride: int = _field(64, "Tokens that a window shares with the one before it.")
    clip_boxes: bool = _field(False, "Cut boxes at the page's edge instead of refusing those beyond it.")
    num_proc: int | None = _field(None, "Processes that prepare the data.")
    cache_dir: str | None = _field(None, "Where prepared data is kept (default: the cache of datasets).")


@dataclasses.dataclass
class ModelArguments:
    """The checkpoint to start from, or the model to build."""

    _argument_group_name = "model"

    model_name_or_path: str | None = _field(None, "Checkpoint to start from: a folder or a name on the Hub.")
    model_type: str | None = _field(
        None,
        "Type of the model to build, for example skimformer; with a checkpoint of another type, start from that: a "
        "lambert from a roberta or bert, a long_layoutlm from a longformer, big_bird, layoutlm, bert or roberta.",
    )
    config_overrides: str | None = _field(
        None,
        "Settings of a model built anew, or of another type than its checkpoint, as "
        "'hidden_size=256,num_hidden_layers=4' (in a recipe: a mapping).",
    )
    tokenizer_name: str | None = _field(
        None,
        "Without a checkpoint: the tokenizer, a folder or a name; if omitted, one is trained on the training words.",
    )
    tokenizer_vocab_size: int = _field(8000, "Size of the tokenizer trained when none is given.")
    subword_boxes: Literal["word", "split"] | None = _field(
        None, "Box of a sub-word: its word's, or its share of it (default: the model's own)."
    )
    page_stacking: Literal["page", "stack"] | None = _field(
        None,
        "For lambert and long_layoutlm: each page has coordinates of its own, or the pages of a window stand under "
        "each other (default: the model's own).",
    )
    new_head: bool = _field(False, "Replace the checkpoint's head where it was trained for other labels.")


@dataclasses.dataclass
class RunArguments:
    """What the run is for, and how it stops."""

    _argument_group_name = "run"

    task: Literal["token_classification", "sequence_classification", "question_answering"] = _field(
        "token_classification", "Label the words, classify documents, or find the words that answer questions."
    )
    scheme: str = _field(
        "IOB2", "Tagging scheme of the word labels: IOB2, IOBES, ..., or plain for one class a word, as in docbank."
    )
    early_stopping_patience: int | None = _field(
        None, "Stop after so many evaluations without improvement (needs validation data)."
    )
    token_dropout: float = _field(0.0, "In training, replace this share of tokens by the mask token, at random.")
    box_augmentation: float = _field(0.0, "In training, shrink and shift each page's boxes at random, by up to this.")
    class_weights: Literal["none", "train"] = _field(
        "none", "In the training loss, weigh each label by the inverse of its share of the training labels."
    )
    learning_rates: str | None = _field(
        None,
        "Learning rates of parts of the model in place of learning_rate, by parts of parameter names, as "
        "'relative_bias=1e-2,classifier=1e-3' (in a recipe: a mapping).",
    )
    overwrite: bool = _field(False, "Write into an output folder that is not empty, and remove its old checkpoints.")
    bootstrap_samples: int = _field(1000, "Resamples of the documents behind the confidence intervals; 0 for none.")


@dataclasses.dataclass
class FamilyTrainingArguments(TrainingArguments):
    """`TrainingArguments` of transformers with defaults for fine-tuning: evaluate, save and log once per epoch."""

    _argument_group_name = "training (transformers.TrainingArguments)"

    output_dir: str | None = _field(None, "Folder for checkpoints, the model, results.json and README.md.")
    num_train_epochs: float = _field(20.0, "Epochs.")
    eval_strategy: str = _field("epoch", "When to measure on validation data: no, steps or epoch.")
    save_strategy: str = _field("epoch", "When to save a checkpoint: no, steps, epoch or best.")
    logging_strategy: str = _field("epoch", "When to log the loss: no, steps or epoch.")
    save_total_limit: int | None = _field(2, "Checkpoints to keep; the best is always kept.")
    load_best_model_at_end: bool = _field(True, "End with the best checkpoint rather than with the last.")
    report_to: str = _field("none", "Where to log besides the terminal: none, tensorboard, wandb, ...")
    dataloader_pin_memory: bool = _field(torch.cuda.is_available(), "Pin memory in data loaders.")
    resume_from_checkpoint: str | None = _field(
        None, "A checkpoint to continue from, or auto for the last complete one in output_dir (if there is one)."
    )

    def __post_init__(self) -> None:
        if not self.output_dir:
            raise InputError("There is no output_dir to save the model in; set --output_dir.")
        # Transformers sets it to "loss" where nobody did.
        self.metric_is_given = self.metric_for_best_model is not None
        super().__post_init__()


@dataclasses.dataclass
class EvaluationArguments:
    """A saved model and the split to measure it on."""

    _argument_group_name = "evaluation"

    model_name_or_path: str | None = _field(None, "The model: a folder or a name on the Hub.")
    dataset: str | None = _field(None, "Name of the dataset, for example funsd.")
    data_dir: str | None = _field(None, "Folder of the dataset's official distribution.")
    dataset_options: str | None = _field(None, "Further options of the dataset, as 'name=value,name=value'.")
    split: str = _field("test", "Split to measure on; slices such as test[:10] work.")
    task: Literal["token_classification", "sequence_classification", "question_answering"] = _field(
        "token_classification", "Label the words, classify documents, or find the words that answer questions."
    )
    scheme: str | None = _field(
        None,
        "Tagging scheme of the word labels, or plain for one class a word (default: as the model was trained, or "
        "IOB2).",
    )
    box_level: Literal["word", "segment"] | None = _field(
        None, "Boxes of the words or of their text blocks (default: as the model was trained, or word)."
    )
    max_length: int | None = _field(None, "Tokens in a window (default: as the model was trained, or 512).")
    stride: int | None = _field(None, "Tokens shared by windows (default: as the model was trained, or 64).")
    clip_boxes: bool = _field(False, "Cut boxes at the page's edge instead of refusing those beyond it.")
    batch_size: int = _field(8, "Windows in a batch.")
    num_proc: int | None = _field(None, "Processes that prepare the data.")
    cache_dir: str | None = _field(None, "Where prepared data is kept (default: the cache of datasets).")
    bootstrap_samples: int = _field(1000, "Resamples of the documents behind the confidence intervals; 0 for none.")
    seed: int = _field(0, "Seed of the resampling.")
    use_cpu: bool = _field(False, "Stay on the CPU where there is a GPU.")
    json: str | None = _field(None, "File to write the results to.")


@dataclasses.dataclass
class TokenizerArguments:
    """The corpus and the kind of a tokenizer."""

    _argument_group_name = "tokenizer"

    output_dir: str | None = _field(None, "Folder to save the tokenizer in.")
    dataset: str | None = _field(None, "Name of the dataset whose words are the corpus, for example funsd.")
    data_dir: str | None = _field(None, "Folder of the dataset's official distribution, or of PDF files.")
    dataset_options: str | None = _field(None, "Further options of the dataset, as 'name=value,name=value'.")
    split: str = _field("train", "Split of the dataset.")
    text_files: list[str] | None = _field(None, "Instead of a dataset: plain text files, UTF-8.")
    kind: Literal["wordpiece", "bpe", "unigram"] = _field(
        "wordpiece", "wordpiece (as BERT), bpe (byte-level, as RoBERTa) or unigram (as SentencePiece)."
    )
    vocab_size: int = _field(30522, "Entries of the vocabulary, special tokens included.")
    min_frequency: int = _field(2, "Leave out pieces seen less often (wordpiece, bpe).")
    lowercase: bool | None = _field(None, "Lower-case the text (default: only for wordpiece).")
    special_tokens: Literal["bert", "roberta"] | None = _field(
        None, "[CLS] ... [SEP] or <s> ... </s> (default: bert for wordpiece, roberta for the others)."
    )
    overwrite: bool = _field(False, "Write into an output folder that is not empty.")
    num_proc: int | None = _field(None, "Processes that prepare the dataset.")
    cache_dir: str | None = _field(None, "Where prepared data is kept (default: the cache of datasets).")


def parse(kinds: Sequence[type], argv: Sequence[str] | None, program: str, description: str) -> tuple[Any, ...]:
    """
    Read the arguments of a run.

    Args:
        kinds: the dataclasses to fill.
        argv: flags, preceded by the path of a YAML recipe or the name of one that comes with the package; the
            process' own arguments when None.
        program: the command's name in its help.
        description: what it does, for its help.

    Returns:
        An instance of each dataclass.

    Raises:
        InputError: a recipe that is missing or malformed, or a setting that nothing knows.
        SystemExit: after `--help`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = HfArgumentParser(
        cast(Any, list(kinds)),
        prog=program,
        usage=f"{program} [recipe.yaml] [--flag value ...]",
        description=description,
    )
    if arguments and not arguments[0].startswith("-"):
        settings = _read_recipe(arguments.pop(0))
        _check_settings(settings, kinds)
        parser.set_defaults(**{name: _as_default(value) for name, value in settings.items()})
    known = [option for action in parser._actions for option in action.option_strings]
    for argument in arguments:
        option = argument.split("=", 1)[0]
        if argument.startswith("--") and option not in known:
            raise InputError(f"There is no setting {option}{_suggest(option, known)}.")
    try:
        return parser.parse_args_into_dataclasses(args=arguments, look_for_args_file=False)
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from None


def parse_settings(value: str | None, name: str) -> dict[str, Any]:
    """
    "hidden_size=256,skim_input=layout", or a mapping in JSON, as a dict with Python values.

    Raises:
        InputError: where an entry has no value.
    """
    if not value:
        return {}
    if value.lstrip().startswith("{"):
        try:
            return dict(json.loads(value))
        except json.JSONDecodeError as error:
            raise InputError(f"--{name} {value!r} is not valid JSON ({error}); correct it.") from None
    settings = {}
    for entry in value.split(","):
        key, separator, text = (part.strip() for part in entry.partition("="))
        if not separator or not key:
            raise InputError(f"--{name} has the entry {entry!r}; write it as name=value, separated by commas.")
        # A password of digits is no number.
        settings[key] = text if _is_password(key) else _value(text)
    return settings


def recorded_options(value: str | None) -> dict[str, Any]:
    """`dataset_options` as a record may tell them: without passwords, those for one of several corpora included."""
    options = parse_settings(value, "dataset_options")
    return {name: option for name, option in options.items() if not _is_password(name)}


def _is_password(name: str) -> bool:
    return name.rpartition(".")[2] == "password"


def _value(text: str) -> Any:
    if text.lower() in ("true", "false", "none", "null"):
        return {"true": True, "false": False}.get(text.lower())
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _read_recipe(name: str) -> dict[str, Any]:
    shipped = resources.files("broadsheet") / "recipes"
    if os.path.isfile(name):
        with open(name, encoding="utf-8") as stream:
            text = stream.read()
    elif (shipped / f"{name.removesuffix('.yaml')}.yaml").is_file():
        text = (shipped / f"{name.removesuffix('.yaml')}.yaml").read_text(encoding="utf-8")
    else:
        names = sorted(entry.name.removesuffix(".yaml") for entry in shipped.iterdir() if entry.name.endswith(".yaml"))
        raise InputError(f"There is no recipe {name}; give the path of a YAML file or one of {', '.join(names)}.")
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"The recipe {name} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(settings, dict):
        raise InputError(f"The recipe {name} is not a mapping; write one 'setting: value' per line.")
    return settings


def _check_settings(settings: dict[str, Any], kinds: Sequence[type]) -> None:
    known = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
    for setting, value in settings.items():
        if setting not in known:
            raise InputError(f"The recipe has the unknown setting {setting!r}{_suggest(str(setting), list(known))}.")
        choices = [choice for hint in (known[setting], *get_args(known[setting])) for choice in _choices(hint)]
        if choices and value not in choices and value is not None:
            raise InputError(f"The recipe sets {setting} to {value!r}; choose one of {', '.join(choices)}.")


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def _as_default(value: Any) -> Any:
    # YAML reads 5e-5 as a string, which argparse converts as it converts flags; mappings go the way of flags too.
    return json.dumps(value) if isinstance(value, dict) else value


def _suggest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; --help lists all"
