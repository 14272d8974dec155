"""The model and processor of a run: from a checkpoint, or built from a model type."""

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoProcessor, AutoTokenizer, PreTrainedConfig

from broadsheet.conversion.lambert import load_lambert, read_tokenizer
from broadsheet.conversion.long_layoutlm import POSITIONS, SOURCES, load_long_layoutlm, long_layoutlm_processor
from broadsheet.conversion.reading import check_sizes, renew_outputs
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.word_tokenization import special_tokens
from broadsheet.training.arguments import ModelArguments, parse_settings
from broadsheet.training.baseline_starts import STARTS, start_baseline
from broadsheet.training.baselines import BASELINES, TRAINABLE, num_positions, position_settings
from broadsheet.training.tokenizer import train_tokenizer

CONVERTED = {"lambert": ("bert",), "long_layoutlm": SOURCES, **STARTS}
"""Further types that a model starts from, not by `from_pretrained` but by converting the checkpoint."""


def build(
    model: ModelArguments,
    task: Any,
    labels: list[str],
    training_words: Iterable[list[str]],
    checkpoint: str | None,
    max_length: int | None = None,
) -> tuple[Any, Any]:
    """
    The model and its processor.

    Args:
        model: what to start from.
        task: what the model is for: its name and the Auto class of its models (a `Task`, or `MaskedLM`).
        labels: the label names of the data; none for masked LM.
        training_words: the words of each training document, to train a tokenizer on where none is given.
        checkpoint: the checkpoint of this run to continue from; it decides everything.
        max_length: tokens of a window, which a new model of learned positions must reach; its default when None.

    Raises:
        InputError: where the arguments name no model, two models, an unknown model, or one for other labels.
    """
    if checkpoint is not None:
        return load(checkpoint, task)
    if model.model_name_or_path is None:
        if model.model_type is None:
            raise InputError(
                "There is no model; set --model_name_or_path to a checkpoint, or --model_type to build one "
                f"({', '.join(TRAINABLE)})."
            )
        return _build_new(model, task, labels, training_words, max_length)
    config = load_config(model.model_name_or_path)
    if model.model_type not in (None, config.model_type):
        return _build_from_parent(model, config, task, labels, max_length)
    if model.config_overrides:
        raise InputError(
            "config_overrides are for a new model or type; a checkpoint brings its own settings, leave them out."
        )
    heads = [name for name in config.architectures or [] if name.endswith(_head_suffix(task))]
    known = list((config.id2label or {}).values())
    replace = bool(heads and labels) and known != labels
    if replace and not model.new_head:
        raise InputError(
            f"The head of {model.model_name_or_path} was trained for the labels {', '.join(known)}, but the data has "
            f"{', '.join(labels)}; set --new_head to train a new head."
        )
    network = _read_weights(
        head_class(config.model_type, task),
        model.model_name_or_path,
        ignore_mismatched_sizes=replace,
        **_label_settings(labels),
    )
    if replace:
        _renew_head(network)
    _check_length(model.model_name_or_path, network.config, max_length)
    processor = load_processor(model.model_name_or_path, config.model_type)
    _configure(processor, model, labels, network.config)
    return network, processor


def _renew_head(network: Any) -> None:
    """Replace what stands around the base model by that of a new model: a head for other labels may fit in shape."""
    for name, module in type(network)(network.config).named_children():
        if name != network.base_model_prefix:
            setattr(network, name, module)


def load(path: str, task: Any) -> tuple[Any, Any]:
    """
    A model saved by a run, and its processor.

    Raises:
        InputError: where it is no checkpoint of a known model with a head for the task.
    """
    config = load_config(path)
    suffix = _head_suffix(task)
    if not any(name.endswith(suffix) for name in config.architectures or []):
        raise InputError(
            f"{path} holds {', '.join(config.architectures or ['no model'])}, not a model for "
            f"{task.name.replace('_', ' ')}; fine-tune it for the task first."
        )
    return _read_weights(head_class(config.model_type, task), path), load_processor(path, config.model_type)


