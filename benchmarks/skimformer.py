"""What Skimformer promises (methods: Skim-Attention, section 4.2 and Figure 5)."""

from benchmarks.entry import Benchmark, Bound

PLAIN, CONTEXT, PEER = "skimformer", "skimformer+contextualizer", "layoutlm"


def _entries(dropout: float) -> list[Benchmark]:
    name, contestants = f"dropout-{dropout:g}", (PEER, PLAIN, CONTEXT)
    return [
        Benchmark(
            name=f"skimformer-training-512-{name}",
            title="Skimformer's training step at 512 tokens",
            step="training",
            contestants=contestants,
            lengths=(512,),
            batch_size=2,
            dropout=dropout,
            bounds=(Bound(PLAIN, "time", 0.65), Bound(CONTEXT, "time", 0.75)),
            memory=True,
        ),
        Benchmark(
            name=f"skimformer-inference-512-{name}",
            title="Skimformer's inference at 512 tokens",
            step="inference",
            contestants=contestants,
            lengths=(512,),
            batch_size=2,
            dropout=dropout,
            bounds=(Bound(PLAIN, "time", 0.80), Bound(CONTEXT, "time", 0.95)),
            repetitions=15,
        ),
        Benchmark(
            name=f"skimformer-training-2048-{name}",
            title="Skimformer's training step at 2,048 tokens",
            step="training",
            contestants=contestants,
            lengths=(2048,),
            batch_size=1,
            dropout=dropout,
            bounds=(Bound(PLAIN, "time", 0.5), Bound(PLAIN, "memory", 0.5)),
            memory=True,
            repetitions=5,
        ),
        Benchmark(
            name=f"skimformer-figure-5-{name}",
            title="Skimformer's training step against the length (Figure 5 of the paper)",
            step="training",
            contestants=contestants,
            lengths=(8, 32, 128, 512),
            batch_size=8,
            dropout=dropout,
            memory=True,
            products=False,
            repetitions=5,
        ),
    ]


ENTRIES = _entries(0.1) + _entries(0.0)
