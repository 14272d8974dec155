"""What a measurement depends on besides its arguments."""

import datetime
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("broadsheet", "torch", "transformers", "tokenizers", "datasets", "accelerate", "numpy")


def describe_environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Versions, processor, cores, threads, load of the last minute, and the GPU where one is used."""
    device = torch.device(device)
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def processor_name() -> str:
    """The processor's name as the system gives it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def today() -> str:
    """The date, in UTC, as 2031-12-31."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
