"""
The top-k operators against n and k, as in Figures 5 and 6 of the Pyramidion paper: quality (nCCS) and time, and what
is promised of successive halving.

Times are the processor's, of one thread, forward and backward: this work is so short that on a shared machine the time
that passes says little.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.clock import interleave, paired_ratio, summarise
from benchmarks.entry import Study
from benchmarks.topk_plot import draw
from broadsheet.modeling.successive_halving import plain_successive_halving, successive_halving_topk
from broadsheet.modeling.topk_operators import OPERATORS, chamfer_cosine, hard_topk
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable, write_record

HARD, HALVING, PLAIN, ITERATIVE, LEAN = (
    "hard top-k", "successive halving", "plain form", "iterative", "lean loop"
)  # fmt: skip


def lean_halving(embeddings: torch.Tensor, scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The algorithm as short as it can be written, document by document: no padding, no mask, no order preserved."""
    left = []
    for vectors, values in zip(embeddings, scores, strict=True):
        while len(values) > k:
            values, order = values.sort(descending=True)
            vectors, half = vectors.index_select(0, order), len(values) // 2
            pairs = torch.stack([values[:half], values[half:].flip(0)], -1)
            weights = (20.0**pairs).softmax(-1)
            vectors = weights[:, :1] * vectors[:half] + weights[:, 1:] * vectors[half:].flip(0)
            values = (weights * pairs).sum(-1)
        left.append((vectors, values))
    chosen, survivors = zip(*left, strict=True)
    return torch.stack(chosen), torch.stack(survivors)


CONTESTANTS: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    HARD: hard_topk,
    HALVING: successive_halving_topk,
    "without sorting": partial(successive_halving_topk, sort=False),
    PLAIN: plain_successive_halving,
    ITERATIVE: OPERATORS["iterative"].function,
    "LapSum": OPERATORS["lapsum"].function,
    "every n/k-th": OPERATORS["index"].function,
    "random": OPERATORS["random"].function,
    "mean of windows": OPERATORS["mean"].function,
    "maximum of windows": OPERATORS["max"].function,
}
# The iterative operator is k softmaxes over all n: beyond this n * k it takes seconds and gigabytes, and is left out.
MOST_SOFTMAXES = 1 << 24
DOCUMENTS = 4


class Size(NamedTuple):
    """n entries of `width` numbers each, k of which are left."""

    n: int
    k: int
    width: int

    def __str__(self) -> str:
        return f"{self.n} to {self.k}, width {self.width}"


class Promise(NamedTuple):
    """Successive halving takes at most so many times the processor time of the peer, with backward or without."""

    size: Size
    peer: str
    at_most: float
    forward: bool = False
    documents: int = 1

    def __str__(self) -> str:
        documents = f", {self.documents} documents" if self.documents > 1 else ""
        return f"{self.size}{documents}{', forward alone' if self.forward else ''}"

    def sentence(self, found: float) -> str:
        """For people."""
        word = "holds" if found <= self.at_most else "FAILS"
        return f"{word}: {HALVING} {self}: {found:.2f}x of {self.peer}, promised at most {self.at_most:g}x"


NARROW = [Size(8192, k, 32) for k in (2048, 512, 128)]
PROMISES = [
    Promise(Size(8192, 512, 768), HARD, 6.0),
    *(Promise(size, PLAIN, 0.5) for size in NARROW),
    *(Promise(size, LEAN, 0.5, forward) for size in NARROW for forward in (True, False)),
    *(Promise(Size(8192, 512, 32), LEAN, 0.5, forward, 16) for forward in (True, False)),
]
WIDE = [Size(8192, k, 768) for k in (2048, 512, 128)]
SWEEP = [
    *(Size(n, k, 32) for k in (128, 512, 2048) for n in (1024, 2048, 4096, 8192) if k < n),
    *(Size(8192, k, 32) for k in (256, 1024, 4096)),
]


