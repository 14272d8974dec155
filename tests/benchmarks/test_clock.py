import pytest
import torch
from benchmarks.clock import interleave, paired_ratio, summarise

CPU = torch.device("cpu")


def test_steps_are_interleaved_after_a_warm_up():
    seen: list[str] = []
    steps = {name: lambda name=name: seen.append(name) for name in "abc"}
    times = interleave(steps, 3, CPU)
    assert "".join(seen) == "abc" * 4
    assert all(len(kind) == 3 for step in times.values() for kind in step.values())
    assert all(value >= 0 for step in times.values() for kind in step.values() for value in kind)


def test_ratio_is_taken_within_a_round():
    # The second round ran on a machine ten times slower, for both.
    ratio = paired_ratio([1.0, 10.0, 1.2], [2.0, 20.0, 2.0])
    assert ratio["values"] == pytest.approx([0.5, 0.5, 0.6])
    assert ratio["median"] == pytest.approx(0.5)


def test_summary():
    summary = summarise([3.0, 1.0, 2.0, 5.0, 4.0])
    assert summary["median"] == 3.0
    assert summary["quartiles"] == [2.0, 4.0]
    assert summary["range"] == [1.0, 5.0]
    assert summarise([7.0])["quartiles"] == [7.0, 7.0]
