"""Question answering: answers to positions and back."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokenization.examples import kinds, make_document, make_processor, shared_processor, words

from broadsheet.tokenization.input_checks import InputError

WINDOWS = {"truncation": True, "return_overflowing_tokens": True, "return_word_ids": True, "padding": True}


def logits_of(batch, positions) -> SimpleNamespace:
    """Start and end logits that point at the positions, unless these are the window's first token."""
    start, end = np.zeros(batch["input_ids"].shape), np.zeros(batch["input_ids"].shape)
    first = np.asarray(batch["attention_mask"]).argmax(axis=1)
    for window in range(len(start)):
        for scores, key in ((start, "start_positions"), (end, "end_positions")):
            place = positions[key][window]
            scores[window, place] = 5 if place == first[window] else 10
    return SimpleNamespace(start_logits=torch.tensor(start), end_logits=torch.tensor(end))


@settings(max_examples=80, deadline=None)
@given(st.lists(words, min_size=1, max_size=30), kinds, st.sampled_from(["left", "right"]), st.data())
def test_an_answer_survives_windows_and_comes_back(texts, kind, side, data):
    processor = shared_processor(kind, padding_side=side)
    document = make_document(texts, pages=data.draw(st.integers(1, 2)))
    first = data.draw(st.integers(0, len(texts) - 1))
    last = data.draw(st.integers(first, min(len(texts) - 1, first + 3)))
    length = data.draw(st.integers(30, 60))
    batch = processor("What is it?", documents=document, max_length=length, stride=8, return_tensors="np", **WINDOWS)
    positions = processor.align_answers(batch, [(first, last)])
    clear = batch["attention_mask"].argmax(axis=1)
    whole = processor("What is it?", documents=document, return_word_ids=True)
    pieces = [s for w, s in zip(whole["token_word_ids"], whole["token_subword_ids"], strict=True) if w == last]
    holds = 0
    for window, (start, end) in enumerate(zip(positions["start_positions"], positions["end_positions"], strict=True)):
        if start == clear[window]:
            assert end == start
            continue
        holds += 1
        assert (batch["token_word_ids"][window, start], batch["token_subword_ids"][window, start]) == (first, 0)
        assert (batch["token_word_ids"][window, end], batch["token_subword_ids"][window, end]) == (last, max(pieces))
    outputs = logits_of(batch, positions)
    (answers,) = processor.post_process_question_answering(outputs, batch, document, allow_no_answer=True)
    if holds:
        assert answers[0].word_ids == list(range(first, last + 1))
        assert answers[0].words == texts[first : last + 1]
        assert answers[0].boxes == document["boxes"][first : last + 1]
        assert answers[0].page == document["page_ids"][first]
        assert answers[0].text == " ".join(answers[0].words)
        assert 0.3 < answers[0].score <= 1
    else:
        assert answers == []


def asked():
    processor = make_processor()
    documents = [make_document(["total", "amount", "due"]), make_document(["Invoice", "number"] * 10)]
    batch = processor(
        ["total?", "number?"], documents=documents, max_length=16, stride=2, return_tensors="np", **WINDOWS
    )
    return processor, documents, batch


def test_no_answer_points_at_the_first_token():
    processor, _, batch = asked()
    positions = processor.align_answers(batch, [None, (3, 3)])
    assert positions["start_positions"][0] == positions["end_positions"][0] == 0
    assert positions["start_positions"][1] > 0
    assert positions["start_positions"].dtype == np.int64
    assert len(positions["start_positions"]) == len(batch["input_ids"])


