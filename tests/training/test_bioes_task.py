"""Fine-tuning in BIOES on a dataset that has IOB2 labels."""

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from tests.tokenizers import tiny_tokenizer

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_formnet import FormNetProcessor
from broadsheet.training.task_choice import make_task
from broadsheet.training.tasks import BioesClassification

IOB2 = ["O", "B-A", "I-A"]
BIOES = ["O", "B-A", "I-A", "E-A", "S-A"]
OPTIONS = {"box_level": "word", "max_length": 64, "stride": 0, "clip_boxes": False, "num_proc": 1}


def documents(names=IOB2, labels=((1, 2, 2, 1, 0), (0, 1))):
    features = Features(
        {
            "id": Value("string"),
            "words": List(Value("string")),
            "boxes": List(List(Value("float32"), length=4)),
            "page_ids": List(Value("int32")),
            "page_sizes": List(List(Value("float32"), length=2)),
            "labels": List(ClassLabel(names=names)),
        }
    )
    rows = {
        "id": ["x", "y"],
        "words": [["Invoice", "number", "and", "total", "due"], ["a", "date"]],
        "boxes": [[[1, 1, 2, 2]] * 5, [[1, 1, 2, 2]] * 2],
        "page_ids": [[0] * 5, [0] * 2],
        "page_sizes": [[[10, 10]]] * 2,
        "labels": [list(row) for row in labels],
    }
    return Dataset.from_dict(rows, features=features)


def test_labels_are_translated_and_predictions_decoded():
    rows, id2label = documents(), dict(enumerate(BIOES))
    task = make_task("token_classification", "IOBES")
    assert isinstance(task, BioesClassification)
    assert task.labels(rows) == BIOES
    processor = FormNetProcessor(tiny_tokenizer(), id2label=id2label)
    windows = task.encode(rows, processor, id2label, OPTIONS)
    first = [np.array(window["labels"])[np.array(window["token_subword_ids"]) == 0].tolist() for window in windows]
    assert first == [[1, 2, 3, 4, 0], [0, 4]]
    length = max(len(window["labels"]) for window in windows)
    logits = np.zeros((2, length, 5))
    for row, window in enumerate(windows):
        for place, label in enumerate(window["labels"]):
            logits[row, place, max(label, 0)] = 5
    # "and" is a little more like the middle of an entity than its end: no legal sequence, until it is decoded.
    place = int(np.flatnonzero(np.array(windows[0]["token_word_ids"]) == 2)[0])
    logits[0, place, 2] = 5.5
    metrics = task.measure(logits, windows, rows, processor, id2label, 0, seed=0)
    assert metrics["f1"] == 1
    assert metrics["support"] == 3


def test_datasets_in_bioes_stay_as_they_are():
    bioes = documents(BIOES, [[1, 2, 3, 4, 0], [0, 4]])
    assert BioesClassification().in_scheme(bioes) is bioes


@pytest.mark.parametrize(
    "names",
    [
        ["B-A", "E-A", "I-A", "O", "S-A"],
        ["B-A", "L-A", "I-A", "O", "U-A"],
        ["B-A", "E-A", "B-B", "O", "S-A"],
    ],
    ids=["sorted", "bilou", "no inside"],
)
def test_entities_side_by_side_stay_apart_however_the_labels_are_called(names):
    task, rows = BioesClassification(), documents(names, [[4, 4, 3, 0, 1], [3, 4]])
    translated = [[task.labels(rows)[label] for label in row] for row in task.in_scheme(rows)["labels"]]
    assert translated == [["S-A", "S-A", "O", "B-A", "E-A"], ["O", "S-A"]]


def test_plain_labels_are_refused():
    with pytest.raises(InputError, match="labels abstract, title have no B- or I-"):
        BioesClassification().labels(documents(["O", "abstract", "title"]))
