"""A table as a recipe: a YAML file that names its rows, their runs, seeds, columns and the paper's numbers."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from broadsheet.tokenization.input_checks import InputError

DATA = "${data}"
REFERENCE = re.compile(r"\$\{run:([\w/-]+)\}")
KEYS = {"title", "paper", "module", "columns", "curve", "resume", "args", "scales", "rows"}
ROW_KEYS = {"title", "args", "paper"}
SCALE_KEYS = {"seeds", "recipe", "args", "by_model", "note", "parts"}
PART_KEYS = {"module", "recipe", "args", "resume", "seed"}


@dataclasses.dataclass(frozen=True)
class Run:
    """
    One run of a training command.

    Attributes:
        row: the row that it belongs to.
        seed: its seed.
        module: what is run, as `python -m MODULE`.
        arguments: its flags, without the output folder; `${run:IDENTITY}` stands for the folder of a run it needs.
        identity: a name that changes with anything that changes the run, and with nothing else: tables share runs.
        resume: flags that make it go on when it was interrupted; without any it starts anew in an empty folder.
        needs: the runs whose folders it reads, which come first.
        is_part: it only makes what rows need, and need not write results.
    """

    row: str
    seed: int
    module: str
    arguments: tuple[str, ...]
    identity: str
    resume: tuple[str, ...] = ()
    needs: "tuple[Run, ...]" = ()
    is_part: bool = False


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
        scales: name -> {seeds, recipe: a first argument without flag, args, by_model: model type -> args, note,
            parts: name -> {module, recipe, args, resume, seed}}. A part is a command whose output rows start from;
            it inherits nothing, and runs once per seed of the table, or once where it has a `seed` of its own.
        rows: name -> {title, args, paper: column -> number}. In args of rows and parts `${run:PART}` and
            `${run:TABLE/ROW}` stand for the folders that a part, or a row of another table at the same scale, wrote
            with the same seed.
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
        return [self.run_of(row, seed, scale, data) for seed in chosen["seeds"] for row in self.rows]

    def run_of(self, row: str, seed: int, scale: str, data: str | None) -> Run:
        """The run of a row. Raises `InputError` for an unknown row, or one that needs an unknown run."""
        if row not in self.rows:
            raise InputError(f"{self.name} has no row {row}; choose from {', '.join(self.rows)}.")
        chosen = self.scales[scale]
        settings: dict[str, Any] = {}
        own = self.rows[row].get("args", {})
        by_model = chosen.get("by_model", {}).get(own.get("model_type", self.args.get("model_type")), {})
        for layer in (self.args, chosen.get("args", {}), by_model, own, {"seed": seed}):
            settings = _merge(settings, layer)
        return self._run(row, seed, scale, data, self.module, chosen.get("recipe"), settings, self.resume, False)

    def _part(self, name: str, seed: int, scale: str, data: str | None) -> Run:
        part = self.scales[scale]["parts"][name]
        seed = part.get("seed", seed)
        settings = {**part.get("args", {}), "seed": seed}
        return self._run(
            name, seed, scale, data, part["module"], part.get("recipe"), settings, part.get("resume", {}), True
        )

    def _run(
        self,
        name: str,
        seed: int,
        scale: str,
        data: str | None,
        module: str,
        recipe: str | None,
        settings: dict[str, Any],
        resume: Mapping[str, Any],
        is_part: bool,
    ) -> Run:
        needed: dict[str, Run] = {}

        def refer(reference: re.Match[str]) -> str:
            run = self._find(reference[1], seed, scale, data)
            needed[run.identity] = run
            return f"${{run:{run.identity}}}"

        settings = _replace(settings, lambda text: REFERENCE.sub(refer, text))
        first = [recipe] if recipe else []
        # The data's place is no part of the identity: the same run elsewhere is the same run.
        identity = [module, settings, [_recipe_text(each) for each in first]]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return Run(
            name,
            seed,
            module,
            (*first, *_flags(_replace(settings, lambda text: _fill(text, data)))),
            f"seed{seed}-{digest[:12]}",
            tuple(_flags(dict(resume))),
            tuple(needed.values()),
            is_part,
        )

    def _find(self, name: str, seed: int, scale: str, data: str | None) -> Run:
        """The run that `${run:NAME}` refers to."""
        table, separator, row = name.partition("/")
        if separator:
            other = read_table(table)
            if scale not in other.scales:
                raise InputError(
                    f"{self.name} needs {name} at the scale {scale}, which {table} does not have; add it."
                )
            return other.run_of(row, seed, scale, data)
        parts = self.scales[scale].get("parts", {})
        if name not in parts:
            raise InputError(
                f"{self.name} has no part {name} in scale {scale}; its parts are {', '.join(parts) or 'none'}."
            )
        return self._part(name, seed, scale, data)


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
    for scale in content["scales"].values():
        parts += [(f" in part {name}", part, PART_KEYS) for name, part in scale.get("parts", {}).items()]
    for place, part, keys in parts:
        if unknown := part.keys() - keys:
            raise InputError(f"The table {path} has the unknown key {sorted(unknown)[0]}{place}; remove it.")
    for name, row in content["rows"].items():
        if unknown := row.get("paper", {}).keys() - content["columns"].keys():
            raise InputError(f"The table {path} has no column {sorted(unknown)[0]}, which row {name} quotes; add it.")
    for name, scale in content["scales"].items():
        if not scale.get("seeds"):
            raise InputError(f"The table {path} has no seeds in scale {name}; list at least one.")
        for part, described in scale.get("parts", {}).items():
            if "module" not in described:
                raise InputError(f"The table {path} does not say which module part {part} runs; add it.")


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` over `below`; mappings are merged key by key."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _replace(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every text in it changed."""
    if isinstance(value, dict):
        return {key: _replace(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_replace(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


def _fill(text: str, data: str | None) -> str:
    if DATA not in text:
        return text
    if data is None:
        raise InputError("The runs of this table need data; name its folder with --data, or set BROADSHEET_DATA.")
    return text.replace(DATA, data)


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
