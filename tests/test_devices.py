import pytest
import torch

from broadsheet.devices import choose_device
from broadsheet.tokenization.input_checks import InputError


def test_the_processor_is_always_there(monkeypatch):
    for name in ("cpu", "cpu:0", torch.device("cpu")):
        assert choose_device(name).type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device() == torch.device("cuda")


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "gpu", "cuda:x", "meta", "mps", torch.device("cuda")])
def test_a_device_that_is_not_there_is_one_sentence(device, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 0)
    with pytest.raises(InputError, match=f"^There is no device '{device}' on this machine; choose one of cpu.$"):
        choose_device(device)


def test_with_two_gpus(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    for name in ("cpu", "cuda", "cuda:0", "cuda:1"):
        assert choose_device(name) == torch.device(name)
    for name in ("cuda:2", "gpu", "mps"):
        with pytest.raises(InputError, match=f"no device '{name}' .* choose one of cpu, cuda:0, cuda:1."):
            choose_device(name)
