"""What Rich Attention may cost: 1.4 times the time and 1.5 times the memory of the same layers without it."""

from benchmarks.entry import Benchmark, Bound

PEER, RELATIVE, RICH = "etc-layers", "etc-layers+relative", "etc-layers+rich"
COMPILED_PEER, COMPILED_RICH = "etc-layers-compiled", "etc-layers-compiled+rich"


def _entry(name: str, title: str, length: int, dropout: float, contestants: tuple[str, ...]) -> Benchmark:
    return Benchmark(
        name=f"formnet-{name}-{length}-dropout-{dropout:g}",
        title=f"{title} at {length:,} tokens",
        step="training",
        contestants=contestants,
        lengths=(length,),
        batch_size=1,
        dropout=dropout,
        bounds=(Bound(contestants[-1], "time", 1.4), Bound(contestants[-1], "memory", 1.5)),
        memory=True,
        products=False,
        repetitions=5,
    )


ENTRIES = [
    *(
        _entry("rich", "Rich Attention's training step", length, dropout, (PEER, RELATIVE, RICH))
        for length in (1024, 4096)
        for dropout in (0.1, 0.0)
    ),
    *(
        _entry("rich-compiled", "Rich Attention's compiled training step", length, 0.0, (COMPILED_PEER, COMPILED_RICH))
        for length in (1024, 4096)
    ),
]
