"""What LongLayoutLM promises (Position-aware attention; the cost of spatial attention), whole models at base size."""

from benchmarks.entry import Benchmark, Bound

LONGFORMER, BIG_BIRD = "longformer", "big-bird"
SLIDING, RANDOM, CROSSED = "long-layoutlm+sw", "long-layoutlm+sw+rand", "long-layoutlm+distance+sw"
DISTANCE, WIDE, UNION = "long-layoutlm+distance", "long-layoutlm+distance-512", "long-layoutlm+union"


def _entries(dropout: float) -> list[Benchmark]:
    name = f"dropout-{dropout:g}"
    return [
        Benchmark(
            name=f"long-layoutlm-window-4096-{name}",
            title="LongLayoutLM's training step at 4,096 tokens, sliding window, beside Longformer",
            step="training",
            contestants=(LONGFORMER, SLIDING),
            lengths=(4096,),
            batch_size=1,
            dropout=dropout,
            bounds=(Bound(SLIDING, "time", 0.6), Bound(SLIDING, "memory", 0.5)),
            memory=True,
            products=False,
            repetitions=3,
        ),
        Benchmark(
            name=f"long-layoutlm-random-4096-{name}",
            title="LongLayoutLM's training step at 4,096 tokens, window and random blocks, beside BigBird",
            step="training",
            contestants=(BIG_BIRD, RANDOM),
            lengths=(4096,),
            batch_size=1,
            dropout=dropout,
            bounds=(Bound(RANDOM, "time", 0.6),),
            memory=True,
            products=False,
            repetitions=3,
        ),
        Benchmark(
            name=f"long-layoutlm-patterns-4096-{name}",
            title="LongLayoutLM's training step at 4,096 tokens: what spatial attention costs beside the window",
            step="training",
            contestants=(SLIDING, DISTANCE, UNION, WIDE, CROSSED),
            lengths=(4096,),
            batch_size=1,
            dropout=dropout,
            bounds=(
                Bound(DISTANCE, "time", 1.0),
                Bound(DISTANCE, "memory", 1.1),
                Bound(UNION, "time", 1.6),
                Bound(WIDE, "time", 2.0),
            ),
            memory=True,
            products=False,
            repetitions=3,
        ),
        Benchmark(
            name=f"long-layoutlm-lengths-{name}",
            title="LongLayoutLM's training step against the length",
            step="training",
            contestants=(SLIDING, DISTANCE, UNION),
            lengths=(1024, 2048, 4096, 8192, 16384),
            batch_size=1,
            dropout=dropout,
            memory=True,
            products=False,
            repetitions=1,
        ),
    ]


ENTRIES = _entries(0.1) + _entries(0.0)
