from collections.abc import Iterator

import pytest
from huggingface_hub import HfApi, constants, hf_api
from tests.hub.fake_hub import TOKEN, FakeHub


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture
def online(hub: FakeHub, tmp_path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """The fake Hub as this process' own: for downloads by transformers, which asks the constants."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(hf_api.api, "endpoint", hub.url)  # what the functions of the module ask
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("DISABLE_SAFETENSORS_CONVERSION", "1")  # else transformers asks a web service to convert
    return hub


@pytest.fixture
def api(online: FakeHub) -> HfApi:
    return HfApi(endpoint=online.url, token=TOKEN)
