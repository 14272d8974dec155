"""Pictures of the top-k operators, laid out as Figures 5 and 6 of the Pyramidion paper."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

LABELS = {"nccs": "nCCS with the true top-k", "cpu_s": "milliseconds, forward and backward"}
COLORS = ("#222222", "#c0392b", "#e08a2e", "#8a5fb0", "#3b6fb6", "#4c9f4c", "#7f8c8d", "#17a2b8", "#b08d57", "#d86fa8")
MARKERS = "osD^vPX*<>"


def draw(curves: dict[tuple[int, int], dict[str, Any]], quantity: str, names: list[str | None], path: Path) -> None:
    """
    A panel for each k, n to the right, and one for the largest n, k to the right.

    Args:
        curves: (n, k) -> operator -> `quantity`: a number, or a summary whose median is drawn.
        quantity: "nccs" or "cpu_s".
        names: the operators in the legend's order; None for one that keeps its color free.
        path: the PNG file.
    """
    longest = max(n for n, _ in curves)
    several = [k for k in sorted({k for _, k in curves}) if sum(each == k for _, each in curves) > 1]
    panels: list[tuple[str, str, dict[int, dict[str, Any]]]] = [
        (f"k = {k:,}", "n", {n: found for (n, each), found in curves.items() if each == k}) for k in several
    ]
    panels.append((f"n = {longest:,}", "k", {k: found for (n, k), found in curves.items() if n == longest}))
    figure = Figure(figsize=(3.3 * len(panels), 4.2), layout="constrained")
    every = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (title, variable, points) in zip(every, panels, strict=True):
        _panel(axes, points, quantity, names)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(variable)
    every[0].set_ylabel(LABELS[quantity])
    # Not every operator is in every panel.
    handles = {text: line for axes in every for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    shown = [name for name in names if name is not None and name in handles]
    figure.legend(
        [handles[name] for name in shown], shown, loc="outside lower center", ncols=5, frameon=False, fontsize=8
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def _panel(axes: Axes, points: dict[int, dict[str, Any]], quantity: str, names: list[str | None]) -> None:
    for place, name in enumerate(names):
        along = sorted(x for x, found in points.items() if name in found)
        if name is None or not along:
            continue
        values = [points[x][name][quantity] for x in along]
        heights = [1e3 * value["median"] if isinstance(value, dict) else value for value in values]
        style: dict[str, Any] = {"color": COLORS[place], "marker": MARKERS[place], "markersize": 4, "linewidth": 1.2}
        axes.plot(along, heights, linestyle="--" if place % 2 else "-", label=name, **style)
    axes.set_xscale("log", base=2)
    ticks = sorted(points)
    axes.set_xticks(ticks, [str(x) for x in ticks], fontsize=8)
    axes.minorticks_off()
    if quantity == "cpu_s":
        axes.set_yscale("log")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
