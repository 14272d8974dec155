"""The texts of cards are files, `model_cards/` and `dataset_cards/`, that the code fills in."""

from pathlib import Path
from typing import Any

import yaml

_PACKAGE = Path(__file__).parent


def fill(template: str, metadata: dict[str, Any], **values: Any) -> str:
    """
    A card.

    Args:
        template: a file of the package, as "model_cards/templates/finetuned.md", with `{metadata}` and other places in
            the manner of `str.format`.
        metadata: goes between the lines of ---, as YAML.
        values: what the other places get.
    """
    text = (_PACKAGE / template).read_text(encoding="utf-8")
    return text.format(metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True), **values)


def read_corpus_card(name: str) -> str | None:
    """The card of a corpus that `broadsheet.load_dataset` reads; None where there is none of that name."""
    path = _PACKAGE / "dataset_cards" / f"{name}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else None


def split_card(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A card's metadata, and its sections by heading; what stands between title and first heading is under ""."""
    _, front, body = text.split("---\n", 2)
    first, *others = body.split("\n## ")
    sections = {"": first.partition("\n# ")[2].partition("\n")[2].strip()}
    for section in others:
        heading, _, content = section.partition("\n")
        sections[heading.strip()] = content.strip()
    return yaml.safe_load(front), sections
