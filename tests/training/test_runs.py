import signal
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerControl

from broadsheet.training.runs import Interrupted, StopOnSignal, prepare_output_dir

STATE = SimpleNamespace(global_step=5, max_steps=9)


def test_a_signal_during_a_save_waits_for_the_next_step(tmp_path):
    args, control, stop = SimpleNamespace(world_size=1, output_dir=tmp_path), TrainerControl(), StopOnSignal()
    stop.on_step_end(args, STATE, control)
    stop._receive(signal.SIGTERM, None)
    stop.on_save(args, STATE, control)
    assert control.should_save is False
    stop.on_step_end(args, STATE, control)
    assert control.should_save is True
    with pytest.raises(Interrupted, match="checkpoint-5; to continue"):
        stop.on_save(args, STATE, control)


def test_processes_leave_together(tmp_path, monkeypatch):
    """Rank 0 gets a signal in a save that rank 1 passes without: a barrier for one alone would never open."""
    ranks, met = [StopOnSignal(), StopOnSignal()], []

    def all_reduce(stops, op):
        stops.fill_(int(any(rank.signal is not None for rank in ranks)))

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(torch.distributed, "barrier", lambda: met.append(True))
    args = SimpleNamespace(world_size=2, output_dir=tmp_path, device="cpu")
    controls = [TrainerControl(), TrainerControl()]

    def step():
        for rank, control in zip(ranks, controls, strict=True):
            rank.on_step_end(args, STATE, control)

    step()
    ranks[0]._receive(signal.SIGTERM, None)
    for rank, control in zip(ranks, controls, strict=True):
        rank.on_save(args, STATE, control)
    assert met == []
    step()
    for rank, control in zip(ranks, controls, strict=True):
        assert control.should_save is True
        with pytest.raises(Interrupted):
            rank.on_save(args, STATE, control)
    assert met == [True, True]
    # The Ctrl-C that reaches rank 1 a moment later is its first.
    ranks[1]._receive(signal.SIGINT, None)


def test_an_overwritten_run_is_not_complete(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert prepare_output_dir(str(tmp_path), overwrite=True, resume=None) is None
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
