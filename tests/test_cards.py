"""A card for each family member, with metadata that huggingface_hub takes, and numbers that records hold."""

import re
from pathlib import Path

import pytest
import transformers
from huggingface_hub import ModelCard
from tests.dataset_scripts.funsd_files import write_funsd

from broadsheet import load_dataset
from broadsheet.hub.card import check_card, plain_card
from broadsheet.hub.dataset_card import dataset_card
from broadsheet.pipelines import PIPELINES
from broadsheet.registration import MODELS
from broadsheet.results.quotes import QUOTE
from broadsheet.tokenization.input_checks import InputError

FOLDER = Path(__file__).resolve().parent.parent / "model_cards"
SECTIONS = (
    "Use",
    "When to use it",
    "When not",
    "Inputs",
    "Recipe",
    "Results",
    "Limits",
    "Licence",
    "Citation",
)


@pytest.mark.parametrize("model_type", MODELS)
def test_card(model_type: str) -> None:
    text = (FOLDER / f"{model_type}.md").read_text(encoding="utf-8")
    check_card(text, model_type)
    data = ModelCard(text).data
    assert data.license == "apache-2.0"
    assert data.library_name == "transformers"
    assert {"broadsheet", model_type} <= set(data.tags)
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == SECTIONS
    auto = re.search(r"import (AutoModel\w+), AutoProcessor", text)
    assert auto is not None
    assert getattr(transformers, auto[1]) in MODELS[model_type].models
    task = re.search(r'pipeline\("([\w-]+)"', text)
    assert task is not None
    assert task[1] in PIPELINES


@pytest.mark.parametrize("model_type", MODELS)
def test_measured_numbers_are_quoted_from_records(model_type: str) -> None:
    text = (FOLDER / f"{model_type}.md").read_text(encoding="utf-8")
    results = text.partition("## Results")[2].partition("## Limits")[0]
    assert not re.search(r"\d+\.\d+|\d+ ?%", QUOTE.sub("", results))


def test_no_card_is_of_no_model() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(MODELS)


def test_card_of_a_dataset(tmp_path: Path) -> None:
    write_funsd(tmp_path, train=2, test=1)
    dataset = load_dataset("funsd", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    text = dataset_card(dataset, "jane/funsd")
    check_card(text, "card")
    data = ModelCard(text).data
    assert data.license == "other"
    assert data.task_categories == ["token-classification"]
    assert "guillaumejaume.github.io/FUNSD" in text
    assert "non-commercial" in text
    assert all(f"| `{column}` |" in text for column in dataset["train"].column_names)
    assert "| train | 2 |" in text


def test_plain_card_has_metadata() -> None:
    text = plain_card({"model_type": "lambert", "architectures": ["LambertForTokenClassification"]}, "jane/fields")
    check_card(text, "plain")
    assert ModelCard(text).data.pipeline_tag == "token-classification"
    assert 'AutoModelForTokenClassification.from_pretrained("jane/fields")' in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# No metadata\n", "has no metadata"),
        ("---\ntags: [a\n---\n", "not what the Hub takes"),
        ("---\n- a list\n---\n", "not what the Hub takes"),
        ("---\ntags: 3\n---\n", "not what the Hub takes"),
        ("---\nlanguage: 3\n---\n", "have language: 3"),
    ],
)
def test_metadata_that_the_hub_refuses(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_card(text, "card")
