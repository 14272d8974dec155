"""What Pyramidion promises (methods: Pyramidion, sections 3.2 and 5): documents of 8,192 tokens, summaries of 512."""

from benchmarks.entry import Benchmark, Bound

DEEP, PYRAMIDION, EARLY, LED = "blockwise-6+6", "deep-pyramidion", "deep-pyramidion-early", "led"
SHALLOW, TRANSPOOLER = "blockwise-2+2", "transpooler-2+2"
BASELINES = ("lsh-2+2", "efficient-2+2", "power-2+2", "funnel-2+2")

ENTRIES = [
    Benchmark(
        name="pyramidion-training-8192",
        title="DeepPyramidion's training step at 8,192 tokens",
        step="training",
        contestants=(DEEP, PYRAMIDION, EARLY),
        lengths=(8192,),
        batch_size=1,
        dropout=0.1,
        bounds=(Bound(PYRAMIDION, "time", 1 / 1.8), Bound(EARLY, "time", 1 / 1.8)),
        memory=True,
        products=False,
        repetitions=3,
    ),
    # The paper's time tables: 8 documents. Greedy, and with the beams of its deep models.
    *(
        Benchmark(
            name=f"pyramidion-generation-8192{suffix}",
            title=f"DeepPyramidion's generation of 512 tokens from 8,192{words}",
            step="generation",
            contestants=(DEEP, PYRAMIDION, EARLY),
            lengths=(8192,),
            batch_size=8,
            dropout=0.1,
            beams=beams,
            bounds=(Bound(PYRAMIDION, "time", 1 / 4.5), Bound(EARLY, "time", 1 / 4.5)),
            memory=True,
            products=False,
            repetitions=3,
        )
        for beams, suffix, words in ((1, "", ""), (2, "-beams-2", ", two beams"))
    ),
    Benchmark(
        name="pyramidion-led-8192",
        title="Blockwise and DeepPyramidion beside LED: generation of 512 tokens from 8,192",
        step="generation",
        contestants=(LED, DEEP, PYRAMIDION, EARLY),
        lengths=(8192,),
        batch_size=1,
        dropout=0.1,
        bounds=(Bound(DEEP, "time", 1.0), Bound(PYRAMIDION, "time", 1.0), Bound(EARLY, "time", 1.0)),
        memory=True,
        products=False,
        repetitions=3,
    ),
    Benchmark(
        name="pyramidion-overhead-8192",
        title="What pooling costs in a training step of 2+2 layers at 8,192 tokens",
        step="training",
        contestants=(SHALLOW, TRANSPOOLER),
        lengths=(8192,),
        batch_size=1,
        dropout=0.1,
        bounds=(Bound(TRANSPOOLER, "time", 1.15),),
        memory=True,
        products=False,
        repetitions=5,
    ),
    *(
        Benchmark(
            name=f"pyramidion-sparse-{step}-8192",
            title=f"Table 2's sparse baselines at 8,192 tokens, 2+2 layers: {title}",
            step=step,  # type: ignore[arg-type]
            contestants=(SHALLOW, TRANSPOOLER, *BASELINES),
            lengths=(8192,),
            batch_size=1,
            dropout=0.1,
            products=False,
            repetitions=3,
        )
        for step, title in (("training", "a training step"), ("generation", "generation of 512 tokens"))
    ),
]
