"""The card of a checkpoint as it goes to the Hub."""

import re
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCard

from broadsheet.cards import fill
from broadsheet.hub.code import read_json
from broadsheet.tokenization.input_checks import InputError

_HEADS = {
    "ForTokenClassification": ("AutoModelForTokenClassification", "token-classification"),
    "ForSequenceClassification": ("AutoModelForSequenceClassification", "text-classification"),
    "ForQuestionAnswering": ("AutoModelForQuestionAnswering", "question-answering"),
    "ForMaskedLM": ("AutoModelForMaskedLM", "fill-mask"),
    "ForConditionalGeneration": ("AutoModelForSeq2SeqLM", "summarization"),
    "Model": ("AutoModel", "feature-extraction"),
}
_WITH_CODE = """
## Without Broadsheet

This repository carries the model's code: where Broadsheet is not installed, pass `trust_remote_code=True` to
`from_pretrained`, and leave `import broadsheet` out.
"""


def finished_card(folder: Path, repo: str, with_code: bool) -> str:
    """
    The folder's README.md, or a plain card where it has none.

    In the folder's own card, `from_pretrained` of the run's or the folder's name becomes `from_pretrained` of `repo`.

    Raises:
        InputError: for a card whose metadata the Hub would refuse.
    """
    path = folder / "README.md"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        names = {folder.name, folder.resolve().name, str(folder)}
        if (folder / "results.json").is_file():
            names.add(str(read_json(folder / "results.json").get("name")))
        for name in names:
            text = text.replace(f'from_pretrained("{name}"', f'from_pretrained("{repo}"')
    else:
        text = plain_card(read_json(folder / "config.json"), repo)
    if with_code and "trust_remote_code" not in text:
        text = f"{text.rstrip()}\n{_WITH_CODE}"
    check_card(text, str(path))
    return text


def plain_card(config: dict[str, Any], repo: str) -> str:
    """A card that says what a model is and how to load it, from its config.json."""
    model_type = config.get("model_type", "unknown")
    architecture = (config.get("architectures") or ["Model"])[0]
    pairs = (pair for end, pair in _HEADS.items() if architecture.endswith(end))
    auto_model, pipeline_tag = next(pairs, _HEADS["Model"])
    front = {
        "library_name": "transformers",
        "tags": ["broadsheet", model_type, "document-understanding"],
        "pipeline_tag": pipeline_tag,
    }
    return fill(
        "model_cards/templates/plain.md",
        front,
        title=repo.rpartition("/")[2],
        model_type=model_type,
        auto_model=auto_model,
        repo=repo,
    )


def check_card(text: str, name: str) -> None:
    """
    Check a card's metadata as huggingface_hub does without asking the Hub: YAML, a mapping, a sound model-index.

    Raises:
        InputError: naming the card and what is wrong.
    """
    if not re.match(r"---\s*\n.*?\n---\s*(\n|$)", text, re.DOTALL):
        raise InputError(f"{name} has no metadata; begin it with YAML between two lines of ---.")
    try:
        data = ModelCard(text).data
    except (ValueError, TypeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"The metadata of {name} are not what the Hub takes ({reason}); correct them.") from None
    for key in ("tags", "datasets", "metrics", "language"):
        value = getattr(data, key, None)
        if value is not None and not isinstance(value, str | list):
            raise InputError(f"The metadata of {name} have {key}: {value!r}; write a list of words.")
