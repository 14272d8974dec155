"""What `FieldExtractor.from_pretrained` loads, and what it refuses."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.hub.models import LABELS, save, tiny
from tests.pdfs import make_letter
from tests.tokenizers import tiny_tokenizer

from broadsheet.documents import read_pdf
from broadsheet.export import export_model
from broadsheet.extraction import FieldExtractor
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.baselines import BASELINES

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def refuses_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be loaded before the refusal."""

    def load(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("broadsheet.extraction.AutoModelForTokenClassification.from_pretrained", load)


def save_baseline(model_type: str, head: str, folder: Path) -> None:
    member = BASELINES[model_type]
    tokenizer = tiny_tokenizer("wordpiece", model_max_length=32)
    names = {"id2label": LABELS, "label2id": {name: index for index, name in LABELS.items()}}
    config = member.config(vocab_size=len(tokenizer), **SIZES, **names)
    model = next(each for each in member.models.values() if each.__name__.endswith(head))
    model(config).save_pretrained(folder)
    member.processor(tokenizer, id2label=LABELS).save_pretrained(folder)


@pytest.mark.parametrize("head", ["Model", "ForMaskedLM", "ForSequenceClassification"])
def test_a_head_of_random_numbers_is_never_used(head: str, tmp_path: Path, refuses_to_load: None) -> None:
    save("skimformer", head, tmp_path)
    with pytest.raises(InputError, match=f"holds Skimformer{head}, not one that labels words; fine-tune it"):
        FieldExtractor.from_pretrained(tmp_path)


def test_nor_one_of_a_baseline(tmp_path: Path, refuses_to_load: None) -> None:
    save_baseline("bert", "ForMaskedLM", tmp_path)
    with pytest.raises(InputError, match="holds BertForMaskedLM, not one that labels words"):
        FieldExtractor.from_pretrained(tmp_path)


def test_a_graph_of_another_head(tmp_path: Path) -> None:
    model, processor = tiny("skimformer", "ForSequenceClassification")
    export_model(model, processor, tmp_path, "torch")
    with pytest.raises(InputError, match="holds SkimformerForSequenceClassification, not one that labels words"):
        FieldExtractor.from_pretrained(tmp_path)


def test_a_graph_of_the_right_head_whatever_its_model_started_from(tmp_path: Path) -> None:
    model, processor = tiny("skimformer", "ForTokenClassification")
    model.config.architectures = ["SkimformerForMaskedLM"]
    export_model(model, processor, tmp_path / "graph", "torch")
    extractor = FieldExtractor.from_pretrained(tmp_path / "graph", device="cpu", max_length=16)
    document = read_pdf(make_letter(tmp_path / "letter.pdf"))
    expected = FieldExtractor(model, processor, device="cpu", max_length=16)(document)
    assert extractor(document).labels == expected.labels


@pytest.mark.parametrize("model_type", ["bert", "layoutlm"])
def test_baselines_with_and_without_their_processor(model_type: str, tmp_path: Path) -> None:
    save_baseline(model_type, "ForTokenClassification", tmp_path / "model")
    document = read_pdf(make_letter(tmp_path / "letter.pdf"))
    extractor = FieldExtractor.from_pretrained(tmp_path / "model", device="cpu")
    assert type(extractor.processor) is BASELINES[model_type].processor
    labels = extractor(document).labels
    assert len(labels) == len(document)
    assert set(labels) <= set(LABELS.values())
    shutil.copytree(tmp_path / "model", tmp_path / "bare", ignore=shutil.ignore_patterns("processor_config.json"))
    assert FieldExtractor.from_pretrained(tmp_path / "bare", device="cpu")(document).labels == labels


@pytest.mark.parametrize("device", ["gpu", "cuda"])
def test_a_missing_device_is_told_before_the_model_is_loaded(
    device: str, tmp_path: Path, refuses_to_load: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 0)
    save("skimformer", "ForTokenClassification", tmp_path)
    with pytest.raises(InputError, match=f"no device '{device}' on this machine; choose one of cpu"):
        FieldExtractor.from_pretrained(tmp_path, device=device)


def test_the_import_brings_no_training() -> None:
    code = "import sys, broadsheet.extraction; print([name for name in sys.modules if name == 'broadsheet.training'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
