"""FormNet's word graph against the number of words, and its Viterbi decoder beside a loop over sequences."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.clock import interleave, paired_ratio, summarise
from benchmarks.entry import Study
from broadsheet.modeling.viterbi import TagGrammar, viterbi_decode
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable, write_record
from broadsheet.tokenization.token_graph import word_graph

NAME = "formnet-parts"
PAGE, LONG, LONGEST = 512, 10_000, 100_000
WORDS = (PAGE, 4096, LONG, LONGEST)
QUICK_WORDS = (16, 32)
SEQUENCES, LENGTH, KINDS = 64, 100, 3
BATCHED, LOOP = "Viterbi, batched", "Viterbi, a loop"

Measured = dict[str, dict[str, Any]]


class Promise(NamedTuple):
    """A number of the record that must not be above, or below, a bound."""

    text: str
    found: Callable[[Measured], float]
    bound: float
    at_most: bool = True

    def holds(self, measured: Measured) -> bool:
        """Whether it does."""
        found = self.found(measured)
        return found <= self.bound if self.at_most else found >= self.bound

    def sentence(self, measured: Measured) -> str:
        """For people."""
        word, kind = "holds" if self.holds(measured) else "FAILS", "most" if self.at_most else "least"
        return f"{word}: {self.text}: {self.found(measured):.1f}, promised at {kind} {self.bound:g}"


def graph_name(words: int) -> str:
    """The row of a graph over so many words."""
    return f"graph of {words:,} words"


PROMISES = (
    Promise(
        f"milliseconds for a {graph_name(PAGE)}",
        lambda measured: 1e3 * measured[graph_name(PAGE)]["cpu_s"]["median"],
        10,
    ),
    Promise(
        f"a {graph_name(LONGEST)}, as multiples of the time for {LONG:,}",
        lambda measured: (
            measured[graph_name(LONGEST)]["cpu_s"]["median"] / measured[graph_name(LONG)]["cpu_s"]["median"]
        ),
        20,
    ),
    Promise(
        "the loop's time, as multiples of the batched decoder's",
        lambda measured: measured[LOOP]["ratio"]["median"],
        20,
        at_most=False,
    ),
)


def decode_one_by_one(scores: torch.Tensor, grammar: TagGrammar) -> list[list[int]]:
    """
    The best legal labels by a loop over sequences, tokens and labels.

    Args:
        scores: `[batch, length, labels]`.
        grammar: of the labels.
    """
    allowed = grammar.allowed().tolist()
    first = [-1e30 if goes_on else 0.0 for goes_on in grammar.goes_on.tolist()]
    last = [0.0 if may_end else -1e30 for may_end in grammar.may_end.tolist()]
    labels = range(len(first))
    found = []
    for sequence in scores.tolist():
        total = [first[label] + sequence[0][label] for label in labels]
        pointers = []
        for row in sequence[1:]:
            best, pointer = [], []
            for label in labels:
                values = [total[before] if allowed[before][label] else -1e30 for before in labels]
                highest = max(labels, key=values.__getitem__)
                pointer.append(highest)
                best.append(values[highest] + row[label])
            total = best
            pointers.append(pointer)
        label = max(labels, key=lambda index: total[index] + last[index])
        path = [label]
        for pointer in reversed(pointers):
            label = pointer[label]
            path.append(label)
        found.append(path[::-1])
    return found


def measure(quick: bool, progress: Callable[[str], None] = lambda text: None) -> Measured:
    """Per contestant `cpu_s` and `wall_s`; the loop also `ratio`, to the batched decoder within a round."""
    measured: Measured = {}
    for words in QUICK_WORDS if quick else WORDS:
        progress(f"{NAME}: {graph_name(words)}")
        centers = np.random.default_rng(words).uniform(0, 1000, (words, 2))
        boxes, pages = np.concatenate([centers, centers + 1], 1), np.zeros(words, dtype=int)
        measured |= _times({graph_name(words): partial(word_graph, boxes, pages)}, quick)
    progress(f"{NAME}: Viterbi")
    grammar = TagGrammar(["O", *(f"{prefix}-{kind}" for kind in range(KINDS) for prefix in "BIES")])
    generator = torch.Generator().manual_seed(0)
    size = (2, 5) if quick else (SEQUENCES, LENGTH)
    scores = torch.randn(*size, 4 * KINDS + 1, generator=generator)
    measured |= _times(
        {BATCHED: lambda: viterbi_decode(scores, grammar), LOOP: lambda: decode_one_by_one(scores, grammar)}, quick
    )
    measured[LOOP]["ratio"] = paired_ratio(measured[LOOP]["cpu_s"]["values"], measured[BATCHED]["cpu_s"]["values"])
    return measured


def _times(steps: dict[str, Callable[[], Any]], quick: bool) -> Measured:
    times = interleave(steps, 1 if quick else 9, torch.device("cpu"), collect=False)
    return {name: {"cpu_s": summarise(times[name]["cpu"]), "wall_s": summarise(times[name]["wall"])} for name in steps}


def run(quick: bool, folder: Path, progress: Callable[[str], None] = lambda text: None) -> list[str]:
    """Measure and write the record; returns the promises' sentences, none if quick."""
    measured = measure(quick, progress)
    promises = () if quick else PROMISES
    sentences = [promise.sentence(measured) for promise in promises]
    rows = []
    for name, result in measured.items():
        low, high = (f"{1e3 * value:.2f}" for value in result["cpu_s"]["quartiles"])
        ratio = f"{result['ratio']['median']:.0f}x" if "ratio" in result else ""
        rows.append([name, f"{1e3 * result['cpu_s']['median']:.2f} ms ({low}-{high})", ratio])
    caption = (
        f"Processor time, one thread, medians of {len(measured[LOOP]['cpu_s']['values'])} repetitions (quartiles in "
        f"brackets). Viterbi: {SEQUENCES} sequences of {LENGTH} words, {4 * KINDS + 1} BIOES labels."
    )
    write_record(
        folder,
        Record(
            name=NAME,
            title="FormNet's word graph and its Viterbi decoder",
            kind="benchmark",
            command=f"broadsheet bench {NAME} --threads 1",
            date=today(),
            data="words at random places, random scores",
            budget={"words": list(QUICK_WORDS if quick else WORDS), "quick": quick},
            seeds={"places": "the number of words", "scores": 0},
            environment=describe_environment(),
            measurements={
                "results": measured,
                "promises": [
                    {"text": promise.text, "found": promise.found(measured), "holds": promise.holds(measured)}
                    for promise in promises
                ],
            },
            tables=[ResultTable(caption, ["", "time", "ratio to batched"], rows)],
            notes=[f"{sentence}." for sentence in sentences],
        ),
    )
    return sentences


STUDY = Study(
    name=NAME,
    title="FormNet's word graph against the number of words; Viterbi beside a loop",
    promised=tuple(f"{promise.text}: {'<=' if promise.at_most else '>='} {promise.bound:g}" for promise in PROMISES),
    tests=("tests/tokenization/test_beta_skeleton.py", "tests/modeling/test_viterbi.py", "tests/benchmarks"),
    run=run,
)
