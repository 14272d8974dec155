"""What of a folder goes to the Hub: weights as safetensors, configs, tokenizer, card; nothing pickled."""

import dataclasses
import re
from pathlib import Path
from typing import Literal

from broadsheet.tokenization.input_checks import InputError

Kind = Literal["model", "processor", "tokenizer", "dataset"]

# What Trainer leaves beside a model to go on from; pickles, and of no use to others.
_OF_TRAINING = re.compile(r"(training_args\.bin|(optimizer|scheduler|scaler)\.(pt|bin)|rng_state.*\.pth)")
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_NEVER = (".py", ".pyc", ".lock", ".tmp")
WEIGHTS = re.compile(r"(model|pytorch_model).*\.(safetensors|safetensors\.index\.json|bin|bin\.index\.json)")


@dataclasses.dataclass(frozen=True)
class Contents:
    """
    A folder, read for an upload.

    Attributes:
        kind: what it holds.
        files: the files to send, at its top level.
        left_out: names of those that stay, because they are of a training run, pickled, code or hidden.
    """

    kind: Kind
    files: list[Path]
    left_out: list[str]


def read_contents(folder: Path) -> Contents:
    """
    Look through a folder.

    Raises:
        InputError: there is no such folder, nothing in it to push, or a model whose weights are missing, cut off or
            pickled.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; name the folder of a saved model, processor or dataset.")
    kind = _kind(folder)
    files, left_out = [], []
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") or path.suffix in _NEVER
        if path.is_dir():
            left_out += [] if hidden or path.name == "__pycache__" else [f"{path.name}/"]
        elif hidden or path.suffix in _PICKLED:
            left_out.append(path.name)
        else:
            files.append(path)
    if kind == "model":
        _check_weights(folder, files, left_out)
    return Contents(kind, files, left_out)


def _kind(folder: Path) -> Kind:
    if (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    ):
        return "dataset"
    for name, kind in (
        ("config.json", "model"),
        ("processor_config.json", "processor"),
        ("tokenizer.json", "tokenizer"),
    ):
        if (folder / name).is_file():
            return kind  # type: ignore[return-value]
    raise InputError(
        f"{folder} holds no config.json, processor_config.json, tokenizer.json or saved dataset; name the folder that "
        "save_pretrained, save_to_disk or a training run wrote."
    )


def _check_weights(folder: Path, files: list[Path], left_out: list[str]) -> None:
    from safetensors import SafetensorError, safe_open

    weights = [path for path in files if path.suffix == ".safetensors"]
    if not weights:
        pickled = [name for name in left_out if name.endswith(_PICKLED) and not _OF_TRAINING.fullmatch(name)]
        if pickled:
            raise InputError(
                f"The weights of {folder} are pickled ({pickled[0]}), and pickles are not pushed; load the model and "
                "save it with save_pretrained, or convert it with `broadsheet convert`."
            )
        raise InputError(f"{folder} has a config.json but no model.safetensors; save the model with save_pretrained.")
    for path in weights:
        try:
            with safe_open(path, "pt") as opened:
                opened.keys()
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged or cut off ({error}); save the model again.") from None
    for index in (path for path in files if path.name.endswith(".safetensors.index.json")):
        from broadsheet.hub.code import read_json

        named = set(read_json(index).get("weight_map", {}).values())
        missing = sorted(named - {path.name for path in weights})
        if missing:
            raise InputError(f"{index} names {missing[0]}, which is not there; save the model again.")
