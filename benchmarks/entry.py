"""What a benchmark is: contestants, a size, a dropout, and what is promised of them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal

QUANTITIES = {"time": "time", "memory": "memory that the step adds"}


@dataclasses.dataclass(frozen=True)
class Bound:
    """A promise: the contestant takes at most so many times what the peer takes."""

    contestant: str
    quantity: Literal["time", "memory"]
    at_most: float


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """
    One entry.

    Attributes:
        name: as the command line calls it.
        title: one line for people.
        step: "training" (forward, loss, backward, AdamW), "inference" (forward in evaluation mode) or "generation"
            (512 tokens).
        contestants: names in `benchmarks.contestants`; the first is the peer that ratios refer to.
        lengths: tokens per document; promises are judged at the last.
        batch_size: documents.
        dropout: of hidden states and of attention probabilities.
        bounds: what is promised, on the CPU at base size.
        tests: the tests that must pass before anything is reported.
        memory: measure peak memory too, each contestant in a process of its own.
        products: measure the matrix products alone too.
        repetitions: rounds in which each contestant takes one step.
        beams: of a generation; 1 is greedy.
    """

    name: str
    title: str
    step: Literal["training", "inference", "generation"]
    contestants: tuple[str, ...]
    lengths: tuple[int, ...]
    batch_size: int
    dropout: float
    bounds: tuple[Bound, ...] = ()
    tests: tuple[str, ...] = ("tests/modeling", "tests/family")
    memory: bool = False
    products: bool = True
    repetitions: int = 9
    beams: int = 1

    @property
    def peer(self) -> str:
        """The contestant that ratios refer to."""
        return self.contestants[0]

    def quick(self) -> "Benchmark":
        """The same at a size at which it says nothing but that it runs."""
        lengths = (8, 16)[: len(self.lengths)]
        return dataclasses.replace(self, lengths=lengths, batch_size=2, repetitions=2)


@dataclasses.dataclass(frozen=True)
class Size:
    """What a contestant is built for; `tiny` models are for smoke runs."""

    length: int
    batch_size: int
    dropout: float
    tiny: bool = False
    beams: int = 1


@dataclasses.dataclass(frozen=True)
class Study:
    """
    A measurement whose contestants are no models, and which writes its own record.

    Attributes:
        name: as the command line calls it.
        title: one line for people.
        promised: one line each.
        tests: the tests that must pass before anything is reported.
        run: (quick, folder of the record, progress) -> the promises' sentences, "holds: ..." or "FAILS: ...".
    """

    name: str
    title: str
    promised: tuple[str, ...]
    tests: tuple[str, ...]
    run: Callable[[bool, Path, Callable[[str], None]], list[str]]
