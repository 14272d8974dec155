"""Whether the code runs now, or is being written down for later."""

import torch


def is_traced() -> bool:
    """Whether the code runs under torch.compile, torch.export or a tracer, where data cannot be looked at."""
    return torch.compiler.is_compiling() or torch.compiler.is_exporting() or torch.jit.is_tracing()
