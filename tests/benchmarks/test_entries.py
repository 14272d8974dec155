from pathlib import Path

import pytest
from benchmarks.catalogue import ENTRIES, choose
from benchmarks.contestants import CONTESTANTS, make_batch
from benchmarks.entry import Benchmark, Bound, Size
from benchmarks.long_layoutlm_contestants import spatial_inputs
from benchmarks.plot import COLORS
from benchmarks.report import judge, make_table

from broadsheet.tokenization.input_checks import InputError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_entry_is_sound(entry):
    assert set(entry.contestants) <= set(CONTESTANTS)
    assert {bound.contestant for bound in entry.bounds} <= set(entry.contestants) - {entry.peer}
    assert entry.memory or "memory" not in {bound.quantity for bound in entry.bounds}
    assert all((ROOT / path).is_dir() for path in entry.tests)
    assert entry.tests
    assert len(entry.quick().lengths) == min(2, len(entry.lengths))
    assert len(entry.contestants) <= len(COLORS)


def test_choose():
    assert choose(["all"]) == list(ENTRIES.values())
    name = next(iter(ENTRIES))
    assert [entry.name for entry in choose([name, name])] == [name]
    assert {entry.step for entry in choose(["*-inference-*"])} == {"inference"}
    with pytest.raises(InputError, match="no benchmark nonsense"):
        choose([name, "nonsense"])


@pytest.mark.parametrize("name", CONTESTANTS)
def test_contestants_take_the_same_batch_and_dropout(name):
    size = Size(length=9, batch_size=2, dropout=0.3, tiny=True)
    model = CONTESTANTS[name](size)
    assert model.config.hidden_dropout_prob == model.config.attention_probs_dropout_prob == 0.3
    batch = make_batch(size, model.config.vocab_size)
    assert (batch["bbox"][..., 2:] >= batch["bbox"][..., :2]).all()
    outputs = model(**batch, **spatial_inputs(model.config, size))
    assert outputs.logits.shape[:2] == (2, 9)
    assert outputs.loss.isfinite()


def measured(time: float, memory: float) -> dict:
    def result(time: float, memory: float) -> dict:
        summary = {"median": time, "quartiles": [time, time]}
        return {
            "wall_s": summary,
            "time_ratio": summary,
            "memory": {"step": memory, "peak": memory, "resident": 0},
            "memory_ratio": memory,
            "peak_ratio": memory,
        }

    return {"64": {"peer": result(1.0, 1.0), "ours": result(time, memory)}}


@pytest.mark.parametrize(("time", "memory", "holds"), [(0.5, 0.7, [True, False]), (0.51, 0.5, [False, True])])
def test_verdicts(time, memory, holds):
    bounds = (Bound("ours", "time", 0.5), Bound("ours", "memory", 0.5))
    entry = Benchmark(
        "name", "Title", "training", ("peer", "ours"), (64,), 1, 0.1, bounds, memory=True, products=False
    )
    verdicts = judge(entry, measured(time, memory))
    assert [verdict.holds for verdict in verdicts] == holds
    sentences = [verdict.sentence("peer") for verdict in verdicts]
    assert [sentence.startswith("holds") for sentence in sentences] == holds
    assert "promised at most 0.5x" in sentences[0]
    table = make_table(entry, measured(time, memory))
    assert [row[0] for row in table.rows] == ["peer", "ours"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert "dropout 0.1" in table.caption
