import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from tests.tokenizers import tiny_tokenizer

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
from broadsheet.training.task_choice import make_task
from broadsheet.training.tasks import SequenceClassification, TokenClassification, check_scheme, metric_table

NAMES = ["O", "B-A", "I-A"]


@pytest.fixture
def documents():
    features = Features(
        {
            "id": Value("string"),
            "words": List(Value("string")),
            "boxes": List(List(Value("float32"), length=4)),
            "page_ids": List(Value("int32")),
            "page_sizes": List(List(Value("float32"), length=2)),
            "labels": List(ClassLabel(names=NAMES)),
        }
    )
    labels = [[1, 2, 0, 1], [0, 1]]
    rows = {
        "id": ["x", "y"],
        "words": [["Invoice", "number", "and", "total"], ["a", "date"]],
        "boxes": [[[1, 1, 2, 2]] * 4, [[1, 1, 2, 2]] * 2],
        "page_ids": [[0] * 4, [0] * 2],
        "page_sizes": [[[10, 10]]] * 2,
        "labels": labels,
    }
    return Dataset.from_dict(rows, features=features)


def test_words_are_scored_once_however_many_windows_show_them(documents):
    id2label = dict(enumerate(NAMES))
    processor = SkimformerProcessor(tiny_tokenizer(), id2label=id2label)
    task = TokenClassification()
    for max_length, stride in ((64, 0), (6, 0), (6, 3)):
        options = {"box_level": "word", "max_length": max_length, "stride": stride, "clip_boxes": False, "num_proc": 1}
        windows = task.encode(documents, processor, id2label, options)
        # Right on the first sub-word of each word, wrong everywhere else.
        logits = np.zeros((len(windows), 70, 3))
        for row, window in enumerate(windows):
            for position, label in enumerate(window["labels"]):
                logits[row, position, label if label >= 0 else 2] = 5
        metrics = task.measure(logits, windows, documents, processor, id2label, 0, 0)
        assert metrics["f1"] == 1
        assert metrics["support"] == 3
        wrong = np.roll(logits, 1, axis=-1)
        assert task.measure(wrong, windows, documents, processor, id2label, 0, 0)["f1"] == 0
    assert "all (micro)" in metric_table(metrics)


def test_words_of_plain_classes_are_scored_by_word_and_by_area(documents):
    names = ["figure", "paragraph", "title"]
    features = documents.features.copy()
    features["labels"] = List(ClassLabel(names=names))
    boxes = [[[0, 0, 2, 2], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]], [[0, 0, 1, 1]] * 2]
    labels = [[1, 1, 2, 1], [0, 2]]
    rows = {**documents.to_dict(), "labels": labels, "boxes": boxes}
    documents = Dataset.from_dict(rows, features=features)
    id2label = dict(enumerate(names))
    processor = SkimformerProcessor(tiny_tokenizer(), id2label=id2label)
    task = make_task("token_classification", "plain")
    options = {"box_level": "word", "max_length": 64, "stride": 0, "clip_boxes": False, "num_proc": 1}
    windows = task.encode(documents, processor, id2label, options)
    logits = np.zeros((2, 70, 3))
    for row, window in enumerate(windows):
        for position, label in enumerate(window["labels"]):
            logits[row, position, max(label, 0)] = 5
    # The first word, of area four among paragraphs of areas four, one, one, is taken for a title.
    logits[0, next(p for p, label in enumerate(windows[0]["labels"]) if label >= 0)] = [0, 0, 9]
    metrics = task.measure(logits, windows, documents, processor, id2label, 0, 0)
    assert metrics["averaged"] == ["paragraph", "title"]
    assert metrics["types"]["paragraph"]["recall"] == pytest.approx(2 / 3)
    assert metrics["area"]["types"]["paragraph"]["recall"] == pytest.approx(2 / 6)
    assert metrics["recall"] == pytest.approx((2 / 3 + 1) / 2)
    assert metrics["accuracy"] == pytest.approx(5 / 6)
    assert "all (macro, by area)" in metric_table(metrics)


def test_labels_that_the_model_does_not_know(documents):
    task = TokenClassification()
    assert task.check_labels(documents, dict(enumerate(reversed(NAMES)))) == NAMES
    with pytest.raises(InputError, match="has the labels B-A, I-A, which are none of the model's \\(O, B-Q\\)"):
        task.check_labels(documents, {0: "O", 1: "B-Q"})
    with pytest.raises(InputError, match="no word labels"):
        task.labels(documents.remove_columns("labels"))
    with pytest.raises(InputError, match="no document classes"):
        SequenceClassification().labels(documents)
    assert isinstance(make_task("sequence_classification", "IOB2"), SequenceClassification)


@pytest.mark.parametrize(
    ("names", "scheme", "fitting"),
    [
        (["O", "B-A", "E-A", "S-A"], "IOB2", "IOBES"),
        (["O", "B-A", "L-A", "U-A"], "IOB2", "BILOU"),
        (["O", "title"], "IOB2", "plain"),
        (["Item", "Body"], "IOB2", "plain"),
        (["O", "B-A", "I-A"], "IOE2", "IOB2"),
    ],
)
def test_labels_of_another_scheme(names, scheme, fitting):
    with pytest.raises(
        InputError, match=f"does not follow the tagging scheme {scheme}; set --scheme .*, {fitting} by"
    ):
        check_scheme(names, scheme)
    check_scheme(names, fitting)


def test_schemes_of_tasks():
    assert make_task("token_classification", "IOBES").scheme == "IOBES"
