"""A table as a recipe: a YAML file that names its rows, their runs, seeds, columns and the paper's numbers."""

import dataclasses
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from broadsheet.tokenization.input_checks import InputError

DATA = "${data}"
KEYS = {"title", "paper", "module", "columns", "curve", "resume", "args", "scales", "rows"}
ROW_KEYS = {"title", "args", "paper"}
SCALE_KEYS = {"seeds", "recipe", "args", "by_model", "note"}


@dataclasses.dataclass(frozen=True)
class Run:
    """
    One run of a training command.

    Attributes:
        row: the row that it belongs to.
        seed: its seed.
        module: what is run, as `python -m MODULE`.
        arguments: its flags, without the output folder.
        identity: a name that changes with anything that changes the run, and with nothing else: tables share runs.
    """

    row: str
    seed: int
    module: str
    arguments: tuple[str, ...]
    identity: str


@dataclasses.dataclass(frozen=True)
class TableRecipe:
    """
    A table.

    Attributes:
        name: the file's name without suffix.
        title: one line for people.
        paper: where the paper has it.
        module: the training command, run as `python -m MODULE`; it writes `results.json` into `--output_dir`, last.
        columns: name -> {path: where in results.json, digits}.
        curve: {path, x, y}: where results.json has [[x, y], ...]; None for no curve.
        resume: flags that make an interrupted run go on; without any it starts anew in an empty folder.
        args: flags of all runs, below those of the scale, of the scale's `by_model`, of the row.
        scales: name -> {seeds, recipe: a first argument without flag, args, by_model: model type -> args, note}.
        rows: name -> {title, args, paper: column -> number}.
    """

    name: str
    title: str
    paper: str
    module: str
    columns: dict[str, dict[str, Any]]
    scales: dict[str, dict[str, Any]]
    rows: dict[str, dict[str, Any]]
    curve: dict[str, str] | None = None
    resume: dict[str, Any] = dataclasses.field(default_factory=dict)
    args: dict[str, Any] = dataclasses.field(default_factory=dict)

    def runs(self, scale: str, data: str | None) -> list[Run]:
        """
        All runs of a scale, seed by seed, so that a first comparison stands early.

        Args:
            scale: one of `scales`.
            data: what `${data}` in flags stands for.

        Raises:
            InputError: for an unknown scale, or where the runs need data and none is given.
        """
        if scale not in self.scales:
            raise InputError(f"{self.name} has no scale {scale}; choose from {', '.join(self.scales)}.")
        chosen = self.scales[scale]
        return [self._run(row, seed, chosen, data) for seed in chosen["seeds"] for row in self.rows]

    def _run(self, row: str, seed: int, scale: dict[str, Any], data: str | None) -> Run:
        settings: dict[str, Any] = {}
        own = self.rows[row].get("args", {})
        by_model = scale.get("by_model", {}).get(own.get("model_type", self.args.get("model_type")), {})
        for layer in (self.args, scale.get("args", {}), by_model, own, {"seed": seed}):
            settings = _merge(settings, layer)
        first = [scale["recipe"]] if scale.get("recipe") else []
        # The data's place is no part of the identity: the same run elsewhere is the same run.
        identity = [self.module, settings, [_recipe_text(name) for name in first]]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return Run(row, seed, self.module, (*first, *_flags(_fill(settings, data))), f"seed{seed}-{digest[:12]}")


def shipped_tables() -> dict[str, Path]:
    """The tables that come with the package, by name."""
    folder = Path(str(resources.files("broadsheet"))) / "recipes" / "tables"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_table(name: str) -> TableRecipe:
    """
    Read a table's recipe.

    Args:
        name: of one that comes with the package, or the path of a YAML file.

    Raises:
        InputError: where it is missing or malformed.
    """
    path = shipped_tables().get(name, Path(name))
    if not path.is_file():
        raise InputError(f"There is no table {name}; choose from {', '.join(shipped_tables())}, or name a YAML file.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(f"The table {path} is not valid YAML: {' '.join(str(error).split())}.") from None
    _check(path, content)
    return TableRecipe(name=path.stem, **content)


def _check(path: Path, content: Any) -> None:
    if not isinstance(content, dict):
        raise InputError(f"The table {path} is no mapping; start it with title, module, columns, scales and rows.")
    missing = {"title", "paper", "module", "columns", "scales", "rows"} - content.keys()
    if missing:
        raise InputError(f"The table {path} lacks {', '.join(sorted(missing))}; add it.")
    parts = [("", content, KEYS)]
    parts += [(f" in row {name}", row, ROW_KEYS) for name, row in content["rows"].items()]
    parts += [(f" in scale {name}", scale, SCALE_KEYS) for name, scale in content["scales"].items()]
    for place, part, keys in parts:
        if unknown := part.keys() - keys:
            raise InputError(f"The table {path} has the unknown key {sorted(unknown)[0]}{place}; remove it.")
    for name, row in content["rows"].items():
        if unknown := row.get("paper", {}).keys() - content["columns"].keys():
            raise InputError(f"The table {path} has no column {sorted(unknown)[0]}, which row {name} quotes; add it.")
    for name, scale in content["scales"].items():
        if not scale.get("seeds"):
            raise InputError(f"The table {path} has no seeds in scale {name}; list at least one.")


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` over `below`; mappings are merged key by key."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _fill(value: Any, data: str | None) -> Any:
    if isinstance(value, dict):
        return {key: _fill(part, data) for key, part in value.items()}
    if isinstance(value, list):
        return [_fill(part, data) for part in value]
    if isinstance(value, str) and DATA in value:
        if data is None:
            raise InputError("The runs of this table need data; name its folder with --data, or set BROADSHEET_DATA.")
        return value.replace(DATA, data)
    return value


def _flags(settings: dict[str, Any]) -> list[str]:
    flags = []
    for name, value in settings.items():
        if value is None:
            continue
        values = value if isinstance(value, list) else [json.dumps(value) if isinstance(value, dict) else value]
        flags += [f"--{name}", *map(str, values)]
    return flags


def _recipe_text(name: str) -> str:
    shipped = Path(str(resources.files("broadsheet"))) / "recipes" / f"{name.removesuffix('.yaml')}.yaml"
    path = Path(name) if Path(name).is_file() else shipped
    return path.read_text(encoding="utf-8") if path.is_file() else name
