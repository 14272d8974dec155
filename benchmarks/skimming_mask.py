"""What SkimmingMask is to bring (Skim-Attention, section 4.3): a training step below that of the plain BERT."""

from benchmarks.entry import Benchmark, Bound

MASKED, CONTEXT, PEER = "bert+skimming-mask", "bert+skimming-mask+contextualizer", "bert"

ENTRIES = [
    Benchmark(
        name=f"skimming-mask-training-2048-dropout-{dropout:g}",
        title="A BERT's training step at 2,048 tokens, each attending to 128 that stand near it",
        step="training",
        contestants=(PEER, MASKED, CONTEXT),
        lengths=(2048,),
        batch_size=1,
        dropout=dropout,
        bounds=(Bound(MASKED, "time", 1.0), Bound(CONTEXT, "time", 1.0)),
        memory=True,
        repetitions=5,
    )
    for dropout in (0.1, 0.0)
]
