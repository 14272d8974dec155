"""The finished runs of a table -> its numbers, its text and its curves."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from broadsheet.results.record import ResultTable
from broadsheet.results.statistics import summarise_curves, summarise_seeds
from broadsheet.results.table_recipe import Run, TableRecipe
from broadsheet.tokenization.input_checks import InputError


def look_up(content: Any, path: str) -> Any:
    """
    What stands at a path such as `metrics.test.perplexity`.

    Raises:
        InputError: where nothing does.
    """
    for part in path.split("."):
        if isinstance(content, list) and part.isdigit() and int(part) < len(content):
            content = content[int(part)]
        elif isinstance(content, dict) and part in content:
            content = content[part]
        else:
            raise InputError(f"There is no {path} in the results; correct the path.")
    return content


def assemble(table: TableRecipe, results: dict[Run, dict[str, Any]]) -> dict[str, Any]:
    """
    The numbers of a table.

    Returns:
        row -> `title`, `columns` (column -> mean, interval, values), `paper`, `seeds`, `curve`, and `runs`, what each
        seed's run says of its model, data and budget.
    """
    rows = {}
    for name, row in table.rows.items():
        own = {run.seed: result for run, result in results.items() if run.row == name}
        rows[name] = {
            "title": row.get("title", name),
            "seeds": list(own),
            "columns": {
                column: summarise_seeds([look_up(result, str(where["path"])) for result in own.values()])
                for column, where in table.columns.items()
            },
            "paper": row.get("paper", {}),
            "curve": summarise_curves([look_up(result, table.curve["path"]) for result in own.values()])
            if table.curve
            else [],
            "runs": [
                {key: result.get(key) for key in ("model_type", "parameters", "data", "budget", "seeds", "remarks")}
                for result in own.values()
            ],
        }
    return rows


def make_text(table: TableRecipe, scale: str, rows: dict[str, Any]) -> ResultTable:
    """The table as it is shown, the paper's numbers beside ours."""
    seeds = len(next(iter(rows.values()))["seeds"])
    columns, lines = ["", *(part for name in table.columns for part in (name, f"{name}, paper"))], []
    for row in rows.values():
        line = [row["title"]]
        for name, where in table.columns.items():
            digits = where.get("digits", 2)
            summary, paper = row["columns"][name], row["paper"].get(name)
            text = f"{summary['mean']:.{digits}f}"
            if summary["interval"]:
                text += " ({:.{d}f} to {:.{d}f})".format(*summary["interval"], d=digits)
            line += [text, "" if paper is None else f"{paper:.{digits}f}"]
        lines.append(line)
    over = f"means over {seeds} seeds with the mean's 95 % interval" if seeds > 1 else "one seed"
    return ResultTable(f"{table.title} ({table.paper}), {scale} scale: {over}.", columns, lines)


def describe_data(rows: dict[str, Any]) -> tuple[Any, list[str]]:
    """The runs' data, and a sentence on how they differ where not all had the same."""
    all_data = [run["data"] for row in rows.values() for run in row["runs"]]
    first = all_data[0]
    if all(data == first for data in all_data):
        return first, []
    differences = []
    for name in first:
        values = {json.dumps(data.get(name)): data.get(name) for data in all_data}
        # Counts of windows and tokens follow from the settings.
        if len(values) > 1 and not any(isinstance(value, dict) for value in values.values()):
            differences.append(f"{name} ({', '.join(str(value) for value in values.values())})")
    if any(_sizes(data) != _sizes(first) for data in all_data):
        differences.append("the documents of each split")
    return first, [f"The runs' data differ in {' and '.join(differences) or 'details'}: see the record."]


def _sizes(data: dict[str, Any]) -> Any:
    splits = data.get("splits") or {}
    return {split: [sizes.get(name) for name in ("documents", "words")] for split, sizes in splits.items()}


def draw_curves(table: TableRecipe, rows: dict[str, Any], path: Path) -> bool:
    """The rows' curves, means over seeds in their range; False where there are none."""
    curves = {row["title"]: row["curve"] for row in rows.values() if row["curve"]}
    if table.curve is None or not curves:
        return False
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for title, curve in curves.items():
        x, mean, low, high = zip(*curve, strict=True)
        (line,) = axes.plot(x, mean, "o-", markersize=3, label=title)
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_yscale("log")
    for formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatter("{x:g}")
    axes.set_xlabel(table.curve["x"])
    axes.set_ylabel(table.curve["y"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    return True
