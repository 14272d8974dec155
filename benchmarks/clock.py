"""Interleaved timing: A B C A B C ..., so that whatever slows the machine down slows all contestants down."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch


def interleave(
    steps: Mapping[str, Callable[[], None]],
    repetitions: int,
    device: torch.device,
    warm_up: int = 1,
    progress: Callable[[], None] = lambda: None,
    collect: bool = True,
) -> dict[str, dict[str, list[float]]]:
    """
    Time the steps in rounds.

    Args:
        steps: name -> what is timed.
        repetitions: rounds.
        device: where the steps run.
        warm_up: rounds that are not timed.
        progress: called after each step.
        collect: free garbage before each step; not for steps of milliseconds, whose data it drives out of the caches.

    Returns:
        Per step `wall` and `cpu`, in seconds, one number per round: the time that passed, and the time that the
        process' threads were given (on a shared machine the steadier one).
    """
    for _ in range(warm_up):
        for step in steps.values():
            step()
            progress()
    times: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in steps}
    with _no_garbage_collection():
        for _ in range(repetitions):
            for name, step in steps.items():
                if collect:
                    gc.collect()
                _synchronize(device)
                wall, cpu = time.perf_counter(), time.process_time()
                step()
                _synchronize(device)
                times[name]["wall"].append(time.perf_counter() - wall)
                times[name]["cpu"].append(time.process_time() - cpu)
                progress()
    return times


def summarise(values: list[float]) -> dict[str, Any]:
    """Median, quartiles, minimum and maximum, with the values themselves."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {
        "median": statistics.median(values),
        "quartiles": [quartiles[0], quartiles[2]],
        "range": [min(values), max(values)],
        "values": values,
    }


def paired_ratio(values: list[float], peer: list[float]) -> dict[str, Any]:
    """A contestant's times over the peer's of the same rounds, summarised: what load both had cancels out."""
    return summarise([value / other for value, other in zip(values, peer, strict=True)])


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
