"""A checkpoint that carries its code loads where broadsheet is not installed: config, every head, processor."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members import types
from tests.family.spec import Case, predictions

from broadsheet.registration import MODELS

READER = textwrap.dedent(
    """
    import json, sys

    class NoBroadsheet:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("broadsheet", "tests"):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    sys.meta_path.insert(0, NoBroadsheet())
    import torch, transformers

    folder, auto_classes = sys.argv[1], json.loads(sys.argv[2])
    expected = torch.load(folder + "/expected.pt", weights_only=True)
    config = transformers.AutoConfig.from_pretrained(folder + "/" + auto_classes[0], trust_remote_code=True)
    for name in auto_classes:
        auto = getattr(transformers, name)
        model = auto.from_pretrained(folder + "/" + name, trust_remote_code=True)
        assert type(model).__module__.startswith("transformers_modules"), type(model)
        assert model.config.model_type == config.model_type
        with torch.no_grad():
            outputs = model(**expected["batch"])
        for key, value in expected[name].items():
            assert torch.equal(outputs[key], value), (name, key)
        other = auto.from_config(model.config, trust_remote_code=True)
        assert type(other).__name__ == type(model).__name__
    processor = transformers.AutoProcessor.from_pretrained(folder + "/" + auto_classes[0], trust_remote_code=True)
    batch = processor(**json.load(open(folder + "/document.json")), return_tensors="pt")
    assert set(batch) == set(expected["processed"])
    for key, value in expected["processed"].items():
        assert torch.equal(batch[key], value), key
    model(**batch)
    assert not [name for name in sys.modules if name.split(".")[0] == "broadsheet"]
    print("read", len(auto_classes))
    """
)


@pytest.mark.slow
@types()
def test_round_trip_without_broadsheet(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case.skip_unless("remote code")
    assert case.spec.processor is not None
    processor = case.spec.processor()
    document = {"text": ["Total", "due"], "boxes": [[9, 9, 30, 20], [40, 9, 60, 20]], "page_sizes": [[100, 200]]}
    processed = processor(**document, return_tensors="pt")
    member = MODELS[case.spec.model_type]

    monkeypatch.setattr(member.config, "_auto_class", "AutoConfig")
    monkeypatch.setattr(type(processor), "_auto_class", "AutoProcessor")
    auto_map = {auto.__name__: class_path(model) for auto, model in member.models.items()}
    auto_map["AutoConfig"] = class_path(member.config)

    expected: dict[str, Any] = {"processed": dict(processed)}
    for auto, model_class in member.models.items():
        head = next(head for head, each in case.spec.heads.items() if each is model_class)
        model = Case(case.spec, case.variant, head).model(torch.float32, vocab_size=len(processor.tokenizer))
        monkeypatch.setattr(model_class, "_auto_class", auto.__name__)
        model.config.auto_map = auto_map
        folder = tmp_path / auto.__name__
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        assert json.loads((folder / "config.json").read_text())["auto_map"] == auto_map
        expected["batch"] = case.batch(model.config)
        with torch.no_grad():
            outputs = model(**expected["batch"])
        ones = torch.ones_like(expected["batch"]["attention_mask"])
        expected[auto.__name__] = {name: outputs[name] for name in predictions(outputs, ones)}
    torch.save(expected, tmp_path / "expected.pt")
    (tmp_path / "document.json").write_text(json.dumps(document))

    names = [auto.__name__ for auto in member.models]
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_MODULES_CACHE", None)
    run = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), json.dumps(names)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == f"read {len(names)}"


def class_path(cls: type) -> str:
    return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}"
