"""The PDF reader on real files: nothing fails, and words and boxes are those that DocBank's authors found."""

import logging
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from broadsheet.documents import read_pdf

DATA = Path(os.environ.get("BROADSHEET_DATA", ""))
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("BROADSHEET_DATA" not in os.environ, reason="needs BROADSHEET_DATA, real documents"),
]


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR, logger="broadsheet.documents.pdf")


@pytest.mark.parametrize("folder", ["kleister-nda", "vrdu-pdfs", "docbank"])
def test_real_files_are_read(folder):
    paths = sorted((DATA / folder).rglob("*.pdf"))
    if not paths:
        pytest.skip(f"{DATA / folder} has no PDF files")
    num_words, num_unmapped = 0, 0
    for path in paths[:: max(1, len(paths) // 25)]:
        document = read_pdf(path)
        boxes = np.array(document.boxes)
        sizes = np.array([document.page_sizes[page] for page in document.page_ids])
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, 2:] <= sizes + 1e-6).all()
        assert all(word and not re.search(r"\s", word) for word in document.words)
        assert document.segment_ids == sorted(document.segment_ids)
        assert (boxes[:, 2] > boxes[:, 0]).mean() > 0.99
        num_words += len(document)
        num_unmapped += sum("\ufffd" in word for word in document.words)
    assert num_words > 5000
    assert num_unmapped < 0.01 * num_words


def test_words_and_boxes_agree_with_docbank():
    """DocBank's annotations hold (x0, y0, x1, y1) in thousandths of the page, found by another PDF library."""
    distances, in_common, num_tokens = [], 0, 0
    for annotation in sorted((DATA / "docbank/DocBank_samples").glob("*.txt")):
        stem, page = annotation.stem.rsplit("_", 1)
        path = annotation.with_name(f"{stem}_black.pdf")
        if not path.exists():
            continue
        document = read_pdf(path)
        word_ids = document.word_ids_of_page(int(page))
        rows = [line.split("\t") for line in annotation.read_text(encoding="utf-8").splitlines()]
        theirs = {row[0]: row[1:5] for row in rows if not row[0].startswith("##LT")}
        their_counts = Counter(row[0] for row in rows if not row[0].startswith("##LT"))
        our_counts = Counter(document.words[index] for index in word_ids)
        in_common += sum((their_counts & our_counts).values())
        num_tokens += sum(their_counts.values())
        width, height = document.page_sizes[int(page)]
        for index in word_ids:
            word = document.words[index]
            if len(word) > 2 and our_counts[word] == their_counts[word] == 1:
                ours = np.array(document.boxes[index]) / [width, height, width, height] * 1000
                distances.append(np.abs(ours - np.array(theirs[word], dtype=float)))
    if not distances:
        pytest.skip("no annotated pages with their PDF files")
    assert in_common / num_tokens > 0.9  # the rest is mathematics, cut differently
    spread = np.percentile(distances, 99, axis=0)
    assert spread[0] <= 1.5  # left
    assert spread[2] <= 1.5  # right
    assert spread[1] <= 8  # top: how much room a font's ascent takes is told in different ways
    assert spread[3] <= 3
