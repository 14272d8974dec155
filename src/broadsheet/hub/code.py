"""The code that travels with a checkpoint, so that it loads where broadsheet is not installed."""

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

from transformers.dynamic_module_utils import get_relative_import_files

from broadsheet.registration import MODELS, FamilyMember
from broadsheet.tokenization.input_checks import InputError


def class_path(cls: type) -> str:
    """Where a class stands in a checkpoint's flat folder, as "modeling_lambert.LambertModel"."""
    return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}"


def model_auto_map(member: FamilyMember) -> dict[str, str]:
    """`auto_map` of config.json: every Auto class that leads to the model type's config and heads."""
    heads = {auto.__name__: class_path(model) for auto, model in member.models.items()}
    return {"AutoConfig": class_path(member.config), **heads}


def processor_auto_map(member: FamilyMember) -> dict[str, str]:
    """`auto_map` of processor_config.json."""
    return {"AutoProcessor": class_path(member.processor)}


def code_files(member: FamilyMember) -> list[Path]:
    """The files of a model type's config, models and processor, and all that they import, sorted by name."""
    entries = {inspect.getfile(cls) for cls in (member.config, member.processor, *member.models.values())}
    found = {Path(entry) for entry in entries}
    for entry in entries:
        found |= {Path(file) for file in get_relative_import_files(entry)}
    return sorted(found)


def add_code(folder: str | Path) -> list[Path]:
    """
    Put the code of a saved model and processor into its folder, and name the classes in its configs.

    Afterwards `AutoModel...from_pretrained(folder, trust_remote_code=True)` works without broadsheet.

    Returns:
        The files written.

    Raises:
        InputError: the folder holds no model of the family.
    """
    folder = Path(folder)
    member = member_of(folder)
    written = [Path(shutil.copy(file, folder / file.name)) for file in code_files(member)]
    for name, text in configs_with_code(folder, member).items():
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


def configs_with_code(folder: Path, member: FamilyMember | None) -> dict[str, str]:
    """
    config.json and processor_config.json as they stand beside the code of `member`, or without it where that is None:
    file name -> text, those that the folder has.
    """
    maps: dict[str, Any] = {"config.json": None, "processor_config.json": None}
    if member is not None:
        maps = {"config.json": model_auto_map(member), "processor_config.json": processor_auto_map(member)}
    texts = {}
    for name, auto_map in maps.items():
        if (folder / name).is_file():
            content = read_json(folder / name)
            content.pop("auto_map", None)
            if auto_map is not None:
                content["auto_map"] = auto_map
            texts[name] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return texts


def member_of(folder: Path) -> FamilyMember:
    """
    The family's member whose model, or failing that whose processor, a folder holds.

    Raises:
        InputError: it holds neither, or one of another family.
    """
    if (folder / "config.json").is_file():
        model_type = read_json(folder / "config.json").get("model_type")
        if model_type not in MODELS:
            raise InputError(
                f"{folder} holds a model of type {model_type!r}, whose code is not Broadsheet's to send along; "
                f"push it without --with-code. The family's types are {', '.join(MODELS)}."
            )
        return MODELS[model_type]
    if (folder / "processor_config.json").is_file():
        name = read_json(folder / "processor_config.json").get("processor_class")
        for member in MODELS.values():
            if member.processor.__name__ == name:
                return member
        raise InputError(f"{folder} holds the processor {name!r}, which is none of Broadsheet's.")
    raise InputError(f"{folder} holds neither config.json nor processor_config.json, so it needs no code.")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; `InputError` where it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}); save the model again.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object; save the model again.")
    return content
