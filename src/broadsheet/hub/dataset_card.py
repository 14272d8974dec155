"""The card of a dataset, from its corpus' card and from what the dataset says of itself."""

from typing import Any

from datasets import Dataset, DatasetDict
from datasets.naming import camelcase_to_snakecase

from broadsheet.cards import fill, read_corpus_card, split_card
from broadsheet.dataset_scripts.loading import BUILDERS

# Names of licences as corpora write them, and as the Hub does.
_LICENSES = {
    "cc by 4.0": "cc-by-4.0",
    "apache-2.0": "apache-2.0",
    "mit": "mit",
    "cc0": "cc0-1.0",
}
# `datasets` names builders by their classes.
_CORPORA = {camelcase_to_snakecase(builder.__name__): name for name, builder in BUILDERS.items()}


def dataset_card(dataset: Dataset | DatasetDict, repo: str) -> str:
    """
    A README.md: what the dataset is, where it comes from, its licence, splits and columns.

    What the corpus' card in `dataset_cards/` says of the corpus, its licence and its citation is taken over; of
    another dataset the `info` says it.

    Args:
        dataset: of `broadsheet.load_dataset`, or any; its `info` has description, homepage and licence.
        repo: USER/NAME.
    """
    splits = dict(dataset) if isinstance(dataset, DatasetDict) else {"train": dataset}
    first = next(iter(splits.values()))
    info = first.info
    corpus = read_corpus_card(_CORPORA.get(info.builder_name or "", ""))
    front, sections = split_card(corpus) if corpus else (_metadata(info.license), {})
    front = {"tags": ["broadsheet", "document-understanding", "layout"], **front}
    front.pop("pretty_name", None)
    front.pop("size_categories", None)
    tasks = [task for column, task in _TASKS.items() if column in first.features]
    if tasks:
        front["task_categories"] = tasks
    else:
        front.pop("task_categories", None)
    citation = sections.get("Citation") or (f"```bibtex\n{info.citation.strip()}\n```" if info.citation else "")
    reading = sections.get("How it is read")
    about = [sections.get("") or (info.description or "Documents as words, boxes and pages.").strip(), reading]
    return fill(
        "dataset_cards/templates/dataset.md",
        front,
        title=repo.rpartition("/")[2],
        about="\n\n".join(filter(None, about)),
        source=f"It comes from {info.homepage}.\n\n" if info.homepage else "",
        repo=repo,
        splits="\n".join(f"| {name} | {len(part):,} |" for name, part in splits.items()),
        columns="\n".join(f"| `{name}` | {_COLUMNS.get(name, 'see the features')} |" for name in first.features),
        licence=sections.get("Licence") or info.license or "Not told; ask who made it before you pass it on.",
        citation=f"\n\n## Citation\n\n{citation}" if citation else "",
    )


def _metadata(license_name: str | None) -> dict[str, Any]:
    if not license_name:
        return {}
    known = _LICENSES.get(license_name.lower())
    if known:
        return {"license": known}
    name = "".join(c if c.isalnum() else "-" for c in license_name.lower()).strip("-")[:60]
    return {"license": "other", "license_name": name}


_TASKS = {
    "labels": "token-classification",
    "label": "text-classification",
    "questions": "question-answering",
    "summary": "summarization",
}
_COLUMNS = {
    "id": "a name that is unique in the split",
    "words": "the words, in the source's reading order",
    "boxes": "(x0, y0, x1, y1) of each word in the unit of `page_sizes`, origin top left",
    "page_ids": "the page of each word, from 0",
    "page_sizes": "(width, height) of each page",
    "segment_ids": "the text line or block of each word; null where the source tells none",
    "source": "the file that the document was read from",
    "labels": "the label of each word",
    "label": "the class of the document",
    "entities": "type, words and text of each entity",
    "links": "pairs of entities that belong together",
    "questions": "questions, their answers, and the words of each",
    "summary": "a summary of the document",
}
