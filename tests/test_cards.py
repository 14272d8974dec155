"""Cards of members and corpora: metadata that huggingface_hub takes, numbers that records hold."""

import dataclasses
import re
from pathlib import Path

import datasets
import pytest
import transformers
import yaml
from huggingface_hub import DatasetCard, DatasetCardData, ModelCard
from tests.dataset_scripts.funsd_files import write_funsd

from broadsheet import load_dataset
from broadsheet.cards import fill, read_corpus_card, split_card
from broadsheet.dataset_scripts.loading import BUILDERS
from broadsheet.hub.card import check_card, plain_card
from broadsheet.hub.dataset_card import dataset_card
from broadsheet.pipelines import PIPELINES
from broadsheet.registration import MODELS
from broadsheet.results.quotes import QUOTE
from broadsheet.tokenization.input_checks import InputError

FOLDER = Path(__file__).resolve().parent.parent / "model_cards"
DATASETS = FOLDER.parent / "dataset_cards"
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


@pytest.mark.parametrize("name", BUILDERS)
def test_card_of_a_corpus(name: str) -> None:
    text = (DATASETS / f"{name}.md").read_text(encoding="utf-8")
    check_card(text, name)
    card = DatasetCard(text)
    assert isinstance(card.data, DatasetCardData)
    assert card.data.pretty_name
    assert card.data.license
    assert {"broadsheet", "document-understanding"} <= set(card.data.tags)
    if card.data.license == "other":
        assert card.data.license_name
    assert card.data.to_yaml()
    front, sections = split_card(text)
    assert front == yaml.safe_load(text.split("---\n")[1])
    assert tuple(sections)[:5] == ("", "Use", "Splits", "How it is read", "Licence")
    assert all(sections.values())
    assert f'load_dataset("{name}", data_dir=' in sections["Use"]
    if "Citation" in sections:
        assert re.match(r"```bibtex\n@inproceedings\{\w+,\n(  \w+ = \{.+\},?\n)+\}\n```$", sections["Citation"])


def test_corpus_cards_name_options_that_loaders_have() -> None:
    for name, builder in BUILDERS.items():
        text = (DATASETS / f"{name}.md").read_text(encoding="utf-8")
        options = {field.name for field in dataclasses.fields(builder.BUILDER_CONFIG_CLASS)}
        code = re.findall(r"(?<=`)(\w+)=[^`]*`", text) + re.findall(r"load_dataset\([^)]*, (?!data_dir)(\w+)=", text)
        assert set(code) <= options, name


def test_no_dataset_card_is_of_no_dataset() -> None:
    assert {path.stem for path in DATASETS.glob("*.md")} == set(BUILDERS)


def test_pushed_corpus_says_what_its_card_says(tmp_path: Path) -> None:
    write_funsd(tmp_path, train=2, test=1)
    dataset = load_dataset("funsd", data_dir=tmp_path, cache_dir=str(tmp_path / "cache"))
    dataset.save_to_disk(str(tmp_path / "saved"))
    text = dataset_card(datasets.load_from_disk(str(tmp_path / "saved")), "jane/forms")
    data = DatasetCard(text).data
    assert data.license_name == "funsd"
    assert data.language == ["en"]
    assert "jaume2019funsd" in text
    assert "Empty words are dropped" in text
    assert 'load_dataset("jane/forms")' in text


def test_card_of_a_dataset_of_no_corpus() -> None:
    dataset = datasets.Dataset.from_dict({"id": ["a"], "words": [["x"]], "other": [1]})
    text = dataset_card(dataset, "jane/own")
    check_card(text, "card")
    assert "Not told; ask who made it" in text
    assert "Citation" not in text
    dataset.info.license = "Apache-2.0"
    assert DatasetCard(dataset_card(dataset, "jane/own")).data.license == "apache-2.0"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("templates/*.md")) + sorted(DATASETS.glob("templates/*.md")))
def test_templates_are_files_with_metadata(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("---\n{metadata}---\n\n# {title}\n")
    assert text.endswith("\n")


def test_metadata_of_a_template_are_escaped() -> None:
    front = {"tags": ["a: b", "c#d"], "license": "mit"}
    values = {"title": "x {y}", "model_type": "lambert", "auto_model": "AutoModel", "repo": "j/x"}
    text = fill("model_cards/templates/plain.md", front, **values)
    check_card(text, "card")
    assert ModelCard(text).data.tags == ["a: b", "c#d"]
    assert "# x {y}" in text


def test_no_corpus_card_outside_the_folder() -> None:
    assert read_corpus_card("nothing") is None
    assert read_corpus_card("") is None
