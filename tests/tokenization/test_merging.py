"""Predictions of windows and sub-words back to words."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokenization.examples import (
    kinds,
    make_document,
    make_processor,
    one_hot_logits,
    shared_processor,
    words,
)

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.merging import softmax
from broadsheet.tokenization.tagging import bio_labels, bioes_labels, decode_entities

BIO = bio_labels(["NAME", "SUM"])
WINDOWS = {"truncation": True, "return_overflowing_tokens": True, "return_word_ids": True, "padding": True}


def names(labels: list[str]) -> dict[int, str]:
    return dict(enumerate(labels))


@settings(max_examples=100, deadline=None)
@given(st.data(), kinds, st.sampled_from(["left", "right"]), st.sampled_from(["first", "mean"]), st.integers(5, 40))
def test_every_word_has_one_prediction_and_entities_are_those_of_the_labels(data, kind, side, strategy, max_length):
    labels = data.draw(st.sampled_from([BIO, bioes_labels(["X", "Y"]), ["title", "O", "text"]]))
    processor = shared_processor(kind, padding_side=side)
    documents = [
        make_document(data.draw(st.lists(words, min_size=1, max_size=30)), pages=data.draw(st.integers(1, 2)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    word_labels = [
        data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=len(d["words"]), max_size=len(d["words"])))
        for d in documents
    ]
    stride = data.draw(st.integers(0, max_length - 4))
    batch = processor(documents=documents, max_length=max_length, stride=stride, return_tensors="np", **WINDOWS)
    logits = one_hot_logits(batch, word_labels, len(labels))
    results = processor.post_process_token_classification(
        logits, batch, documents, names(labels), aggregation_strategy=strategy
    )
    assert len(results) == len(documents)
    for result, document, expected in zip(results, documents, word_labels, strict=True):
        assert result.label_ids == expected
        assert result.labels == [labels[label] for label in expected]
        assert len(result.scores) == len(expected)
        spans = [(entity.label, entity.word_ids[0], entity.word_ids[-1] + 1) for entity in result.entities]
        assert spans == decode_entities(result.labels)
        for entity in result.entities:
            assert entity.words == [document["words"][word] for word in entity.word_ids]
            assert entity.boxes == [document["boxes"][word] for word in entity.word_ids]
            assert entity.page == entity.page_ids[0] == document["page_ids"][entity.word_ids[0]]
            assert entity.score == pytest.approx(np.mean([result.scores[word] for word in entity.word_ids]))
            assert entity.text == " ".join(entity.words)


def plain_merge(batch, logits, num_words: int, strategy: str) -> np.ndarray:
    """The definition, one token at a time: the window with most context on both sides; the earlier one of equals."""
    probabilities = softmax(logits.astype(np.float64))
    order = sorted(
        {
            (w, s)
            for ws, ss in zip(batch["token_word_ids"], batch["token_subword_ids"], strict=True)
            for w, s in zip(ws.tolist(), ss.tolist(), strict=True)
            if w >= 0
        }
    )
    place_of = {token: place for place, token in enumerate(order)}
    best: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
    for window in range(len(logits)):
        inside = np.flatnonzero(batch["token_word_ids"][window] >= 0)
        tokens = [
            (int(batch["token_word_ids"][window][i]), int(batch["token_subword_ids"][window][i])) for i in inside
        ]
        start, end = place_of[tokens[0]], place_of[tokens[-1]] + 1
        for i, token in zip(inside, tokens, strict=True):
            place = place_of[token]
            left = np.inf if start == 0 else place - start
            right = np.inf if end == len(order) else end - 1 - place
            if token not in best or min(left, right) > best[token][0]:
                best[token] = (min(left, right), probabilities[window, i])
    rows = []
    for word in range(num_words):
        pieces = [best[token][1] for token in order if token[0] == word]
        rows.append(pieces[0] if strategy == "first" else np.mean(pieces, axis=0))
    return np.array(rows)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=40), kinds, st.integers(6, 30), st.integers(0, 2**31), st.data())
def test_merging_equals_its_definition(texts, kind, max_length, seed, data):
    processor = shared_processor(kind)
    document = make_document(texts)
    stride = data.draw(st.integers(0, max_length - 4))
    batch = processor(documents=document, max_length=max_length, stride=stride, return_tensors="np", **WINDOWS)
    logits = np.random.default_rng(seed).normal(size=(*batch["input_ids"].shape, 5)).astype(np.float32)
    for strategy in ("first", "mean"):
        (result,) = processor.post_process_token_classification(logits, batch, document, names(BIO), strategy)
        expected = plain_merge(batch, logits, len(texts), strategy)
        assert result.label_ids == expected.argmax(axis=1).tolist()
        np.testing.assert_allclose(result.scores, expected.max(axis=1), rtol=1e-9)


def windows_of_a_document():
    processor = make_processor("bpe", id2label=BIO)
    document = make_document(["Invoice", "number", "2024-0117", "quickly", "total"] * 6, pages=2)
    batch = processor(documents=document, max_length=24, stride=6, return_tensors="pt", **WINDOWS)
    logits = torch.randn(*batch["input_ids"].shape, 5, generator=torch.Generator().manual_seed(0))
    return processor, document, batch, logits


def test_all_forms_of_outputs_give_the_same():
    processor, document, batch, logits = windows_of_a_document()
    assert len(logits) > 3
    expected = processor.post_process_token_classification(logits, batch, document)
    loss = torch.tensor(1.0)
    for outputs in (
        logits.numpy(),
        logits.double().requires_grad_(),
        logits.tolist(),
        SimpleNamespace(logits=logits),
        {"logits": logits, "loss": loss},
        SimpleNamespace(predictions=logits.numpy(), label_ids=None),
        (loss, logits),
        [logits[:2], SimpleNamespace(logits=logits[2:])],
        [logits[:1].tolist(), logits[1:].numpy()],
        [window[mask.bool()] for window, mask in zip(logits, batch["attention_mask"], strict=True)],
    ):
        assert processor.post_process_token_classification(outputs, batch, document) == expected
    half = processor.post_process_token_classification(logits.bfloat16(), batch, [document])
    assert len(half[0].labels) == 30


def test_padding_of_outputs_and_batch_may_differ():
    processor, document, batch, logits = windows_of_a_document()
    expected = processor.post_process_token_classification(logits, batch, document)
    unpadded = processor(
        documents=document,
        max_length=24,
        stride=6,
        truncation=True,
        return_overflowing_tokens=True,
        return_word_ids=True,
    )
    assert len({len(row) for row in unpadded["input_ids"]}) > 1
    wider = torch.nn.functional.pad(logits, (0, 0, 0, 7), value=-100.0)
    for outputs in (logits, wider):
        assert processor.post_process_token_classification(outputs, unpadded, document) == expected
    processor.tokenizer.padding_side = "left"
    left = processor(
        documents=document, max_length=24, stride=6, return_tensors="pt", pad_to_multiple_of=32, **WINDOWS
    )
    shifted = torch.zeros(*left["input_ids"].shape, 5)
    shifted[left["attention_mask"].bool()] = logits[batch["attention_mask"].bool()]
    assert processor.post_process_token_classification(shifted, left, document) == expected
    assert processor.post_process_token_classification(shifted, unpadded, document) == expected


def test_a_flat_document_merges():
    processor = make_processor(id2label=BIO)
    document = make_document(["Invoice", "number"])
    batch = processor(documents=document, return_word_ids=True)
    logits = np.zeros((len(batch["input_ids"]), 5))
    logits[1, 1] = logits[2, 2] = 5
    (result,) = processor.post_process_token_classification(logits, batch, document)
    assert [(entity.label, entity.text) for entity in result.entities] == [("NAME", "Invoice number")]
    assert result.labels == ["B-NAME", "I-NAME"]


def test_documents_without_pages_stand_on_page_0():
    processor = make_processor(id2label=["O", "X"])
    batch = processor(["a", "b"], boxes=[[0, 0, 1, 1]] * 2, return_word_ids=True, return_tensors="np")
    logits = one_hot_logits(batch, [[0, 1]], 2)
    document = {"words": ["a", "b"], "boxes": [[0, 0, 1, 1]] * 2}
    (result,) = processor.post_process_token_classification(logits, batch, document)
    assert [(entity.page, entity.boxes, entity.text) for entity in result.entities] == [(0, [[0, 0, 1, 1]], "b")]


def test_a_word_that_truncation_cut_is_named():
    processor = make_processor(id2label=BIO)
    document = make_document(["total"] * 30)
    batch = processor(documents=document, truncation=True, max_length=12, return_word_ids=True, return_tensors="np")
    logits = np.zeros((*batch["input_ids"].shape, 5))
    sentence = r"Word 10 \('total'\) and 19 more of the document have no prediction.*return_overflowing_tokens=True"
    with pytest.raises(InputError, match=sentence):
        processor.post_process_token_classification(logits, batch, document)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda given: given.update(outputs=given["outputs"][:2]), "outputs hold 2 windows but the batch"),
        (lambda given: given.update(outputs=given["outputs"][:, :5]), "have 5 places, too few"),
        (lambda given: given.update(outputs=given["outputs"][..., :3]), "3 classes, but id2label names 5"),
        (lambda given: given.update(outputs=given["outputs"][0, 0]), r"have the shape \[5\]"),
        (lambda given: given.update(outputs={"start_logits": 1}), r"have no logits, only \['start_logits'\]"),
        (lambda given: given["outputs"].fill_(float("nan")), "word 0 of document 0 is not finite"),
        (lambda given: given["batch"].pop("token_word_ids"), "no token_word_ids; .* return_word_ids=True"),
        (lambda given: given["batch"].pop("token_subword_ids"), "no token_subword_ids"),
        (lambda given: given["batch"].pop("overflow_to_sample_mapping"), "no overflow_to_sample_mapping"),
        (lambda given: given["batch"].update(overflow_to_sample_mapping=[0]), "windows but 1 entries"),
        (lambda given: given["batch"]["overflow_to_sample_mapping"].fill_(2), "of document 2, but 1 documents"),
        (lambda given: given.update(documents=make_document(["a"] * 3)), "a word 29 in the document, which has 3"),
        (lambda given: given.update(documents=[]), "documents is empty"),
        (lambda given: given.update(aggregation_strategy="max"), "'max'; choose 'first' or 'mean'"),
    ],
)
def test_what_does_not_fit_is_refused(change, sentence):
    processor, document, batch, logits = windows_of_a_document()
    given_ = {"outputs": logits, "batch": batch, "documents": document}
    change(given_)
    with pytest.raises(InputError, match=sentence):
        processor.post_process_token_classification(**given_)


def test_labels_need_names():
    processor, document, batch, logits = windows_of_a_document()
    processor.id2label = None
    with pytest.raises(InputError, match="id2label=model.config.id2label"):
        processor.post_process_token_classification(logits, batch, document)
    named = processor.post_process_token_classification(
        logits, batch, document, {str(i): x for i, x in enumerate(BIO)}
    )
    assert len(named[0].labels) == 30
