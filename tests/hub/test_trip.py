"""The whole trip through the Hub, read by a process where broadsheet cannot be imported."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from huggingface_hub import HfApi
from tests.hub.fake_hub import FakeHub
from tests.hub.models import DOCUMENT, TYPES, heads, save

from broadsheet.hub import push

READER = textwrap.dedent(
    """
    import json, sys

    class NoBroadsheet:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("broadsheet", "tests"):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    sys.meta_path.insert(0, NoBroadsheet())
    import torch, transformers

    folder = sys.argv[1]
    expected = torch.load(folder + "/expected.pt", weights_only=True)
    document = json.load(open(folder + "/document.json"))
    for repo, (auto, names, processed, outputs) in expected.items():
        processor = transformers.AutoProcessor.from_pretrained(repo, trust_remote_code=True)
        batch = processor(**document, return_tensors="pt")
        assert batch.keys() == processed.keys(), (repo, list(batch))
        assert all(torch.equal(batch[name], value) for name, value in processed.items()), repo
        for auto_class in auto:
            model = getattr(transformers, auto_class).from_pretrained(repo, trust_remote_code=True).eval()
            assert type(model).__module__.startswith("transformers_modules"), type(model)
        with torch.no_grad():
            found = model(**batch)
        for name, value in outputs.items():
            torch.testing.assert_close(found[name], value, msg=f"{repo} {name}")
        print("read", repo, flush=True)
    assert not [name for name in sys.modules if name.split(".")[0] == "broadsheet"]
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", TYPES)
def test_every_head_with_its_code(model_type: str, tmp_path: Path, api: HfApi, online: FakeHub) -> None:
    by_head: dict[str, list[str]] = {}
    for auto, head in heads(model_type).items():
        by_head.setdefault(head, []).append(auto)
    expected: dict[str, Any] = {}
    for head, autos in by_head.items():
        model, processor = save(model_type, head, tmp_path / head)
        repo = f"jane/{model_type}-{head}".lower()
        push(tmp_path / head, repo, with_code=True, api=api)
        batch = processor(**DOCUMENT, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**batch)
        tensors = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}
        expected[repo] = (autos, sorted(tensors), dict(batch), tensors)
    torch.save(expected, tmp_path / "expected.pt")
    (tmp_path / "document.json").write_text(json.dumps(DOCUMENT))
    run = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path)],
        env={**environment(), **online.environment(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.split() == [word for repo in expected for word in ("read", repo)]


DATASET_TRIP = textwrap.dedent(
    """
    import json, sys
    from datasets import load_dataset
    from broadsheet.hub import push

    push(sys.argv[1], "jane/forms")
    whole = load_dataset("jane/forms")
    stream = load_dataset("jane/forms", split="test", streaming=True)
    label = whole["train"].features["labels"].feature.names
    print(json.dumps([whole["train"].to_list(), list(stream), label, whole["train"].column_names]))
    """
)


@pytest.mark.slow
def test_datasets_come_back_equal(tmp_path: Path, hub: FakeHub) -> None:
    features = Features(
        {
            "words": List(Value("string")),
            "boxes": List(List(Value("float32"), length=4)),
            "labels": List(ClassLabel(names=["O", "B-total"])),
        }
    )
    rows = [{"words": ["Total"], "boxes": [[1.0, 2.0, 3.0, 4.0]], "labels": [1]} for _ in range(3)]
    parts = {
        "train": Dataset.from_list(rows, features=features),
        "test": Dataset.from_list(rows[:1], features=features),
    }
    DatasetDict(parts).save_to_disk(str(tmp_path / "forms"))
    (tmp_path / "forms" / "README.md").write_text("---\nlicense: cc0-1.0\n---\n\n# Forms\n\nMade for a test.\n")
    run = subprocess.run(
        [sys.executable, "-c", DATASET_TRIP, str(tmp_path / "forms")],
        env={**environment(), **hub.environment(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    train, test, labels, columns = json.loads(run.stdout.splitlines()[-1])
    assert (train, test, labels) == (rows, rows[:1], ["O", "B-total"])
    assert columns == ["words", "boxes", "labels"]
    card = hub.repositories["datasets", "jane/forms"].files["README.md"].decode()
    assert "license: cc0-1.0" in card
    assert "Made for a test." in card
    assert "dataset_info:" in card


def environment() -> dict[str, str]:
    """This process' environment without what would point a reader elsewhere."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    return {**known, "OMP_NUM_THREADS": "1", "DISABLE_SAFETENSORS_CONVERSION": "1", "PYTHONPATH": ""}
