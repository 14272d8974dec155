"""The collator and the tensors that processors declare."""

import pickle
from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.tokenization.examples import make_document, make_processor
from tests.tokenizers import tiny_tokenizer
from torch.utils.data import DataLoader

from broadsheet.tokenization.collation import LayoutDataCollator, TensorSpec, pad_features
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.layout_batch import LayoutBatch
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

WINDOWS = {"truncation": True, "max_length": 12, "stride": 2, "return_overflowing_tokens": True}
WINDOWS |= {"return_word_ids": True}
DOCUMENTS = [make_document(["Invoice", "number", "2024-0117"] * 3), make_document(["total", "due"])]
LABELS = [[0, 1, 2] * 3, [1, 2]]


def features_of(batch):
    return [{key: batch[key][index] for key in batch} for index in range(len(batch["input_ids"]))]


@pytest.mark.parametrize("side", ["left", "right"])
def test_collating_equals_padding_in_the_processor(side):
    processor = make_processor(padding_side=side)
    expected = processor(documents=DOCUMENTS, word_labels=LABELS, padding=True, return_tensors="pt", **WINDOWS)
    lists = features_of(processor(documents=DOCUMENTS, word_labels=LABELS, **WINDOWS))
    arrays = [{key: np.array(value) for key, value in feature.items()} for feature in lists]
    tensors = [{key: torch.tensor(value) for key, value in feature.items()} for feature in lists]
    for features in (lists, arrays, tensors):
        batch = LayoutDataCollator(processor)(features)
        assert isinstance(batch, LayoutBatch)
        assert list(batch) == list(expected)
        for key in expected:
            assert torch.equal(batch[key], expected[key]), key
            assert batch[key].dtype == torch.int64


def test_flat_documents_are_features():
    processor = make_processor()
    features = [
        processor(documents=document, word_labels=labels) for document, labels in zip(DOCUMENTS, LABELS, strict=True)
    ]
    batch = LayoutDataCollator(processor, pad_to_multiple_of=32)(features)
    assert batch["bbox"].shape == (2, 32, 4)
    assert batch["labels"].shape == (2, 32)
    assert (batch["labels"][1] >= 0).sum() == 2


def test_labels_of_documents_positions_and_further_numbers_are_stacked():
    processor = make_processor()
    features = [
        {**processor(documents=document), "labels": index, "start_positions": 3, "end_positions": 4, "weight": 0.5}
        for index, document in enumerate(DOCUMENTS)
    ]
    batch = LayoutDataCollator(processor)(features)
    assert batch["labels"].tolist() == [0, 1]
    assert batch["start_positions"].tolist() == [3, 3]
    assert batch["end_positions"].tolist() == [4, 4]
    assert batch["weight"].dtype == torch.float32
    for feature in features:
        feature["labels"] = 0.25
    assert LayoutDataCollator(processor)(features)["labels"].dtype == torch.float32


def test_targets_of_a_decoder_have_a_length_of_their_own():
    processor = make_processor()
    features = [
        {**processor(documents=document), "labels": [7] * (3 + index)} for index, document in enumerate(DOCUMENTS)
    ]
    batch = LayoutDataCollator(processor, label_pad_token_id=-1)(features)
    assert batch["labels"].tolist() == [[7, 7, 7, -1], [7, 7, 7, 7]]


def test_positions_move_with_tokens_padded_on_the_left():
    processor = make_processor(padding_side="left")
    features = [{**processor(documents=document), "start_positions": 1, "end_positions": 2} for document in DOCUMENTS]
    batch = LayoutDataCollator(processor)(features)
    long, short = (len(feature["input_ids"]) for feature in features)
    assert batch["start_positions"].tolist() == [1, 1 + long - short]
    assert batch["input_ids"][1, batch["end_positions"][1]] == features[1]["input_ids"][2]
    specs = {"input_ids": TensorSpec(), "neighbors": TensorSpec(("length", 2), "int32", -1, holds_positions=True)}
    rows = [
        {"input_ids": [1, 1, 1], "neighbors": [[0, 1]] * 3},
        {"input_ids": [1, 1], "neighbors": [[1, -1], [0, -1]]},
    ]
    left = pad_features(rows, specs, padding_side="left")["neighbors"]
    assert left[1].tolist() == [[-1, -1], [2, -1], [1, -1]]
    right = pad_features(rows, specs)["neighbors"]
    assert right[1].tolist() == [[1, -1], [0, -1], [-1, -1]]


