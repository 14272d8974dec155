import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from datasets import Dataset
from huggingface_hub import HfApi
from tests.hub.fake_hub import READ_TOKEN, TOKEN, FakeHub
from tests.hub.models import DOCUMENT, TYPES, heads, save

from broadsheet import cli
from broadsheet.extraction import FieldExtractor
from broadsheet.hub import add_code, push
from broadsheet.hub.card import plain_card
from broadsheet.registration import MODELS
from broadsheet.tokenization.input_checks import InputError

TOKENS = "ForTokenClassification"


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Any, Any]:
    folder = tmp_path / "model"
    model, processor = save("skimformer", TOKENS, folder)
    return folder, model, processor


@pytest.mark.parametrize("model_type", TYPES)
def test_every_type_comes_back_equal(model_type: str, tmp_path: Path, api: HfApi) -> None:
    auto, head = next((auto, head) for auto, head in heads(model_type).items() if head != "Model")
    model, processor = save(model_type, head, tmp_path / "model")
    pushed = push(tmp_path / "model", f"jane/{model_type}", api=api)
    assert not [name for name in pushed.files if name.endswith((".py", ".bin"))]
    again = getattr(transformers, auto).from_pretrained(f"jane/{model_type}").eval()
    assert type(again) is type(model)
    expected = model.state_dict()
    assert again.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in again.state_dict().items())
    reader = transformers.AutoProcessor.from_pretrained(f"jane/{model_type}")
    assert type(reader) is type(processor)
    batch, same = processor(**DOCUMENT, return_tensors="pt"), reader(**DOCUMENT, return_tensors="pt")
    assert batch.keys() == same.keys()
    assert all(torch.equal(batch[name], same[name]) for name in batch)
    with torch.no_grad():
        first, second = model(**batch), again(**same)
    torch.testing.assert_close(first[0], second[0])  # where weights lie in memory moves the last digit


@pytest.mark.parametrize("model_type", TYPES)
def test_code_is_whole(model_type: str, tmp_path: Path) -> None:
    """Every file that a carried file imports is carried too, under its own name; every Auto class is named."""
    save(model_type, heads(model_type)["AutoModel"], tmp_path)
    names = {path.name for path in add_code(tmp_path)}
    for path in tmp_path.glob("*.py"):
        text = path.read_text()
        assert "broadsheet" not in [line.split(".")[0] for line in text.split("import ")[1:]]
        imported = {line.split()[1][1:] + ".py" for line in text.splitlines() if line.startswith("from .")}
        assert imported <= names
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert auto_map.keys() == {"AutoConfig", *heads(model_type)}
    auto_map |= json.loads((tmp_path / "processor_config.json").read_text())["auto_map"]
    for target in auto_map.values():
        module, name = target.split(".")
        assert f"class {name}(" in (tmp_path / f"{module}.py").read_text()


def test_code_comes_and_goes_with_the_flag(saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub) -> None:
    folder, _, _ = saved
    push(folder, "jane/model", with_code=True, api=api)
    files = online.model("jane/model").files
    assert "modeling_skimformer.py" in files
    assert "AutoModelForTokenClassification" in json.loads(files["config.json"])["auto_map"]
    assert b"trust_remote_code=True" in files["README.md"]
    assert not list(folder.glob("*.py"))
    assert "auto_map" not in json.loads((folder / "config.json").read_text())
    push(folder, "jane/model", api=api)
    files = online.model("jane/model").files
    assert "auto_map" not in json.loads(files["config.json"])
    assert b"trust_remote_code" not in files["README.md"]


def test_old_weights_go_with_the_same_commit(saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub) -> None:
    folder, _, _ = saved
    api.create_repo("jane/model")
    online.model("jane/model").files |= {"pytorch_model.bin": b"old", "model-00001-of-00002.safetensors": b"old"}
    push(folder, "jane/model", api=api)
    assert online.model("jane/model").commits == 1
    assert {name for name in online.model("jane/model").files if "model" in name} == {"model.safetensors"}


