"""Where models run."""

import torch

from broadsheet.tokenization.input_checks import InputError


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """
    The device of that name; a GPU if there is one, when None.

    Raises:
        InputError: this machine has no such device.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    count = torch.accelerator.device_count()
    there = ["cpu", *(f"{accelerator.type}:{index}" for index in range(count) if accelerator)]
    try:
        chosen = torch.device(device)
    except RuntimeError:  # no device's name
        chosen = None
    if chosen is None or (chosen.type != "cpu" and f"{chosen.type}:{chosen.index or 0}" not in there):
        raise InputError(f"There is no device {str(device)!r} on this machine; choose one of {', '.join(there)}.")
    return chosen
