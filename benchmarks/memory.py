"""Peak memory of a contestant's step, measured in a process of its own."""

import ctypes
import gc
import multiprocessing
import re
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import torch

from benchmarks.entry import Size
from benchmarks.steps import build, make_step

# glibc's number for the size above which blocks come from the system, and go back to it when freed.
M_MMAP_THRESHOLD = -3
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(contestant: str, step: str, size: Size, device: torch.device, threads: int) -> dict[str, int]:
    """
    Measure in a new process, so that no contestant inherits another's high-water mark.

    Returns:
        In bytes: `resident`, what the process holds before a step (interpreter, libraries, weights, optimizer; on
        CUDA the tensors alone), `peak`, the most it holds within a step, and `step`, their difference.
    """
    # A server that has imported everything and computed nothing, and a fork of it for each measurement.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.memory"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure_here, contestant, step, size, device, threads).result()


def measure_here(
    contestant: str, step: str, size: Size, device: torch.device, threads: int | None = None
) -> dict[str, int]:
    """The same in this process, whose memory nothing else may use meanwhile."""
    if threads:
        torch.set_num_threads(threads)
    with suppress(OSError, AttributeError):
        # Else freed blocks that the allocator holds on to count as memory of the step.
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 20)
    run = make_step(build(contestant, size, device), step, size, device)
    run()  # what is allocated once: optimizer, workspaces
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        resident = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device)
    else:
        _give_back_free_memory()
        resident = _status("VmRSS") or _high_water_mark()
        run()
        peak = _high_water_mark()
    return {"resident": resident, "peak": peak, "step": peak - resident}


def _give_back_free_memory() -> None:
    """Free pages go back to the system, and the high-water mark starts anew (where the system is Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        CLEAR.write_text("5")


def _high_water_mark() -> int:
    # Not getrusage where it can be helped: its mark survives exec, so that a child starts with its parent's.
    mark = _status("VmHWM")
    if mark is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return mark


def _status(field: str) -> int | None:
    if not STATUS.exists():
        return None
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else None
