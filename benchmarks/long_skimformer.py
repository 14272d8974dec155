"""LongSkimformer beside Longformer, and beside Skimformer, whose attention is over all tokens (section 5.2)."""

from benchmarks.entry import Benchmark, Bound

WINDOWED, PEER = "long-skimformer", "longformer"

ENTRIES = [
    Benchmark(
        name=f"long-skimformer-training-2048-dropout-{dropout:g}",
        title="LongSkimformer's training step at 2,048 tokens",
        step="training",
        contestants=(PEER, WINDOWED, "long-skimformer+contextualizer", "skimformer"),
        lengths=(2048,),
        batch_size=1,
        dropout=dropout,
        bounds=(Bound(WINDOWED, "time", 1.0), Bound(WINDOWED, "memory", 1.0)),
        memory=True,
        repetitions=3,
    )
    for dropout in (0.1, 0.0)
]