def test_positions_come_in_the_form_of_the_batch():
    processor, documents, arrays = asked()
    expected = {key: value.tolist() for key, value in processor.align_answers(arrays, [(1, 2), (3, 3)]).items()}
    options = {"documents": documents, "max_length": 16, "stride": 2, **WINDOWS}
    tensors = processor(["total?", "number?"], return_tensors="pt", **options)
    tensors.update(processor.align_answers(tensors, [(1, 2), (3, 3)]))
    assert tensors["start_positions"].dtype == tensors["end_positions"].dtype == torch.int64
    lists = processor(["total?", "number?"], **options)
    lists.update(processor.align_answers(lists, [(1, 2), (3, 3)]))
    for key, value in expected.items():
        assert tensors[key].tolist() == lists[key] == value
    flat = processor("total?", documents=documents[0], return_word_ids=True)
    assert processor.align_answers(flat, (1, 2)) == {key: value[0] for key, value in expected.items()}


def test_the_best_of_all_windows_are_ranked_and_count_once():
    processor, documents, batch = asked()
    start = np.zeros(batch["input_ids"].shape)
    end = np.zeros(batch["input_ids"].shape)
    for window, sample in enumerate(batch["overflow_to_sample_mapping"]):
        for word, score in ((1, 4.0), (9, 6.0)):
            place = np.flatnonzero(batch["token_word_ids"][window] == word)
            if sample == 1 and len(place):
                start[window, place[0]] = end[window, place[-1]] = score
    first, second = processor.post_process_question_answering((start, end), batch, documents, n_best=3)
    assert len(first) == 3
    assert [answer.word_ids for answer in second[:1]] == [[9]]
    assert second[0].score > second[1].score >= second[2].score
    assert len({tuple(answer.word_ids) for answer in second}) == 3
    alone = processor.post_process_question_answering({"start_logits": start, "end_logits": end}, batch, documents)
    assert [answers[0].word_ids for answers in alone] == [first[0].word_ids, [9]]
    shape = SimpleNamespace(predictions=(start, end))
    assert processor.post_process_question_answering(shape, batch, documents) == alone
    several = [
        SimpleNamespace(start_logits=start[:1], end_logits=end[:1]),
        {"start_logits": start[1:], "end_logits": end[1:]},
    ]
    assert processor.post_process_question_answering(several, batch, documents) == alone
    assert processor.post_process_question_answering((np.array(1.0), start, end), batch, documents) == alone
    short = processor.post_process_question_answering((start, end), batch, documents, n_best=50, max_answer_words=2)
    assert {len(answer.words) for answers in short for answer in answers} == {1, 2}


def test_no_answer_wins_by_more_than_the_threshold():
    processor, documents, batch = asked()
    start = np.zeros(batch["input_ids"].shape)
    start[:, 0] = 3
    for threshold, found in ((2.5, [0, 0]), (3.5, [1, 1])):
        answers = processor.post_process_question_answering(
            (start, start * 0), batch, documents, allow_no_answer=True, no_answer_threshold=threshold
        )
        assert [len(best) for best in answers] == found
    start[-1, 0] = 0
    # One window of the second document has an answer: then the document has one.
    answers = processor.post_process_question_answering((start, start * 0), batch, documents, allow_no_answer=True)
    assert [len(best) for best in answers] == [0, 1]
    assert all(processor.post_process_question_answering((start, start * 0), batch, documents))


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (None, "2 documents but no answers"),
        ([(0, 1)], "2 documents but 1 answers"),
        ([None, (2, 1)], r"answer of document 1 is \(2, 1\)"),
        ([(-1, 1), None], r"answer of document 0 is \(-1, 1\)"),
    ],
)
def test_answers_that_do_not_fit_are_refused(answers, sentence):
    processor, _, batch = asked()
    with pytest.raises(InputError, match=sentence):
        processor.align_answers(batch, answers)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_best": 0}, "both count from 1"),
        ({"max_answer_words": 0}, "both count from 1"),
        ({"documents": [make_document(["a"] * 20)] * 3}, "Document 2 has no window"),
        ({"documents": [make_document(["a", "b", "c"]), make_document(["a"])]}, "words that document 1 lacks"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(options, sentence):
    processor, documents, batch = asked()
    zeros = np.zeros(batch["input_ids"].shape)
    with pytest.raises(InputError, match=sentence):
        processor.post_process_question_answering((zeros, zeros), batch, **{"documents": documents, **options})