def _read_weights(model_class: Any, path: str, **settings: Any) -> Any:
    try:
        return model_class.from_pretrained(path, **settings)
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"The weights of {path} cannot be read ({reason[:300]}); save or copy them again.") from error


def head_class(model_type: str, task: Any) -> Any:
    """
    The class of a model type with a head for the task.

    Not the Auto class itself: AutoModelForQuestionAnswering does not know that LayoutLM answers questions.

    Raises:
        InputError: where it has none.
    """
    found = TRAINABLE[model_type].models.get(task.auto_model)
    if found is None:
        able = ", ".join(name for name, member in TRAINABLE.items() if task.auto_model in member.models)
        raise InputError(f"A {model_type} has no head for {task.name.replace('_', ' ')}; choose one of {able}.")
    return found


def load_config(path: str) -> PreTrainedConfig:
    """The configuration of a checkpoint. Raises `InputError` where there is none, or of an unknown model."""
    try:
        config = AutoConfig.from_pretrained(path)
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path} holds no configuration that can be read ({reason[:300]}); name the folder of a saved model."
        ) from None
    if config.model_type not in TRAINABLE:
        raise InputError(f"{path} is a {config.model_type} model; this command takes {', '.join(TRAINABLE)}.")
    return config


def load_processor(path: str, model_type: str) -> Any:
    """
    The processor saved with a checkpoint of that model type; a baseline's is made around the checkpoint's tokenizer.

    Raises:
        InputError: where there is none.
    """
    if model_type in BASELINES and not _has_processor(path):
        return BASELINES[model_type].processor(read_tokenizer(path))
    if not _has_processor(path):
        raise InputError(
            f"{path} has no processor_config.json; save the model's processor there with processor.save_pretrained."
        )
    # The baselines are transformers' own models, whose configs lead AutoProcessor elsewhere.
    loader = BASELINES[model_type].processor if model_type in BASELINES else AutoProcessor
    return loader.from_pretrained(path)


def _build_new(
    model: ModelArguments, task: Any, labels: list[str], training_words: Iterable[list[str]], max_length: int | None
) -> tuple[Any, Any]:
    if model.model_type not in TRAINABLE:
        raise InputError(f"There is no model type {model.model_type!r}; choose one of {', '.join(TRAINABLE)}.")
    member = TRAINABLE[model.model_type]
    model_class = head_class(model.model_type, task)
    if model.tokenizer_name is None:
        tokenizer: Any = train_tokenizer(
            (" ".join(words) for words in training_words), vocab_size=model.tokenizer_vocab_size
        )
    else:
        try:
            tokenizer = AutoTokenizer.from_pretrained(model.tokenizer_name)
        except (OSError, ValueError) as error:
            raise InputError(
                f"There is no tokenizer in {model.tokenizer_name} ({' '.join(str(error).split())[:200]}); name a "
                "folder made by broadsheet.training.tokenizer, or leave it out to train one."
            ) from None
    settings = parse_settings(model.config_overrides, "config_overrides")
    _check_settings(settings, model.model_type)
    given = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **_label_settings(labels)}
    if task.name == "question_answering" and hasattr(member.config, "type_vocab_size"):
        types = special_tokens(tokenizer, with_question=True).words_type + 1
        given["type_vocab_size"] = max(types, member.config.type_vocab_size)
    if max_length is not None:
        given |= position_settings(model.model_type, max_length, tokenizer.pad_token_id)
    try:
        config = member.config(**{**given, **settings})
    except (StrictDataclassError, ValueError, TypeError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"The settings of the new model do not fit: {reason}") from None
    network = model_class._from_config(config)
    _set_limit(tokenizer, config)
    processor = member.processor(tokenizer)
    _configure(processor, model, labels, config)
    return network, processor


