"""What LAMBERT promises: little more time and memory than the RoBERTa it starts from."""

from benchmarks.entry import Benchmark, Bound

GRID, BUCKETS, PEER = "lambert", "lambert+log-buckets", "roberta"

ENTRIES = [
    Benchmark(
        name=f"lambert-training-512-dropout-{dropout:g}",
        title="LAMBERT's training step at 512 tokens",
        step="training",
        contestants=(PEER, GRID, BUCKETS),
        lengths=(512,),
        batch_size=2,
        dropout=dropout,
        bounds=(
            Bound(GRID, "time", 1.25),
            Bound(GRID, "memory", 1.2),
            Bound(BUCKETS, "time", 1.25),
            Bound(BUCKETS, "memory", 1.2),
        ),
        memory=True,
        products=False,
        repetitions=5,
    )
    for dropout in (0.1, 0.0)
]