def test_what_training_left_is_not_sent(saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub) -> None:
    folder, _, _ = saved
    (folder / "checkpoint-5").mkdir()
    for name in ("training_args.bin", "optimizer.pt", ".hidden", "results.json"):
        (folder / name).write_text("{}")
    pushed = push(folder, "jane/model", api=api)
    assert {"training_args.bin", "optimizer.pt", "checkpoint-5/", ".hidden"} == set(pushed.left_out)
    assert "results.json" in pushed.files
    assert online.model("jane/model").files.keys() == set(pushed.files)


def test_own_card_names_the_repository(saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub) -> None:
    folder, _, _ = saved
    (folder / "results.json").write_text('{"name": "run-1"}')
    (folder / "README.md").write_text('---\ntags: [a]\n---\nX.from_pretrained("run-1"), X.from_pretrained("other")\n')
    push(folder, "jane/model", api=api)
    card = online.model("jane/model").files["README.md"].decode()
    assert 'X.from_pretrained("jane/model"), X.from_pretrained("other")' in card


def test_plain_card_of_a_head_without_auto_class() -> None:
    card = plain_card({"model_type": "bert", "architectures": ["BertForPreTraining"]}, "jane/bert")
    assert 'AutoModel.from_pretrained("jane/bert")' in card
    assert "pipeline_tag: feature-extraction" in card


def test_processor_and_tokenizer_alone(saved: tuple[Path, Any, Any], tmp_path: Path, api: HfApi) -> None:
    _, _, processor = saved
    processor.save_pretrained(tmp_path / "processor")
    processor.tokenizer.save_pretrained(tmp_path / "tokenizer")
    assert push(tmp_path / "processor", "jane/processor", with_code=True, api=api).kind == "processor"
    assert push(tmp_path / "tokenizer", "jane/tokenizer", api=api).kind == "tokenizer"
    assert type(type(processor).from_pretrained("jane/processor")) is type(processor)
    again = transformers.AutoTokenizer.from_pretrained("jane/tokenizer")
    assert again("Total due")["input_ids"] == processor.tokenizer("Total due")["input_ids"]


def test_push_to_hub_of_transformers(saved: tuple[Path, Any, Any], api: HfApi) -> None:
    _, model, processor = saved
    model.push_to_hub("jane/direct")
    processor.push_to_hub("jane/direct")
    again = FieldExtractor.from_pretrained("jane/direct")
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in again.model.state_dict().items())


