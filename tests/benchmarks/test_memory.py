import sys

import pytest
import torch
from benchmarks import memory
from benchmarks.entry import Size

MIB = 1 << 20
CPU = torch.device("cpu")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux, where the high-water mark can be reset")
def test_peak_is_the_steps_own(monkeypatch):
    sizes = iter([100, 20])  # MiB in the warm-up, in the step

    def allocate() -> None:
        torch.ones(next(sizes) * MIB // 4)

    monkeypatch.setattr(memory, "build", lambda *_: None)
    monkeypatch.setattr(memory, "make_step", lambda *_: allocate)
    measured = memory.measure_here("any", "training", Size(1, 1, 0.0), CPU)
    assert 19 * MIB <= measured["step"] < 40 * MIB
    assert measured["peak"] == measured["resident"] + measured["step"]


@pytest.mark.slow
def test_measured_in_a_process_of_its_own():
    held = torch.ones(400 * MIB // 4)
    measured = memory.peak_memory("layoutlm", "inference", Size(8, 1, 0.0, tiny=True), CPU, threads=1)
    again = memory.peak_memory("layoutlm", "inference", Size(8, 1, 0.0, tiny=True), CPU, threads=1)
    assert held.sum() > 0
    assert measured["step"] < 50 * MIB
    assert again["peak"] == pytest.approx(measured["peak"], rel=0.1)
