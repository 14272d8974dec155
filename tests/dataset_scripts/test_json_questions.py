import json
import logging

import pytest

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.input_checks import InputError


def record(**changes):
    return {
        "words": ["Invoice", "17", "of", "March", "2,", "2020", "no.", "17"],
        "boxes": [[10 * i, 5, 10 * i + 8, 15] for i in range(8)],
        "page_sizes": [[100, 50]],
        "questions": [{"question": "Which number?", "answers": ["17"]}],
        **changes,
    }


@pytest.fixture
def load(tmp_path):
    def write_and_load(*records, **options):
        folder = tmp_path / "corpus"
        folder.mkdir()
        (folder / "train.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        return load_dataset(
            "json_questions", data_dir=folder, split="train", cache_dir=str(tmp_path / "cache"), **options
        )

    return write_and_load


def questions_of(row):
    return [(q["question"], q["answers"], q["spans"]) for q in row["questions"]]


def test_answers_are_found_in_the_words_or_taken_as_given(load):
    asked = [
        {"question": "Which number?", "answers": ["17"]},
        {"question": "When?", "answers": ["March 2, 2020", "2 March 2020"]},
        {"question": "Which number, again?", "answers": ["17"], "spans": [[7, 7]]},
        {"question": "Who pays?", "answers": []},
        {"question": "Who pays, really?"},
    ]
    (row,) = load(record(questions=asked, id="mine"))
    assert questions_of(row) == [
        ("Which number?", ["17"], [[1, 1], [7, 7]]),
        ("When?", ["March 2, 2020", "2 March 2020"], [[3, 5]]),
        ("Which number, again?", ["17"], [[7, 7]]),
        ("Who pays?", [], []),
        ("Who pays, really?", [], []),
    ]
    assert row["id"] == "mine"
    assert row["page_ids"] == [0] * 8


def test_answers_that_stand_nowhere_are_counted(load, caplog):
    asked = [{"question": "Who?", "answers": ["Jane"]}, {"question": "What?", "answers": ["invoice"]}]
    with caplog.at_level(logging.WARNING):
        (row,) = load(record(questions=asked))
    assert "Of 2 answers 1 stand nowhere in their document." in caplog.text
    assert [spans for _, _, spans in questions_of(row)] == [[], [[0, 0]]]


def test_similar_words_are_an_answer_where_asked_for(load):
    (row,) = load(record(questions=[{"question": "What?", "answers": ["Invoce"]}]), min_similarity=0.8)
    assert row["questions"][0]["spans"] == [[0, 0]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"questions": [{"question": " ", "answers": ["17"]}]}, "a question without text"),
        ({"questions": [{"question": "Who?", "answers": "17"}]}, "give a list of texts"),
        (
            {"questions": [{"question": "Who?", "answers": ["17"], "spans": [[1, 8]]}]},
            r"the span \[1, 8\] as an answer",
        ),
        ({"questions": [{"question": "Who?", "answers": ["17"], "spans": [1, 1]}]}, "the span 1 as an answer to 'Who"),
        ({"questions": [{"question": "Who?", "answers": ["17"], "spans": ["11"]}]}, "the span '11' as an answer"),
        ({"questions": [{"question": "Who?", "answers": ["17"], "spans": [[1.0, 1.0]]}]}, r"the span \[1.0, 1.0\] as"),
        ({"questions": [{"question": "Who?", "answers": ["17"], "spans": 1}]}, "has the spans 1 to 'Who"),
        ({"questions": ["Who?"]}, "has 'Who\\?' among its questions; write each as"),
        ({"questions": "Who?"}, "has the questions 'Who\\?'; write a list"),
        ({"questions": None}, "has the questions None; write a list"),
        ({"words": None}, "has no words"),
        ({"questions": [{"question": "Who?", "spans": [[1, 1]]}]}, "spans but no answers to 'Who\\?'"),
    ],
)
def test_a_bad_question_is_named(load, changes, sentence):
    with pytest.raises(InputError, match=f"Line 1 of .*{sentence}"):
        load(record(**changes))


def test_a_line_without_questions_is_named(load):
    lacking = record()
    del lacking["questions"]
    with pytest.raises(InputError, match="Line 2 of .* lacks questions; see the format of dataset 'json_questions'"):
        load(record(), lacking)


def test_boxes_are_clipped_where_asked_for(load):
    far = [[10 * i, 5, 10 * i + 8, 15] for i in range(7)] + [[70, 5, 108, 15]]
    (row,) = load(record(boxes=far, page_ids=None), clip_boxes=True)
    assert row["boxes"][7] == [70, 5, 100, 15]
    assert row["page_ids"] == [0] * 8
