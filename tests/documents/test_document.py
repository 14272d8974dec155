"""The interchange type and the choice of a reader."""

import pytest
from tests.pdfs import make_letter

from broadsheet.documents import Document, InputError, read_document

WORDS = ["Total", "5.00"]
BOXES = [[10.0, 10.0, 30.0, 20.0], [40.0, 10.0, 60.0, 20.0]]


def make(**changes):
    fields = {"words": WORDS, "boxes": BOXES, "page_ids": [0, 0], "page_sizes": [(100.0, 200.0)]}
    return Document(**{**fields, **changes})


def test_document_counts_its_words_and_pages():
    document = make(page_ids=[0, 2], page_sizes=[(100.0, 200.0)] * 3)
    assert len(document) == 2
    assert document.num_pages == 3
    assert document.word_ids_of_page(1) == []
    assert document.word_ids_of_page(2) == [1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": []}, "has no words"),
        ({"boxes": BOXES[:1]}, "2 words but 1 boxes"),
        ({"boxes": [BOXES[0], [60.0, 10.0, 40.0, 20.0]]}, r"word 1 \('5.00'\).*swapped corners"),
        ({"boxes": [BOXES[0], [40.0, float("nan"), 60.0, 20.0]]}, r"word 1 \('5.00'\).*not finite"),
        ({"page_ids": [1, 0], "page_sizes": [(1.0, 1.0)] * 2}, "fall from 1 to 0"),
        ({"page_ids": [0, 1]}, "on page 1"),
        ({"segment_ids": [0]}, "2 words but 1 segment ids"),
        ({"source": "a.pdf", "boxes": BOXES[:1]}, r"Document a\.pdf has 2 words but 1 boxes"),
    ],
)
def test_document_refuses_parts_that_do_not_fit(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_document_survives_the_way_through_a_dictionary():
    document = make(segment_ids=[0, 1], source="a.pdf")
    assert Document.from_dict({**document.to_dict(), "labels": ["O", "O"]}) == document
    with pytest.raises(InputError, match="page_ids, page_sizes are missing"):
        Document.from_dict({"words": WORDS, "boxes": BOXES})


def test_read_document_chooses_by_suffix(tmp_path):
    path = make_letter(tmp_path / "letter.PDF")
    assert read_document(path).words[0] == "Page"
    with pytest.raises(InputError, match=r"letter\.docx has the suffix '\.docx'.*\.pdf"):
        read_document(tmp_path / "letter.docx")
