import json
import random

import numpy as np
import pytest
from datasets import Dataset
from tests.tokenizers import tiny_tokenizer
from transformers import AutoModelForQuestionAnswering, LayoutLMForQuestionAnswering

from broadsheet.dataset_scripts import document_features
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
from broadsheet.training.evaluate import main as evaluate
from broadsheet.training.finetune import main
from broadsheet.training.question_answering import UNKNOWN, QuestionAnswering

# At an initializer_range of 0.02 attention this small begins even, and stays so for long.
SMALL = (
    "hidden_size=32,hidden_layout_size=16,num_hidden_layers=2,num_attention_heads=4,skim_attention_head_size=8,"
    "intermediate_size=32,initializer_range=0.2"
)
OPTIONS = {"max_length": 16, "stride": 2, "clip_boxes": False, "box_level": "word", "num_proc": None}


def document(name, words, questions):
    return {
        "id": name,
        "words": words,
        "boxes": [[10 * (i % 8), 10 * (i // 8), 10 * (i % 8) + 8, 10 * (i // 8) + 8] for i in range(len(words))],
        "page_ids": [0] * len(words),
        "page_sizes": [[100, 400]],
        "segment_ids": None,
        "source": None,
        "questions": questions,
    }


def ask(question, answers=(), spans=()):
    return {"question": question, "answers": list(answers), "spans": [list(span) for span in spans]}


@pytest.fixture
def documents():
    filler = ["and", "total"] * 20
    rows = [
        document("none", ["Invoice"], []),
        document(
            "long",
            ["number", "May", *filler, "date"],
            [ask("date?", ["May"], [(1, 1), (3, 3)]), ask("who?"), ask("total?", ["lost"])],
        ),
        document("short", ["a", "date", "Invoice"], [ask("Invoice?", ["date Invoice"], [(1, 2)])]),
    ]
    return Dataset.from_list(rows, features=document_features(questions=True))


@pytest.fixture
def processor():
    return SkimformerProcessor(tiny_tokenizer())


def test_every_question_has_windows_of_its_own(documents, processor):
    windows = QuestionAnswering().encode(documents, processor, {}, OPTIONS)
    assert set(windows["document"]) == {1, 2}
    assert set(windows["question"]) == {0, 1, 2, 3}
    assert [windows["document"][row] for row in range(len(windows))] == [
        2 if q == 3 else 1 for q in windows["question"]
    ]
    tokens = processor.tokenizer.convert_ids_to_tokens
    for row in windows:
        start, end = row["start_positions"], row["end_positions"]
        if row["question"] == 2:
            assert start == end == UNKNOWN
        elif start:
            words = {0: [1], 3: [1, 2]}[row["question"]]
            assert row["token_word_ids"][start] == words[0]
            assert row["token_word_ids"][end] == words[-1]
        else:
            assert end == 0
        assert tokens(row["input_ids"][:1]) == ["[CLS]"]
    held = {q for q, start in zip(windows["question"], windows["start_positions"], strict=True) if start > 0}
    assert held == {0, 3}
    left = QuestionAnswering().training_windows(windows)
    assert set(left["question"]) == {0, 1, 3}


def logits_at(windows, positions):
    """Scores that point at the positions; at the first token a little."""
    longest = max(map(len, windows["input_ids"]))
    logits = np.full((2, len(windows), longest), -5.0)
    logits[:, :, 0] = 1
    for part, column in zip(logits, positions, strict=True):
        for row, place in enumerate(column):
            part[row, place] = 3
    return tuple(logits)


def test_right_answers_score_one(documents, processor):
    task = QuestionAnswering()
    windows = task.encode(documents, processor, {}, OPTIONS)
    places = [np.maximum(windows[name], 0) for name in ("start_positions", "end_positions")]
    metrics = task.measure(logits_at(windows, places), windows, documents, processor, {}, 20, 0)
    # The answer that stands nowhere is the one that cannot be right.
    assert metrics["exact"] == metrics["anls"] == 3 / 4
    assert (metrics["questions"], metrics["documents"], metrics["located"]) == (4, 2, 3)
    assert set(metrics["interval"]) >= {"anls", "exact"}
    nothing = [np.zeros(len(windows), dtype=int)] * 2
    metrics = task.measure(logits_at(windows, nothing), windows, documents, processor, {}, 0, 0)
    assert metrics["exact"] == 1 / 4


def test_data_without_questions_is_named(documents, processor):
    task = QuestionAnswering()
    with pytest.raises(InputError, match="has no questions .* choose json_questions, or funsd"):
        task.labels(documents.remove_columns(["questions"]))
    with pytest.raises(InputError, match="No document of the dataset has a question"):
        task.encode(documents.select([0]), processor, {}, OPTIONS)
    lost = documents.select([1]).map(lambda row: {"questions": row["questions"][2:]})
    with pytest.raises(InputError, match="No answer stands in the words"):
        task.training_windows(task.encode(lost, processor, {}, OPTIONS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forms with a field in each line: a question is answered by the word at the right of its own."""
    root = tmp_path_factory.mktemp("questions")
    source = random.Random(0)
    for split, count in (("train", 60), ("test", 10)):
        with open(root / f"{split}.jsonl", "w", encoding="utf-8") as lines:
            for number in range(count):
                fields = ["name", "date", "total"]
                values = [str(source.randint(10, 99)) for _ in fields]
                words = [word for pair in zip(fields, values, strict=True) for word in pair]
                boxes = [[10 + 50 * (i % 2), 20 * (i // 2), 50 + 40 * (i % 2), 20 * (i // 2) + 10] for i in range(6)]
                asked = [
                    ask(field, [value], [(2 * n + 1, 2 * n + 1)])
                    for n, (field, value) in enumerate(zip(fields, values, strict=True))
                ]
                record = {"id": f"{split}{number}", "words": words, "boxes": boxes, "page_sizes": [[100, 100]]}
                lines.write(json.dumps({**record, "questions": asked}) + "\n")
    return root


def test_learns_to_answer(folder, arguments, cache, tmp_path, capsys):
    out = tmp_path / "out"
    data = {"dataset": "json_questions", "data_dir": folder, "task": "question_answering"}
    main(
        arguments(
            **data, max_steps=300, learning_rate=3e-3, per_device_train_batch_size=16, validation_fraction=0.1,
            eval_strategy="epoch", max_length=24, stride=2, config_overrides=SMALL,
        )
    )  # fmt: skip
    results = json.loads((out / "results.json").read_text())
    test = results["metrics"]["test"]
    assert test["exact"] > 0.9
    assert (test["questions"], test["documents"]) == (30, 10)
    assert results["labels"] == []
    card = (out / "README.md").read_text()
    assert "| split | ANLS | exact match | interval of ANLS | documents |" in card
    assert "Labels" not in card
    AutoModelForQuestionAnswering.from_pretrained(out)
    capsys.readouterr()
    flags = ["--model_name_or_path", str(out), "--dataset", "json_questions", "--data_dir", str(folder), "--use_cpu"]
    evaluate([*flags, "--task", "question_answering", "--cache_dir", cache, "--json", str(tmp_path / "test.json")])
    assert "30 questions about 10 documents" in capsys.readouterr().out
    assert json.loads((tmp_path / "test.json").read_text())["metrics"]["anls"] == test["anls"]


def test_other_models_answer_too_or_say_that_they_do_not(folder, arguments, tmp_path):
    data = {"dataset": "json_questions", "data_dir": folder, "task": "question_answering", "max_steps": 2}
    tiny = "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16"
    main(arguments(**data, model_type="layoutlm", config_overrides=tiny))
    LayoutLMForQuestionAnswering.from_pretrained(tmp_path / "out")
    with pytest.raises(SystemExit, match="A longformer has no head for question answering; choose one of skimformer"):
        main(arguments(**data, model_type="longformer", config_overrides=tiny, output_dir=tmp_path / "other"))
    with pytest.raises(SystemExit, match="class_weights weigh labels, and question_answering has none"):
        main(arguments(**data, class_weights="train", output_dir=tmp_path / "weighted"))
