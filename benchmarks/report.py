"""Tables and verdicts of a measured entry."""

from typing import Any, NamedTuple

from benchmarks.entry import QUANTITIES, Benchmark
from broadsheet.results.record import ResultTable

GIB = 1 << 30


class Verdict(NamedTuple):
    """A promise and what was found."""

    contestant: str
    quantity: str
    at_most: float
    found: float

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.found <= self.at_most

    def sentence(self, peer: str) -> str:
        """For people."""
        word = "holds" if self.holds else "FAILS"
        quantity = QUANTITIES[self.quantity]
        return f"{word}: {self.contestant}, {quantity} {self.found:.2f}x of {peer}, promised at most {self.at_most:g}x"


def judge(benchmark: Benchmark, measured: dict[str, dict[str, Any]]) -> list[Verdict]:
    """The promises of an entry, judged at its last length."""
    results = measured[str(benchmark.lengths[-1])]
    found = {
        "time": lambda name: results[name]["time_ratio"]["median"],
        "memory": lambda name: results[name]["memory_ratio"],
    }
    return [
        Verdict(bound.contestant, bound.quantity, bound.at_most, found[bound.quantity](bound.contestant))
        for bound in benchmark.bounds
    ]


def make_table(benchmark: Benchmark, measured: dict[str, dict[str, Any]]) -> ResultTable:
    """One row per length and contestant."""
    columns = ["contestant", "n", "time", "ratio"]
    columns += ["products alone", "GFLOP"] if benchmark.products else []
    columns += ["memory of the step", "peak of the process"] if benchmark.memory else []
    counted = any(result.get("attention") for results in measured.values() for result in results.values())
    columns += ["attention as counted: Table 4's formula, products"] if counted else []
    rows = []
    for length, results in measured.items():
        for name, result in results.items():
            row = [name, length, _time(result["wall_s"]), _ratio(result["time_ratio"])]
            if benchmark.products:
                products = result["products"]
                alone, ratio = _time(products["wall_s"], spread=False), products["time_ratio"]["median"]
                row += [f"{alone}, {ratio:.2f}x", f"{products['gflop']:.0f}"]
            if benchmark.memory:
                for quantity, ratio in (("step", "memory_ratio"), ("peak", "peak_ratio")):
                    row.append(f"{result['memory'][quantity] / GIB:.2f} GiB, {result[ratio]:.2f}x")
            if counted:
                shares = result.get("attention")
                row.append(
                    f"{shares['formula']:.1%}, {shares['products']:.1%} of {shares['peer']}'s" if shares else ""
                )
            rows.append(row)
    caption = (
        f"{benchmark.title}: dropout {benchmark.dropout:g}, batch {benchmark.batch_size}, medians of "
        f"{benchmark.repetitions} interleaved rounds (quartiles in brackets), ratios to {benchmark.peer} within a "
        "round."
    )
    return ResultTable(caption, columns, rows)


def _time(summary: dict[str, Any], spread: bool = True) -> str:
    unit, scale, digits = ("s", 1.0, 2) if summary["median"] >= 1 else ("ms", 1e3, 1)
    low, high = (f"{value * scale:.{digits}f}" for value in summary["quartiles"])
    return f"{summary['median'] * scale:.{digits}f} {unit}" + (f" ({low}-{high})" if spread else "")


def _ratio(summary: dict[str, Any]) -> str:
    low, high = summary["quartiles"]
    return f"{summary['median']:.2f}x ({low:.2f}-{high:.2f})"


def _attention(shares: dict[str, Any]) -> str:
    return f"{shares['formula']:.1%}, {shares['products']:.1%} of {shares['peer']}'s"
