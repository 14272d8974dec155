"""The card of a dataset, from what the dataset says of itself."""

from typing import Any

import yaml
from datasets import Dataset, DatasetDict

# Names of licences as corpora write them, and as the Hub does.
_LICENSES = {
    "cc by 4.0": "cc-by-4.0",
    "apache-2.0": "apache-2.0",
    "mit": "mit",
    "cc0": "cc0-1.0",
}


def dataset_card(dataset: Dataset | DatasetDict, repo: str) -> str:
    """
    A README.md: what the dataset is, where it comes from, its licence, splits and columns.

    Args:
        dataset: of `broadsheet.load_dataset`, or any; its `info` has description, homepage and licence.
        repo: USER/NAME.
    """
    splits = dict(dataset) if isinstance(dataset, DatasetDict) else {"train": dataset}
    first = next(iter(splits.values()))
    info = first.info
    front: dict[str, Any] = {"tags": ["broadsheet", "document-understanding", "layout"]}
    tasks = [task for column, task in _TASKS.items() if column in first.features]
    if tasks:
        front["task_categories"] = tasks
    if info.license:
        known = _LICENSES.get(info.license.lower())
        front["license"] = known or "other"
        if known is None:
            front["license_name"] = "".join(c if c.isalnum() else "-" for c in info.license.lower()).strip("-")[:60]
    rows = "\n".join(f"| {name} | {len(part):,} |" for name, part in splits.items())
    columns = "\n".join(f"| `{name}` | {_COLUMNS.get(name, 'see the features')} |" for name in first.features)
    source = f"It comes from {info.homepage}.\n\n" if info.homepage else ""
    terms = info.license or "Not told; ask who made it before you pass it on."
    citation = f"\n## Citation\n\n```bibtex\n{info.citation.strip()}\n```\n" if info.citation else ""
    return (
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n# {repo.rpartition('/')[2]}\n\n"
        f"{(info.description or 'Documents as words, boxes and pages.').strip()}\n\n{source}"
        f'## Use\n\n```python\nfrom datasets import load_dataset\n\ndataset = load_dataset("{repo}")\n```\n\n'
        f"| split | documents |\n|---|---|\n{rows}\n\n"
        f"## Columns\n\n| column | what it holds |\n|---|---|\n{columns}\n\n"
        f"## Licence\n\n{terms}\n{citation}"
    )


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
