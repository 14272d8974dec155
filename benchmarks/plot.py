"""Pictures of measured entries."""

import re
import textwrap
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.entry import Benchmark

COLORS = ("#4c9f4c", "#3b6fb6", "#e08a2e", "#8a5fb0", "#b04a4a", "#4aa3a8")
GIB = 1 << 30
# Letters of a title above one panel.
WIDTH = 60


def draw(benchmark: Benchmark, measured: dict[str, dict[str, Any]], path: Path) -> None:
    """Time, and memory where it was measured: against the length where there are several, else one bar each."""
    panels = [("seconds" if benchmark.step == "generation" else "seconds per step", "time")]
    if benchmark.memory:
        panels.append(("peak of the process, GiB", "memory"))
    figure = Figure(figsize=(5.2 * len(panels), 3.6), layout="constrained")
    dropout = f", dropout {benchmark.dropout:g}" if benchmark.step == "training" else ""
    title = f"{benchmark.title}{dropout}, batch\N{NO-BREAK SPACE}{benchmark.batch_size}"
    figure.suptitle(textwrap.fill(title, WIDTH * len(panels)), fontsize=10)
    for axes, (label, quantity) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        (_lines if len(benchmark.lengths) > 1 else _bars)(axes, benchmark, measured, quantity)
    path.parent.mkdir(parents=True, exist_ok=True)
    # No version or date in the file: the same numbers give the same bytes.
    figure.savefig(path, dpi=130, metadata={"Software": None})


def _value(result: dict[str, Any], quantity: str) -> tuple[float, float, float]:
    if quantity == "memory":
        return (result["memory"]["peak"] / GIB,) * 3
    return (result["wall_s"]["median"], *result["wall_s"]["quartiles"])


def _lines(axes: Axes, benchmark: Benchmark, measured: dict[str, dict[str, Any]], quantity: str) -> None:
    for name, color in zip(benchmark.contestants, COLORS, strict=False):
        values = [_value(measured[str(length)][name], quantity) for length in benchmark.lengths]
        middle, low, high = zip(*values, strict=True)
        axes.plot(benchmark.lengths, middle, "o-", color=color, label=name)
        axes.fill_between(benchmark.lengths, low, high, color=color, alpha=0.2, linewidth=0)
    # Even scales, on which what grows with the length is a line; the labels of the shortest would overlap.
    least = max(benchmark.lengths) / 10
    axes.set_xticks(benchmark.lengths, [str(length) if length > least else "" for length in benchmark.lengths])
    axes.set_xlabel("tokens")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _bars(axes: Axes, benchmark: Benchmark, measured: dict[str, dict[str, Any]], quantity: str) -> None:
    results = measured[str(benchmark.lengths[0])]
    for place, (name, color) in enumerate(zip(benchmark.contestants, COLORS, strict=False)):
        middle, low, high = _value(results[name], quantity)
        axes.bar(place, middle, yerr=[[middle - low], [high - middle]], color=color, width=0.65, capsize=3)
        if quantity == "time" and benchmark.products:
            products = results[name]["products"]["wall_s"]["median"]
            axes.plot([place - 0.32, place + 0.32], [products] * 2, color="black", linewidth=1.2)
    if quantity == "time" and benchmark.products:
        axes.set_xlabel("black line: the matrix products alone")
    names = [_in_lines(name, 16 if len(results) < 6 else 12) for name in benchmark.contestants]
    axes.set_xticks(range(len(names)), names, fontsize=8)


def _in_lines(name: str, width: int) -> str:
    """In one line long names would overlap: broken before a variant, and at a hyphen."""
    return "\n+ ".join(textwrap.fill(part, width) for part in re.split(r"\+(?=[a-z])", name))
