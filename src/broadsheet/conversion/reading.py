"""Reading others' checkpoint folders: safetensors, or pickles by torch's weights_only loader, which runs no code."""

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedConfig

from broadsheet.tokenization.input_checks import InputError


def check_output(folder: Path, target: Path) -> None:
    """Raises InputError where the folder to write to is the checkpoint itself, or a file."""
    if target.resolve() == folder.resolve():
        raise InputError(f"{target} is the checkpoint itself; name another folder to write to.")
    if target.is_file():
        raise InputError(f"{target} is a file; name a folder to write to.")


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder. Raises InputError where there is none or it is broken."""
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder} has no config.json; name the folder of a released checkpoint.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no valid JSON ({error}); download it again.") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} holds no JSON object; download it again.")
    return config


def find_config(checkpoint: str | Path) -> dict[str, Any]:
    """The config.json of a folder or of a repository of the Hub. Raises InputError where none can be read."""
    try:
        return PreTrainedConfig.get_config_dict(str(checkpoint))[0]
    except OSError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{checkpoint} has no configuration that can be read: {reason}") from None


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """
    The tensors of a folder's model.safetensors or pytorch_model.bin, by name.

    Raises:
        InputError: there is neither, the file is damaged, or it holds anything but tensors.
    """
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if safe.is_file():
        try:
            return load_file(safe)
        except (SafetensorError, OSError) as error:
            raise InputError(f"{safe} is damaged or cut short ({error}); download it again.") from error
    if not pickled.is_file():
        raise InputError(f"{folder} has neither model.safetensors nor pytorch_model.bin; download the weights too.")
    try:
        weights = torch.load(pickled, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{pickled} is damaged or holds more than tensors, which could run code when it is read; get the "
            "checkpoint from its authors."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{pickled} is damaged or cut short ({reason}); download it again.") from error
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise InputError(f"{pickled} holds no state dict of tensors; name the folder of a released checkpoint.")
    return dict(weights)


def check_sizes(folder: str, model_class: Any, report: dict[str, Any]) -> None:
    """
    Refuse a model whose encoder transformers began anew where settings and checkpoint differ in size.

    Args:
        folder: of the checkpoint.
        model_class: of the model.
        report: what `from_pretrained` with `output_loading_info=True` and `ignore_mismatched_sizes=True` returned.

    Raises:
        InputError: naming the first parameter, and both sizes.
    """
    prefix = f"{model_class.base_model_prefix}."
    for name, theirs, ours in sorted(report["mismatched_keys"]):
        if name.startswith(prefix):
            raise InputError(
                f"{folder} has {name} of the size {list(theirs)}, but the settings make it {list(ours)}; leave out "
                "the setting that changes it."
            )


def other_labels(fields: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether the settings of a model name other labels (`id2label`) than the checkpoint's configuration."""
    labels = settings.get("id2label")
    return labels is not None and list((fields.get("id2label") or {}).values()) != list(labels.values())


@torch.no_grad()
def renew_outputs(model: Any, fields: dict[str, Any], settings: dict[str, Any]) -> None:
    """
    Begin the layer over the labels anew where a checkpoint is loaded for labels of other names: as many would fit.

    Args:
        model: with the checkpoint's weights, in place.
        fields: the checkpoint's configuration.
        settings: of the model; `id2label` holds the labels asked for.
    """
    head = getattr(model, "classifier", None)
    if head is None or not other_labels(fields, settings):
        return
    owner, name = (head, "out_proj") if hasattr(head, "out_proj") else (model, "classifier")
    old = getattr(owner, name)
    new = type(old)(old.in_features, old.out_features, old.bias is not None).to(old.weight)
    model._init_weights(new)
    setattr(owner, name, new)
