"""Every sentence that bad input earns, before any computation."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.tokenization.examples import make_processor
from tests.tokenizers import tiny_tokenizer

from broadsheet.tokenization.input_checks import InputError, check_document
from broadsheet.tokenization.processing_layout import LayoutProcessor
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

BOX = [10, 10, 50, 20]
GOOD = {"text": ["Total", "due"], "boxes": [BOX, BOX], "page_ids": [0, 1], "page_sizes": [(600, 800)] * 2}
NAN, INF = float("nan"), float("inf")
THREE_LABELS = ["O", "B-X", "I-X"]

SINGLE = [
    ({"text": None}, "neither text nor documents"),
    ({"text": 7}, "text is of type int; pass the words as a list"),
    ({"text": "Total due"}, "text is one string; split it into a list of words, or pass it as a question"),
    ({"text": []}, "The document has no words; leave it out, or read its pages with OCR"),
    ({"text": ["Total", 7]}, "Word 1 of the document is 7, not a string"),
    ({"text": "How much?", "text_pair": "Total due"}, "text_pair is one string"),
    ({"text": ["How much?"], "text_pair": [["a"], ["b"]]}, "1 questions for 2 documents"),
    ({"text": [7], "text_pair": [["a"]], "boxes": [[BOX]], "page_ids": None, "page_sizes": None}, "question .* is 7"),
    ({"boxes": None}, r"no boxes; pass boxes=\[\[x0, y0, x1, y1\]"),
    ({"boxes": 3}, "boxes of the document are 3"),
    ({"boxes": [BOX]}, "2 words but 1 boxes"),
    ({"boxes": [BOX, [1, 2, 3]]}, r"box of word 1 \('due'\) of the document is \[1, 2, 3\]; a box has four numbers"),
    ({"boxes": [BOX, [1, 2, 3, None]]}, r"word 1 \('due'\) of the document is not finite"),
    ({"boxes": [BOX, [1, 2, 3, "x"]]}, r"box of word 1 \('due'\) .* a box has four numbers"),
    ({"boxes": [BOX, 5]}, r"box of word 1 \('due'\) of the document is 5"),
    ({"boxes": [[[1, 2], [3, 4]]] * 2}, r"box of word 0 \('Total'\) .* a box has four numbers"),
    ({"boxes": [BOX, [NAN, 0, 1, 1]]}, r"\[nan, 0.0, 1.0, 1.0\] of word 1 \('due'\) of the document is not finite"),
    ({"boxes": [BOX, [0, 0, INF, 1]]}, r"word 1 \('due'\) of the document is not finite"),
    ({"boxes": [BOX, [0, 0, INF, 1]], "clip_boxes": True}, r"word 1 \('due'\) of the document is not finite"),
    ({"boxes": [[-1, 0, 1, 1], BOX]}, r"word 0 \('Total'\) of the document has a negative .* clip_boxes=True"),
    ({"boxes": [BOX, [5, 0, 4, 1]]}, r"word 1 \('due'\) of the document has swapped corners"),
    ({"boxes": [BOX, [0, 5, 4, 1]], "clip_boxes": True}, r"word 1 \('due'\) of the document has swapped corners"),
    (
        {"boxes": [BOX, [0, 0, 700, 5]]},
        r"\[0.0, 0.0, 700.0, 5.0\] of word 1 \('due'\) .* beyond its page 1 of width 600",
    ),
    ({"page_ids": [0]}, "2 words but 1 page ids"),
    ({"page_sizes": None}, r"page_ids but no page_sizes; pass page_sizes=\[\(width, height\)"),
    ({"page_ids": [1, 0]}, r"fall from 1 to 0 at word 1 \('due'\); sort the words by page"),
    ({"page_ids": [0, 2]}, r"puts word 1 \('due'\) on page 2, but page_sizes has 2 pages"),
    ({"page_ids": [-1, 0]}, r"puts word 0 \('Total'\) on page -1"),
    ({"page_ids": [0, 0.5]}, r"page id of word 1 \('due'\) of the document is 0.5"),
    ({"page_ids": None}, "2 page sizes but no page_ids; pass the page of each word"),
    ({"page_ids": None, "page_sizes": []}, "empty page_sizes"),
    ({"page_sizes": [(600, 800), (600, 0)]}, r"Page 1 of the document has the size \(600, 0\)"),
    ({"page_sizes": [(600, 800), (INF, 5)]}, r"Page 1 of the document has the size \(inf, 5\)"),
    ({"page_sizes": [(600, 800), (NAN, 5)]}, r"Page 1 of the document has the size \(nan, 5\)"),
    ({"page_sizes": [(600, 800), 5]}, "Page 1 of the document has the size 5"),
    ({"page_sizes": (600, 800)}, "Page 0 of the document has the size 600"),
    ({"page_ids": None, "page_sizes": None, "boxes": [BOX, [0, 0, 1001, 5]]}, r"1001.0, 5.0\] of word 1 .* 0..1000"),
    ({"page_ids": None, "page_sizes": None, "boxes": [[0, 0, 0.5, 1]] * 2}, r"word 0 .* is a fraction of the page"),
    ({"word_labels": [1]}, "2 words but 1 labels"),
    ({"word_labels": "OO"}, "labels of the document are 'OO'; pass one label for each word"),
    ({"word_labels": [0, "B-Y"]}, "Label 1 of the document is 'B-Y', which is none of the known labels: O, B-X, I-X"),
    ({"word_labels": [0, 3]}, "Label 1 of the document is 3; labels run from 0 to 2, and -100"),
    ({"word_labels": [-1, 0]}, "Label 0 of the document is -1"),
    ({"word_labels": [0, 1.5]}, "Label 1 of the document is 1.5; labels are whole numbers"),
    ({"word_labels": [0, None]}, "Label 1 of the document is None; labels are whole numbers"),
    ({"documents": [SimpleNamespace(words=["a"])]}, "Both documents and boxes are given"),
    ({"padding": "longst"}, "padding is 'longst'; pass True, False or one of 'longest', 'max_length'"),
    ({"truncation": "yes"}, "truncation is 'yes'; pass True, False or one of"),
    ({"padding": "max_length"}, "needs a length, but the tokenizer names none; pass max_length"),
    ({"truncation": True, "max_length": 0}, "max_length is 0"),
    ({"truncation": True, "max_length": 2}, "max_length=2 leaves no room for words beside 2 tokens"),
    ({"truncation": True, "max_length": 9, "stride": 7}, "stride=7 is not below the 7 tokens"),
    ({"truncation": True, "max_length": 9, "stride": -1}, "stride is -1"),
    (
        {"max_length": 3},
        "2 words of the document make 4 tokens, but 3 is the most; pass truncation=True, max_length=3",
    ),
    (
        {"text": "What is the total amount due?", "text_pair": ["Total", "due"], "truncation": True, "max_length": 8},
        "max_length=8 leaves no room for words beside .* tokens of the question",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), SINGLE, ids=range(len(SINGLE)))
def test_bad_input_is_refused_with_a_sentence(change, sentence):
    processor = make_processor(id2label=THREE_LABELS)
    processor(**GOOD, word_labels=[0, "I-X"])
    with pytest.raises(InputError, match=sentence) as caught:
        processor(**{**GOOD, **change})
    message = str(caught.value)
    assert message.endswith(".")
    assert message[0].isupper() or message.split()[0].split("=")[0] in (
        *("text", "text_pair", "padding", "truncation", "max_length", "stride"),
    )


DOCUMENT = {"words": ["Total", "due"], "boxes": [BOX, BOX], "page_ids": [0, 0], "page_sizes": [(600, 800)]}
BATCH = [
    ({"documents": []}, "documents is empty"),
    ({"documents": "file.pdf"}, "documents is 'file.pdf'; pass a Document"),
    ({"documents": 3}, "documents is 3"),
    ({"documents": {"tokens": ["a"]}}, r"keys \['tokens'\] but no 'words'"),
    ({"documents": [DOCUMENT, ["a", "b"]]}, "Document 1 is a list without words"),
    ({"documents": [DOCUMENT, {"boxes": []}]}, "Document 1 is a dict without words"),
    ({"documents": [DOCUMENT, {**DOCUMENT, "boxes": [BOX]}]}, "Document 1 has 2 words but 1 boxes"),
    ({"documents": [DOCUMENT, {**DOCUMENT, "words": []}]}, "Document 1 has no words"),
    ({"documents": [DOCUMENT, {**DOCUMENT, "words": "ab"}]}, "words of document 1 are one string"),
    (
        {"documents": [DOCUMENT, {**DOCUMENT, "boxes": [BOX, [0, 0, 9, 900]]}]},
        r"word 1 \('due'\) of document 1 reaches",
    ),
    ({"documents": [DOCUMENT] * 2, "word_labels": [[0, 1]]}, "2 documents but 1 word_labels"),
    ({"documents": [DOCUMENT] * 2, "word_labels": [[0, 1], [0, 3]]}, "Label 1 of document 1 is 3"),
    ({"documents": [DOCUMENT] * 2, "word_labels": [[0, 1], None]}, "Document 1 has no word_labels, but others have"),
    ({"documents": [DOCUMENT] * 2, "text": "How much?"}, "text is one question but documents is a list of 2"),
    ({"documents": DOCUMENT, "text": ["How much?"]}, "text is a list but documents is one document"),
    ({"documents": [DOCUMENT] * 2, "text": ["How much?"]}, "1 questions for 2 documents"),
    ({"documents": [DOCUMENT] * 2, "text": ["How much?", 3]}, "question of document 1 is 3"),
    ({"documents": DOCUMENT, "text": "\ud800?"}, "cannot tokenize the questions .* check their characters"),
    ({"text": [["a"], ["b"]], "boxes": [[BOX]]}, "2 documents but 1 boxes"),
    ({"text": [["a"], ["b"]], "boxes": 3}, "2 documents but one boxes"),
    ({"text": [["a"], ["b", "c"]], "boxes": [[BOX], [BOX]]}, "Document 1 has 2 words but 1 boxes"),
    (
        {"documents": [DOCUMENT, {**DOCUMENT, "words": ["a"] * 40, "boxes": [BOX] * 40, "page_ids": None}]},
        "40 words of ",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), BATCH, ids=range(len(BATCH)))
def test_bad_input_in_a_batch_names_the_document(options, sentence):
    processor = make_processor(id2label=THREE_LABELS, model_max_length=32)
    with pytest.raises(InputError, match=sentence) as caught:
        processor(**options)
    assert str(caught.value).endswith(".")


def test_string_labels_need_id2label():
    with pytest.raises(InputError, match="string 'O', but the processor knows no labels; set processor.id2label"):
        make_processor()(**GOOD, word_labels=["O", "O"])
    batch = make_processor()(**GOOD, word_labels=[7, -100])
    assert batch["labels"] == [-100, 7, -100, -100]
    with pytest.raises(InputError, match="Label 0 of the document is -3; labels are counted from 0"):
        make_processor()(**GOOD, word_labels=[-3, 0])


def test_a_long_document_without_truncation_names_its_tokens_and_the_remedy():
    processor = make_processor(model_max_length=64)
    sentence = (
        "The 100 words of the document make 102 tokens, but 64 is the most; "
        r"pass truncation=True, max_length=64, stride=16, return_overflowing_tokens=True to get windows\."
    )
    with pytest.raises(InputError, match=sentence):
        processor(["total"] * 100, boxes=[BOX] * 100)


def test_boxes_that_are_points_or_lines_are_fine():
    batch = make_processor()(["a", "b"], boxes=[[5, 5, 5, 5], [5, 5, 9, 5]], page_sizes=[(10, 10)])
    assert batch["bbox"][1:3] == [[500, 500, 500, 500], [500, 500, 900, 500]]


def test_clipping_makes_boxes_off_the_page_usable():
    batch = make_processor()(["a"], boxes=[[-5, -5, 5, 20]], page_sizes=[(10, 10)], clip_boxes=True)
    assert batch["bbox"][1] == [0, 0, 500, 1000]
    batch = make_processor()(["a"], boxes=[[-5, -5, 5, 2000]], clip_boxes=True)
    assert batch["bbox"][1] == [0, 0, 5, 1000]


def test_subword_boxes_has_two_values():
    with pytest.raises(InputError, match="subword_boxes is 'token'; choose 'word' or 'split'"):
        SkimformerProcessor(tiny_tokenizer(), subword_boxes="token")


def test_a_processor_has_to_say_how_to_compute_its_tensors():
    with pytest.raises(NotImplementedError, match="LayoutProcessor does not say"):
        LayoutProcessor(tiny_tokenizer())(["a"], boxes=[BOX])


def test_check_document_accepts_arrays_and_omitted_pages():
    check_document(["a", "b"], np.array([BOX, BOX], dtype=np.float32))
    check_document(("a", "b"), [BOX, BOX], np.array([0, 0]), np.array([[600, 800]]))
    check_document(["a"], [BOX], None, [(600, 800)])
