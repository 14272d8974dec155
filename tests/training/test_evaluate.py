"""How `evaluate` finds what a model was trained with: in a folder, and on the Hub."""

import json

import pytest
from tests.hub.conftest import api, hub, online  # noqa: F401
from tests.hub.models import tiny

from broadsheet.hub import push
from broadsheet.training.evaluate import main, trained_with, training_options

DATA = {"scheme": "IOBES", "box_level": "segment", "max_length": 24, "stride": 6}
LABELS = ["O", *(f"{prefix}-{name}" for name in ("HEADER", "QUESTION", "ANSWER") for prefix in "BIES")]


@pytest.fixture
def folder(tmp_path):
    """A model as a training run leaves it."""
    model, processor = tiny("skimformer", "ForTokenClassification")
    labels = dict(enumerate(LABELS))
    model = type(model)(type(model.config)(**{**model.config.to_dict(), "id2label": labels}))
    model.save_pretrained(tmp_path / "model")
    processor.id2label = labels
    processor.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "results.json").write_text(json.dumps({"start": "bert", "data": DATA}))
    return tmp_path / "model"


def test_a_model_on_the_hub_is_measured_as_it_was_trained(folder, funsd, cache, tmp_path, api):  # noqa: F811
    push(folder, "jane/model", api=api)
    found = {}
    for path in (str(folder), "jane/model"):
        flags = ["--model_name_or_path", path, "--dataset", "funsd", "--data_dir", str(funsd), "--cache_dir", cache]
        main([*flags, "--bootstrap_samples", "20", "--use_cpu", "--json", str(tmp_path / "e.json")])
        found[path] = json.loads((tmp_path / "e.json").read_text())
    local, pushed = found.values()
    assert {name: pushed["data"][name] for name in DATA} == DATA
    assert pushed["data"] == local["data"]
    assert pushed["metrics"] == local["metrics"]


def test_a_model_of_no_run(tmp_path, folder, api):  # noqa: F811
    (folder / "results.json").unlink()
    push(folder, "jane/model", api=api)
    for path in (str(folder), str(tmp_path / "nowhere"), "jane/model", "jane/missing", "no/such/name"):
        assert trained_with(path) == {}
    assert training_options({}) == {"scheme": "IOB2", "box_level": "word", "max_length": 512, "stride": 64}


def test_offline_is_quiet(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert trained_with("jane/model") == {}


@pytest.mark.parametrize("text", ["", "[]", '{"data": null}', '{"data": []}'])
def test_results_of_something_else(text, tmp_path):
    (tmp_path / "results.json").write_text(text)
    assert training_options(trained_with(str(tmp_path)))["max_length"] == 512