def _build_from_parent(
    model: ModelArguments, config: PreTrainedConfig, task: Any, labels: list[str], max_length: int | None
) -> tuple[Any, Any]:
    """A model of the type that was asked for from a checkpoint of another type, where it can start from that."""
    path, wanted, found = str(model.model_name_or_path), str(model.model_type), config.model_type
    if wanted not in TRAINABLE:
        raise InputError(f"There is no model type {wanted!r}; choose one of {', '.join(TRAINABLE)}.")
    if wanted == "skimming_mask":
        raise InputError(
            f"SkimmingMask is made of two checkpoints, and {path} is one; build it with SkimmingMaskFor..."
            "from_skimformer_and_backbone(skimformer, backbone, top_k), save it, and name its folder."
        )
    member = TRAINABLE[wanted]
    parents = [*getattr(member.config, "parents", ()), *CONVERTED.get(wanted, ())]
    if found not in parents:
        starts = f"a {wanted} starts from {', '.join(dict.fromkeys(parents))} too" if parents else "it starts anew"
        raise InputError(
            f"{path} is a {found} model, not a {wanted}, and cannot become one; leave --model_type out, or name "
            f"another checkpoint ({starts})."
        )
    settings = parse_settings(model.config_overrides, "config_overrides")
    _check_settings(settings, wanted)
    settings |= _label_settings(labels)
    model_class = head_class(wanted, task)
    try:
        if wanted == "lambert":
            network: Any = load_lambert(path, model_class, **settings)
        elif wanted in BASELINES:
            network = start_baseline(wanted, path, model_class, max_length, **settings)
        elif wanted == "long_layoutlm" and found in SOURCES:
            network = load_long_layoutlm(path, model_class, max_length or POSITIONS, **settings)
        else:
            # Only a head may have another size: that for other labels.
            network, report = model_class.from_pretrained(
                path, ignore_mismatched_sizes=True, output_loading_info=True, **settings
            )
            check_sizes(path, model_class, report)
            renew_outputs(network, config.to_dict(), settings)
    except (OSError, StrictDataclassError, ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"No {wanted} can start from {path}: {reason[:300]}") from None
    tokenizer = read_tokenizer(path)
    _check_length(path, network.config, max_length)
    _set_limit(tokenizer, network.config)
    converted = wanted == "long_layoutlm" and found in SOURCES
    processor = long_layoutlm_processor(tokenizer, found) if converted else member.processor(tokenizer)
    _configure(processor, model, labels, network.config)
    return network, processor


def _check_length(path: str, config: Any, max_length: int | None) -> None:
    """Refuse windows that a baseline's table of positions does not reach; the family's models do so themselves."""
    reached = num_positions(config)
    if config.model_type in BASELINES and reached is not None and max_length is not None and max_length > reached:
        raise InputError(
            f"A {config.model_type} from {path} reads up to {reached} tokens; set --max_length, now {max_length}, to "
            "that at most."
        )


def _set_limit(tokenizer: Any, config: Any) -> None:
    """Let the tokenizer name as many tokens as the model reads: whoever loads the model then cuts such windows."""
    reached = num_positions(config)
    if reached is not None:
        tokenizer.model_max_length = reached


def _has_processor(path: str) -> bool:
    return not os.path.isdir(path) or os.path.isfile(os.path.join(path, "processor_config.json"))


def _check_settings(settings: dict[str, Any], model_type: str) -> None:
    known = {field.name for field in dataclasses.fields(TRAINABLE[model_type].config)}
    for setting in settings:
        if setting not in known:
            raise InputError(f"The configuration of {model_type} has no setting {setting!r}.")


def _label_settings(labels: list[str]) -> dict[str, Any]:
    if not labels:
        return {}
    return {"id2label": dict(enumerate(labels)), "label2id": {name: index for index, name in enumerate(labels)}}


def _configure(processor: Any, model: ModelArguments, labels: list[str], config: Any) -> None:
    processor.id2label = dict(enumerate(labels)) or None
    if hasattr(processor, "configure"):
        processor.configure(config)
    for name in ("subword_boxes", "page_stacking"):
        value = getattr(model, name)
        if value is not None and not hasattr(processor, name):
            able = "lambert, long_layoutlm" if name == "page_stacking" else "the family"
            raise InputError(f"A {config.model_type} has no {name}; leave it out, or choose a model of {able}.")
        if value is not None:
            setattr(processor, name, value)


def _head_suffix(task: Any) -> str:
    # ForTokenClassification, ForMaskedLM.
    return "For" + "".join(part.capitalize() for part in task.name.split("_")).replace("Lm", "LM")