def test_broken_upload_changes_nothing_and_goes_on(
    saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    folder, model, _ = saved
    push(folder, "jane/model", api=api)
    before = dict(online.model("jane/model").files)
    with torch.no_grad():
        model.classifier.weight += 1
    model.save_pretrained(folder)
    online.cut_uploads = 1000
    with pytest.raises(InputError, match="jane/model broke off.*as it was.*same command again"):
        push(folder, "jane/model", api=api)
    assert online.model("jane/model").files == before
    online.cut_uploads = 0
    push(folder, "jane/model", api=api)
    again = FieldExtractor.from_pretrained("jane/model").model
    assert torch.equal(again.classifier.weight, model.classifier.weight)


@pytest.fixture
def forms(tmp_path: Path, online: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved dataset, and `datasets` on the fake Hub."""
    monkeypatch.setattr("datasets.config.HF_ENDPOINT", online.url)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    Dataset.from_dict({"words": [["Total"]]}).save_to_disk(str(tmp_path / "forms"))
    return tmp_path / "forms"


def test_new_branches(saved: tuple[Path, Any, Any], forms: Path, api: HfApi, online: FakeHub) -> None:
    for folder, kind in ((saved[0], "models"), (forms, "datasets")):
        push(folder, "jane/some", revision="dev", api=api)
        push(folder, "jane/some", revision="dev", api=api)
        assert online.repositories[kind, "jane/some"].branches == {"main", "dev"}
    assert "data/train-00000-of-00001.parquet" in online.repositories["datasets", "jane/some"].files


def test_broken_upload_of_a_dataset(forms: Path, api: HfApi, online: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    online.cut_uploads = 1000
    with pytest.raises(InputError, match="jane/forms broke off.*may hold a part of it.*same command again"):
        push(forms, "jane/forms", api=api)
    assert online.repositories["datasets", "jane/forms"].files.keys() == {"README.md"}


def test_weights_that_arrived_are_not_sent_twice(saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub) -> None:
    folder, _, _ = saved
    push(folder, "jane/model", api=api)
    push(folder, "jane/other", api=api)
    assert online.received == 1


@pytest.mark.parametrize(
    ("token", "says"),
    [("hf_wrong", "does not accept the token"), (READ_TOKEN, "may not write to jane/model")],
)
def test_tokens_that_may_not(token: str, says: str, saved: tuple[Path, Any, Any], online: FakeHub) -> None:
    with pytest.raises(InputError, match=says):
        push(saved[0], "jane/model", api=HfApi(endpoint=online.url, token=token))


@pytest.mark.parametrize(
    ("repo", "says"),
    [
        ("jane/missing", "no repository jane/missing"),
        ("jane/gated", "jane/gated is gated.*ask for it"),
        ("jane/half", "jane/half has no model.safetensors"),
    ],
)
def test_repositories_that_do_not_load(
    repo: str, says: str, saved: tuple[Path, Any, Any], api: HfApi, online: FakeHub
) -> None:
    for name in ("jane/gated", "jane/half"):
        push(saved[0], name, api=api)
    online.model("jane/gated").gated = True
    del online.model("jane/half").files["model.safetensors"]
    with pytest.raises(InputError, match=says):
        FieldExtractor.from_pretrained(repo)


def test_a_wrong_token_does_not_load(
    saved: tuple[Path, Any, Any], api: HfApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(saved[0], "jane/model", api=api)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(InputError, match="does not accept the token"):
        FieldExtractor.from_pretrained("jane/model")


def test_folders_that_cannot_be_pushed(saved: tuple[Path, Any, Any], tmp_path: Path, api: HfApi) -> None:
    folder, _, _ = saved
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    with pytest.raises(InputError, match="no folder"):
        push(tmp_path / "nowhere", "jane/model", api=api)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no config.json"):
        push(tmp_path / "empty", "jane/model", api=api)
    weights.write_bytes(whole[:-100])
    with pytest.raises(InputError, match="damaged or cut off"):
        push(folder, "jane/model", api=api)
    weights.unlink()
    with pytest.raises(InputError, match="no model.safetensors"):
        push(folder, "jane/model", api=api)
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(InputError, match="pickled.*convert"):
        push(folder, "jane/model", api=api)
    (folder / "pytorch_model.bin").unlink()
    weights.write_bytes(whole)
    (folder / "README.md").write_text("---\ntags: [a\n---\n# Broken\n")
    with pytest.raises(InputError, match="metadata of .*README.md"):
        push(folder, "jane/model", api=api)
    (folder / "README.md").unlink()
    with pytest.raises(InputError, match="no name of a repository"):
        push(folder, "jane/too/many", api=api)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="of type 'bert'"):
        push(folder, "jane/model", with_code=True, api=api)


def test_command(
    saved: tuple[Path, Any, Any], online: FakeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", online.url)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["push", str(saved[0]), "jane/model", "--with-code", "--token", TOKEN])
    assert stopped.value.code in (0, None)
    assert f"{online.url}/jane/model" in capsys.readouterr().out
    assert "configuration_skimformer.py" in online.model("jane/model").files


def test_members_name_all_their_heads() -> None:
    """What `add_code` writes for AutoModelForDocumentQuestionAnswering is what registration says."""
    for model_type, member in MODELS.items():
        assert set(heads(model_type).values()) == {
            model.__name__.removeprefix(member.config.__name__.removesuffix("Config"))
            for model in member.models.values()
        }