def entries(size: Size, documents: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """As in Appendix B.5: embeddings uniform in -1..1, scores uniform in 0..1."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.rand(documents, size.n, size.width, generator=generator) * 2 - 1
    return embeddings, torch.rand(documents, size.n, generator=generator)


def names_at(size: Size) -> list[str]:
    """The contestants that are measured at a size."""
    return [name for name in CONTESTANTS if name != ITERATIVE or size.n * size.k <= MOST_SOFTMAXES]


def quality(name: str, size: Size, documents: int = DOCUMENTS) -> float:
    """The nCCS with the true top-k, mean over documents."""
    torch.manual_seed(0)
    embeddings, scores = entries(size, documents)
    with torch.no_grad():
        chosen = CONTESTANTS[name](embeddings, scores, size.k)[0]
        return chamfer_cosine(chosen, hard_topk(embeddings, scores, size.k)[0]).item()


def time_operators(
    names: list[str], size: Size, repetitions: int, forward: bool = False, documents: int = 1
) -> dict[str, list[float]]:
    """Processor seconds of forward and backward, or of forward alone, per contestant, one number per round."""
    torch.manual_seed(0)
    inputs = [tensor.requires_grad_() for tensor in entries(size, documents)]
    gradient = torch.randn(documents, size.k, size.width)

    def step(operator: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> None:
        chosen = operator(*inputs, size.k)[0]
        if not forward:
            torch.autograd.grad(chosen, inputs, gradient, allow_unused=True)

    steps = {name: partial(step, {**CONTESTANTS, LEAN: lean_halving}[name]) for name in names}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = interleave(steps, repetitions, torch.device("cpu"), warm_up=2, collect=False)
    finally:
        torch.set_num_threads(threads)
    return {name: times[name]["cpu"] for name in names}


def measure(size: Size, names: list[str], repetitions: int, with_quality: bool = True) -> dict[str, dict[str, Any]]:
    """Per contestant `cpu_s`, `ratio` (to hard top-k within a round), `plain_ratio` (to the plain form), `nccs`."""
    results = _summaries(time_operators(names, size, repetitions), {"ratio": HARD, "plain_ratio": PLAIN})
    for name in names if with_quality else []:
        results[name]["nccs"] = quality(name, size)
    return results


def measure_beside_lean(promise: Promise, repetitions: int) -> dict[str, dict[str, Any]]:
    """`cpu_s` of successive halving and the lean loop, and their `ratio` within a round."""
    rounds = max(1, repetitions // promise.documents)
    times = time_operators([LEAN, HALVING], promise.size, rounds, promise.forward, promise.documents)
    return _summaries(times, {"ratio": LEAN})


def _summaries(times: dict[str, list[float]], peers: dict[str, str]) -> dict[str, dict[str, Any]]:
    results = {}
    for name, seconds in times.items():
        found = {"cpu_s": summarise(seconds)}
        found |= {kind: paired_ratio(seconds, times[peer]) for kind, peer in peers.items() if peer in times}
        # So many sizes: a record of every round would be half a megabyte.
        results[name] = {
            kind: {part: value for part, value in summary.items() if part != "values"}
            for kind, summary in found.items()
        }
    return results


def run(quick: bool, folder: Path, progress: Callable[[str], None] = lambda text: None) -> list[str]:
    """Measure, draw, write `topk_operators.json` and its pictures; returns the promises' sentences, none if quick."""
    sweep, wide, repetitions = SWEEP, WIDE, 21
    if quick:
        sweep, wide, repetitions = [Size(n, k, 4) for k in (8, 16) for n in (32, 64)], [Size(64, 16, 8)], 1
    measured: dict[Size, dict[str, dict[str, Any]]] = {}
    for size in wide:
        progress(f"topk: {size}")
        measured[size] = measure(size, [HARD, HALVING, PLAIN], repetitions, with_quality=False)
    for size in sweep:
        progress(f"topk: {size}")
        # What takes a tenth of a second needs no twenty rounds.
        slow = ITERATIVE in names_at(size) and size.n * size.k > MOST_SOFTMAXES // 8
        fast_names = [name for name in names_at(size) if not (slow and name == ITERATIVE)]
        measured[size] = measure(size, fast_names, repetitions)
        if slow:
            measured[size][ITERATIVE] = measure(size, [HARD, ITERATIVE], max(1, repetitions // 4))[ITERATIVE]
    lean: dict[Promise, dict[str, dict[str, Any]]] = {}
    promises = [promise for promise in PROMISES if promise.peer == LEAN]
    if quick:
        promises = [promises[0]._replace(size=sweep[0])]
    for promise in promises:
        progress(f"topk: {promise}, beside the lean loop")
        lean[promise] = measure_beside_lean(promise, 10 * repetitions)
    found = [] if quick else [_found(measured, lean, promise) for promise in PROMISES]
    sentences = [promise.sentence(ratio) for promise, ratio in zip(PROMISES, found, strict=False)]
    name = "topk_operators"
    figures = [f"{name}-quality.png", f"{name}-time.png"]
    for figure, quantity in zip(figures, ("nccs", "cpu_s"), strict=True):
        curves = {(size.n, size.k): result for size, result in measured.items() if size in sweep}
        # The plain form's quality is that of successive halving.
        names = [None if quantity == "nccs" and each == PLAIN else each for each in CONTESTANTS]
        draw(curves, quantity, names, folder / figure)
    record = Record(
        name=name,
        title="Top-k operators: quality and time against n and k",
        kind="benchmark",
        command="broadsheet bench topk",
        date=today(),
        data="uniform embeddings in -1..1, uniform scores in 0..1",
        budget={"repetitions": repetitions, "documents": {"quality": DOCUMENTS, "time": 1}, "quick": quick},
        seeds={"entries": 0, "random operator": 0},
        environment=describe_environment(),
        measurements={
            "sizes": {str(size): result for size, result in measured.items()},
            LEAN: {str(promise): result for promise, result in lean.items()},
            "promises": [
                {**promise._asdict(), "size": str(promise.size), "found": ratio}
                for promise, ratio in zip(PROMISES, found, strict=False)
            ],
        },
        tables=[
            _table(measured, wide, repetitions),
            _table(measured, [s for s in sweep if s.n == sweep[-1].n], repetitions),
            _lean_table(lean, 10 * repetitions),
        ],
        notes=[f"{sentence}." for sentence in sentences]
        + [
            "Ratios are of times in the same round. LapSum returns the true top-k, each times a factor, so that its "
            "nCCS is 1 by definition. The iterative operator has its default sharpness of 100, with which a softmax "
            "spreads over scores within about 0.1 of its own, hundreds of entries at these n: hence its nCCS; beyond "
            f"n * k = {MOST_SOFTMAXES:,} it is left out."
        ],
        figures=figures,
    )
    write_record(folder, record)
    return sentences


def _found(
    measured: dict[Size, dict[str, dict[str, Any]]], lean: dict[Promise, dict[str, dict[str, Any]]], promise: Promise
) -> float:
    result = lean[promise][HALVING] if promise.peer == LEAN else measured[promise.size][HALVING]
    ratio: float = result["plain_ratio" if promise.peer == PLAIN else "ratio"]["median"]
    return ratio


def _table(measured: dict[Size, dict[str, dict[str, Any]]], sizes: list[Size], repetitions: int) -> ResultTable:
    rows = []
    for size in sorted(sizes, key=lambda size: -size.k):
        for name, result in measured[size].items():
            milliseconds = 1e3 * result["cpu_s"]["median"]
            score = f"{result['nccs']:.3f}" if "nccs" in result else ""
            rows.append(
                [name, str(size.n), str(size.k), f"{milliseconds:.2f} ms", f"{result['ratio']['median']:.2f}x", score]
            )
    caption = (
        f"Top-k operators, embeddings of {sizes[0].width}: processor time of forward and backward, one document, one "
        f"thread, float32, medians of {repetitions} interleaved rounds; ratios to {HARD}."
    )
    return ResultTable(caption, ["operator", "n", "k", "time", "ratio", "nCCS"], rows)


def _lean_table(lean: dict[Promise, dict[str, dict[str, Any]]], repetitions: int) -> ResultTable:
    rows = []
    for promise, result in lean.items():
        what = "forward" if promise.forward else "forward and backward"
        times = [f"{1e3 * result[name]['cpu_s']['median']:.2f} ms" for name in (HALVING, LEAN)]
        ratio = f"{result[HALVING]['ratio']['median']:.2f}x"
        rows.append([what, str(promise.size.n), str(promise.size.k), str(promise.documents), *times, ratio])
    caption = (
        "Successive halving beside the algorithm as short as it can be written (a loop over documents; no padding, no "
        f"mask, no order preserved), embeddings of {next(iter(lean)).size.width}: processor time, one thread, "
        f"float32, medians of {repetitions} interleaved rounds, of fewer for several documents."
    )
    return ResultTable(caption, ["what", "n", "k", "documents", HALVING, LEAN, "ratio"], rows)


STUDY = Study(
    name="topk",
    title="Top-k operators: quality and time against n and k",
    promised=tuple(f"{p}: {HALVING} <= {p.at_most:g}x {p.peer}" for p in PROMISES),
    tests=("tests/modeling/test_successive_halving.py", "tests/modeling/test_representation_pooling.py"),
    run=run,
)