class GraphProcessor(SkimformerProcessor):
    """A float tensor, a fixed dimension, a square one, one of its own length, and one made from the batch."""

    tensors: ClassVar[dict[str, TensorSpec]] = {
        **SkimformerProcessor.tensors,
        "position": TensorSpec(("length", 2), "float32", -1),
        "distances": TensorSpec(("length", "length"), "float32", 9),
        "edges": TensorSpec(("edges", 2), "int32", -1),
    }

    def layout_tensors(self, window):
        length = len(window.input_ids)
        positions = window.boxes[:, :2] / window.page_sizes[np.maximum(window.page_ids, 0)]
        return {
            **super().layout_tensors(window),
            "position": positions,
            "distances": np.ones((length, length)),
            "edges": np.stack([np.arange(length - 1), np.arange(1, length)], axis=1),
        }

    def batch_tensors(self, batch):
        return {"num_tokens": batch["attention_mask"].sum(axis=1)}


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_models_own_tensors_are_padded_as_declared(side):
    processor = GraphProcessor(tiny_tokenizer(padding_side=side))
    made = processor(documents=DOCUMENTS, padding=True, return_tensors="pt")
    collated = LayoutDataCollator(processor)(features_of(processor(documents=DOCUMENTS)))
    assert processor.model_input_names[-3:] == ["position", "distances", "edges"]
    for batch in (made, collated):
        long, short = batch["num_tokens"].tolist()
        gap = long - short
        empty = slice(0, gap) if side == "left" else slice(short, long)
        assert batch["position"].dtype == torch.float32
        assert batch["position"].shape == (2, long, 2)
        assert (batch["position"][1, empty] == -1).all()
        assert batch["distances"].shape == (2, long, long)
        assert (batch["distances"][1, empty] == 9).all()
        assert (batch["distances"][1][:, empty] == 9).all()
        assert batch["distances"][1].eq(1).sum() == short**2
        assert batch["edges"].dtype == torch.int32
        assert batch["edges"].shape == (2, long - 1, 2)
        # A length of its own is padded at its end whatever the side of the tokens.
        assert (batch["edges"][1, short - 1 :] == -1).all()
    assert all(torch.equal(made[key], collated[key]) for key in made)


def test_a_batch_survives_data_loader_workers_and_pickling():
    processor = make_processor()
    features = features_of(processor(documents=DOCUMENTS, word_labels=LABELS, **WINDOWS))
    collator = LayoutDataCollator(processor)
    expected = collator(features)
    loader = DataLoader(features, batch_size=len(features), collate_fn=collator, num_workers=1)
    for batch in (next(iter(loader)), pickle.loads(pickle.dumps(expected))):
        assert isinstance(batch, LayoutBatch)
        assert all(torch.equal(batch[key], expected[key]) for key in expected)


GOOD = {"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1], "bbox": [[0, 0, 1, 1]] * 3}
SHORT = {"input_ids": [1, 2], "attention_mask": [1, 1], "bbox": [[0, 0, 1, 1]] * 2}


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ([], "no features to collate"),
        ([{"bbox": [[0, 0, 1, 1]]}], "Feature 0 has no input_ids"),
        ([GOOD, {**GOOD, "labels": [0, 0, 0]}], r"Feature 1 differs from feature 0 in the keys \['labels'\]"),
        ([GOOD, {**GOOD, "bbox": [[0, 0, 1, 1]] * 2}], "bbox of feature 1 has 2 entries for 3 input_ids"),
        ([GOOD, {**GOOD, "bbox": [[0, 0, 1]] * 3}], r"bbox of feature 1 has the shape \[3, 3\], but \['length', 4\]"),
        ([GOOD, {**GOOD, "bbox": [[0, 0, 1, 1], [0], [1]]}], "bbox of feature 1 is ragged"),
        ([{**GOOD, "words": ["a", "b", "c"]}], "words of feature 0 holds .* not numbers; remove the column words"),
        ([{**GOOD, "id": "a"}], "id of feature 0 holds 'a', not numbers; remove the column id"),
        (
            [{**GOOD, "extra": [1, 2]}, {**GOOD, "extra": [1]}],
            r"extra of feature 1 has the shape \[1\], that of feature 0",
        ),
    ],
)
def test_features_that_do_not_fit_are_refused(features, sentence):
    with pytest.raises(InputError, match=sentence):
        LayoutDataCollator(make_processor())(features)


def test_padding_needs_a_pad_token():
    processor = make_processor(pad_token=None)
    assert LayoutDataCollator(processor)([GOOD, GOOD])["input_ids"].shape == (2, 3)
    with pytest.raises(InputError, match="no pad token .* set tokenizer.pad_token"):
        LayoutDataCollator(processor)([GOOD, SHORT])


def test_empty_rows_keep_their_form():
    specs = {"input_ids": TensorSpec(), "edges": TensorSpec(("edges", 2), "int32", -1)}
    batch = pad_features([{"input_ids": [1], "edges": []}, {"input_ids": [1], "edges": [[0, 1]]}], specs)
    assert batch["edges"].tolist() == [[[-1, -1]], [[0, 1]]]
