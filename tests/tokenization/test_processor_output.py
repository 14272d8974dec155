"""What comes out of a processor's call."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokenization.examples import kinds, make_document, make_processor, shared_processor, words
from tests.tokenizers import KINDS

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.layout_batch import WORD_ID_KEYS

WORDS = ["Invoice", "number", "", "2024-0117", "quickly"]
BOXES = [[60, 80, 120, 96], [130, 80, 200, 96], [200, 80, 200, 96], [210, 80, 300, 96], [310, 80, 380, 96]]
PAGES = [(600, 800)]


def test_one_document_gives_flat_lists_like_transformers_tokenizers():
    processor = make_processor()
    batch = processor(text=WORDS, boxes=BOXES, page_sizes=PAGES)
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids", "bbox"}
    plain = processor.tokenizer(["Invoice", "number", "[UNK]", "2024-0117", "quickly"], is_split_into_words=True)
    assert batch["input_ids"] == plain["input_ids"]
    assert batch["token_type_ids"] == plain["token_type_ids"]
    assert batch["attention_mask"] == plain["attention_mask"]
    assert batch["bbox"][:3] == [[0, 0, 0, 0], [100, 100, 200, 120], [216, 100, 333, 120]]
    assert batch["bbox"][-1] == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special_tokens", [True, False])
@pytest.mark.parametrize("question", [None, "What is the number?"])
def test_ids_and_types_are_those_of_the_tokenizer(kind, special_tokens, question):
    processor = make_processor(kind, special_tokens=special_tokens)
    texts = ["Invoice", "number", "2024-0117", "zürich"]
    tokenizer = processor.tokenizer
    if question is None:
        batch = processor(texts, boxes=BOXES[:4], page_sizes=PAGES)
        theirs = tokenizer(texts, is_split_into_words=True)
    else:
        batch = processor(question, texts, boxes=BOXES[:4], page_sizes=PAGES, return_word_ids=True)
        ids = tokenizer.backend_tokenizer.encode(question, add_special_tokens=False).ids
        pieces = [
            tokenizer.backend_tokenizer.encode([w], is_pretokenized=True, add_special_tokens=False) for w in texts
        ]
        # What the backend's own post-processor makes of a question and words.
        whole = tokenizer.backend_tokenizer.post_process(
            tokenizer.backend_tokenizer.encode(question, add_special_tokens=False),
            tokenizer.backend_tokenizer.encode(texts, is_pretokenized=True, add_special_tokens=False),
        )
        theirs = {"input_ids": whole.ids, "token_type_ids": whole.type_ids}
        word_places = [place for place, word in enumerate(batch["token_word_ids"]) if word >= 0]
        assert len(word_places) == sum(len(piece.ids) for piece in pieces)
        assert min(word_places) >= len(ids)
        assert all(box == [0, 0, 0, 0] for box in batch["bbox"][: min(word_places)])
    assert batch["input_ids"] == list(theirs["input_ids"])
    if kind == "wordpiece":
        assert batch["token_type_ids"] == list(theirs["token_type_ids"])
    else:
        assert "token_type_ids" not in batch


def test_tensors_have_the_declared_types():
    processor = make_processor()
    documents = [make_document(WORDS), make_document(WORDS * 3, pages=2)]
    labels = [[1, 2, 3, 4, 5], [0] * 15]
    options = {"padding": True, "return_word_ids": True, "pad_to_multiple_of": 8, "word_labels": labels}
    arrays = processor(documents=documents, return_tensors="np", **options)
    tensors = processor(documents=documents, return_tensors="pt", **options)
    lists = processor(documents=documents, **options)
    assert set(tensors) == {*processor.model_input_names, "labels", *WORD_ID_KEYS}
    length = tensors["input_ids"].shape[1]
    assert length % 8 == 0
    for key, array in arrays.items():
        assert array.dtype == np.int64
        assert isinstance(tensors[key], torch.Tensor)
        assert tensors[key].tolist() == array.tolist() == lists[key]
    assert tensors["bbox"].shape == (2, length, 4)
    short = int(tensors["attention_mask"][0].sum())
    assert tensors["input_ids"][0, short:].eq(processor.tokenizer.pad_token_id).all()
    assert tensors["bbox"][0, short:].eq(0).all()
    assert tensors["labels"][0, short:].eq(-100).all()
    for key in ("token_word_ids", "token_subword_ids", "token_page_ids"):
        assert tensors[key][0, short:].eq(-1).all()
    assert tensors["overflow_to_sample_mapping"].tolist() == [0, 1]
    assert set(tensors.model_inputs) == {*processor.model_input_names, "labels"}


def test_labels_stand_on_first_subwords_alone():
    processor = make_processor(id2label=["O", "B-X", "I-X"])
    batch = processor(
        ["2024-0117", "due"], boxes=BOXES[:2], page_sizes=PAGES, word_labels=[1, 2], return_word_ids=True
    )
    subwords = batch["token_subword_ids"]
    assert max(subwords) > 0
    expected = {0: 1, 1: 2}
    for word, subword, label in zip(batch["token_word_ids"], subwords, batch["labels"], strict=True):
        assert label == (expected[word] if subword == 0 else -100)
    processor.only_label_first_subword = False
    batch = processor(
        ["2024-0117", "due"], boxes=BOXES[:2], page_sizes=PAGES, word_labels=["B-X", "I-X"], return_word_ids=True
    )
    assert batch["labels"] == [expected.get(word, -100) for word in batch["token_word_ids"]]


def test_a_words_label_is_not_repeated_where_a_window_cuts_the_word():
    processor = make_processor("bpe")
    batch = processor(
        ["x" * 40],
        boxes=[[0, 0, 9, 9]],
        word_labels=[3],
        truncation=True,
        max_length=8,
        stride=2,
        return_overflowing_tokens=True,
    )
    assert len(batch["labels"]) > 2
    assert [label for row in batch["labels"] for label in row if label != -100] == [3]


def test_pages_and_words_of_tokens():
    processor = make_processor("bpe")
    document = make_document(["quickly"] * 30, pages=3)
    batch = processor(
        documents=document,
        return_word_ids=True,
        truncation=True,
        max_length=40,
        stride=3,
        return_overflowing_tokens=True,
    )
    for words_, pages in zip(batch["token_word_ids"], batch["token_page_ids"], strict=True):
        assert pages == [document["page_ids"][word] if word >= 0 else -1 for word in words_]
    assert {page for pages in batch["token_page_ids"] for page in pages} == {-1, 0, 1, 2}


def test_split_boxes_give_pieces_their_share():
    whole = make_processor("bpe")(["quickly"], boxes=[[100, 0, 800, 9]], return_word_ids=True)
    split = make_processor("bpe", subword_boxes="split")(["quickly"], boxes=[[100, 0, 800, 9]])
    inside = [place for place, word in enumerate(whole["token_word_ids"]) if word == 0]
    assert len(inside) > 1
    assert {tuple(whole["bbox"][place]) for place in inside} == {(100, 0, 800, 9)}
    pieces = [split["bbox"][place] for place in inside]
    assert pieces[0][0] == 100
    assert pieces[-1][2] == 800
    assert all(left[2] == right[0] for left, right in zip(pieces[:-1], pieces[1:], strict=True))
    lengths = [
        len(token.lstrip("Ġ"))
        for token in shared_processor("bpe").tokenizer.convert_ids_to_tokens([whole["input_ids"][i] for i in inside])
    ]
    assert [right - left for left, _, right, _ in pieces] == [100 * length for length in lengths if length]


class Page:
    """Anything with these attributes is a document."""

    words = WORDS
    boxes = BOXES
    page_ids = None
    page_sizes = PAGES


def test_all_forms_of_a_document_give_the_same():
    processor = make_processor()
    expected = processor(WORDS, boxes=BOXES, page_sizes=PAGES).data
    row = {"words": WORDS, "boxes": BOXES, "page_sizes": PAGES, "id": "a", "labels": [0] * 5}
    for documents in (Page, Page(), row, {**row, "words": tuple(WORDS), "boxes": np.array(BOXES)}):
        assert processor(documents=documents).data == expected
    batched = {key: [value] for key, value in expected.items()}
    columns = {key: [value] for key, value in row.items()}
    for documents in ([Page], (row,), columns):
        assert processor(documents=documents).data == batched
    assert processor([WORDS], boxes=[BOXES], page_sizes=[PAGES]).data == batched
    assert processor([np.array(WORDS)], boxes=[torch.tensor(BOXES)], page_sizes=[np.array(PAGES)]).data == batched
    asked = processor("How much?", WORDS, boxes=BOXES, page_sizes=PAGES).data
    assert processor("How much?", documents=row).data == asked
    assert processor(["How much?"], [WORDS], boxes=[BOXES], page_sizes=[PAGES]).data["bbox"] == [asked["bbox"]]


@settings(max_examples=60, deadline=None)
@given(st.data(), kinds, st.sampled_from(["left", "right"]), st.booleans())
def test_padding_and_batching_change_no_window(data, kind, side, ask):
    processor = shared_processor(kind, padding_side=side, subword_boxes=data.draw(st.sampled_from(["word", "split"])))
    documents = [
        make_document(data.draw(st.lists(words, min_size=1, max_size=25)), pages=data.draw(st.integers(1, 3)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    labels = [list(range(len(document["words"]))) for document in documents]
    question = "What is it?" if ask else None
    options = {
        "truncation": True,
        "max_length": data.draw(st.integers(24, 40)),
        "stride": data.draw(st.integers(0, 5)),
        "return_overflowing_tokens": True,
        "return_word_ids": True,
    }
    single: dict[str, list] = {}
    for index, document in enumerate(documents):
        batch = processor(question, documents=document, word_labels=labels[index], **options)
        batch["overflow_to_sample_mapping"] = [index] * len(batch["input_ids"])
        for key, rows in batch.items():
            single.setdefault(key, []).extend(rows)
    batch = processor(
        question and [question] * len(documents),
        documents=documents,
        word_labels=labels,
        padding=True,
        return_tensors="np",
        **options,
    )
    assert set(batch) == set(single)
    assert batch["overflow_to_sample_mapping"].tolist() == single.pop("overflow_to_sample_mapping")
    for window, mask in enumerate(batch["attention_mask"].astype(bool)):
        assert mask.tolist() == sorted(mask.tolist(), reverse=side == "right")
        for key, rows in single.items():
            assert batch[key][window][mask].tolist() == rows[window], key


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=30), kinds, st.integers(4, 30), st.data())
def test_every_word_is_in_some_window_and_windows_cover_all_subwords(texts, kind, max_length, data):
    processor = shared_processor(kind)
    stride = data.draw(st.integers(0, max_length - 3 if kind == "wordpiece" else 0))
    batch = processor(
        texts,
        boxes=[[0, 0, 1, 1]] * len(texts),
        truncation=True,
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_word_ids=True,
    )
    whole = processor(texts, boxes=[[0, 0, 1, 1]] * len(texts), return_word_ids=True)
    assert all(len(row) <= max_length for row in batch["input_ids"])
    seen = {
        (word, subword): token
        for rows in zip(batch["token_word_ids"], batch["token_subword_ids"], batch["input_ids"], strict=True)
        for word, subword, token in zip(*rows, strict=True)
        if word >= 0
    }
    expected = {
        (word, subword): token
        for word, subword, token in zip(
            whole["token_word_ids"], whole["token_subword_ids"], whole["input_ids"], strict=True
        )
        if word >= 0
    }
    assert seen == expected
    assert {word for word, _ in seen} == set(range(len(texts)))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_those_of_the_words_in_one_tokenizer_call(kind):
    processor = make_processor(kind)
    texts = ["Invoice", "total", "日本語", "due", "total", "$1,234.56", "Überweisung"]
    batch = processor(texts, boxes=[[0, 0, 1, 1]] * len(texts), return_word_ids=True)
    theirs = processor.tokenizer(texts, is_split_into_words=True)
    assert batch["input_ids"] == theirs["input_ids"]
    assert batch["token_word_ids"] == [-1 if word is None else word for word in theirs.word_ids()]


def test_truncation_without_overflow_keeps_the_first_window_and_says_once_what_it_cut(caplog):
    processor = make_processor()
    texts, boxes = ["total"] * 50, [[0, 0, 1, 1]] * 50
    with caplog.at_level(logging.WARNING):
        batch = processor(texts, boxes=boxes, truncation=True, max_length=12)
        processor(texts, boxes=boxes, truncation=True, max_length=12)
    assert len(batch["input_ids"]) == 12
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert messages[0].startswith("Truncation cut 40 words of 1 documents")


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_does_not_change_the_fingerprint_that_datasets_caches_by(kind):
    from datasets.fingerprint import Hasher

    processor = make_processor(kind)
    before = Hasher.hash(processor)
    processor(["total"] * 50, boxes=[[0, 0, 1, 1]] * 50, truncation=True, max_length=12, padding=True)
    processor("due?", ["total"] * 50, boxes=[[0, 0, 1, 1]] * 50)
    assert Hasher.hash(processor) == before


def test_truncation_that_has_no_length_says_so(caplog):
    processor = make_processor()
    with caplog.at_level(logging.WARNING):
        batch = processor(["total"] * 600, boxes=[[0, 0, 1, 1]] * 600, truncation=True)
    assert len(batch["input_ids"]) == 602
    assert "max_length is not given" in caplog.text


def test_the_tokenizers_limit_is_the_default_length():
    processor = make_processor(model_max_length=16)
    batch = processor(["total"] * 50, boxes=[[0, 0, 1, 1]] * 50, truncation=True, return_overflowing_tokens=True)
    assert [len(row) for row in batch["input_ids"]] == [16, 16, 16, 10]


def test_padding_to_max_length():
    processor = make_processor(model_max_length=16)
    batch = processor(["total"], boxes=[[0, 0, 1, 1]], padding="max_length", return_tensors="np")
    assert batch["input_ids"].shape == (1, 16)


def test_a_long_document_logs_nothing(caplog, capsys):
    processor = make_processor(model_max_length=16)
    with caplog.at_level(logging.WARNING):
        processor(
            ["total"] * 500,
            boxes=[[0, 0, 1, 1]] * 500,
            truncation=True,
            return_overflowing_tokens=True,
            padding=True,
            return_tensors="pt",
        )
    assert caplog.records == []
    assert capsys.readouterr().err == ""


def test_truncation_and_padding_of_tokenizer_json_do_not_reach_the_words():
    processor = make_processor()
    backend = processor.tokenizer.backend_tokenizer
    backend.enable_truncation(4)
    backend.enable_padding(length=9)
    batch = processor(["total"] * 30, boxes=[[0, 0, 1, 1]] * 30)
    assert len(batch["input_ids"]) == 32
    assert backend.truncation["max_length"] == 4
    assert backend.padding["length"] == 9


def test_batches_keep_float32_under_half_precision_and_move():
    batch = make_processor()(WORDS, boxes=BOXES, page_sizes=PAGES, return_tensors="pt")
    batch["layout"] = torch.full((1, 3), 0.1)
    assert batch.to(torch.bfloat16)["layout"].dtype == torch.float32
    assert batch.to("cpu", dtype=torch.bfloat16, non_blocking=True)["layout"].dtype == torch.float32
    moved = batch.to("meta")
    assert moved is batch
    assert all(value.device.type == "meta" for value in moved.values())
    assert batch.model_inputs.to(device="meta")["bbox"].device.type == "meta"


def test_windows_of_different_lengths_make_no_tensor():
    processor = make_processor()
    with pytest.raises(InputError, match="windows have 3 to 4 tokens .* padding=True"):
        processor([["total"], ["total", "due"]], boxes=[BOXES[:1], BOXES[:2]], return_tensors="pt")
