"""What a model's processor may override, tried with the needs of other models."""

import pickle
from typing import ClassVar

import numpy as np
import pytest
from tests.tokenization.examples import make_document, make_processor, one_hot_logits
from tests.tokenizers import KINDS, tiny_tokenizer

from broadsheet.tokenization.collation import LayoutDataCollator, TensorSpec
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_layout import LayoutProcessor
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor


class PageHeightProcessor(LayoutProcessor):
    """Float boxes divided by the page's height; boxes without pages are such already."""

    tensors: ClassVar[dict[str, TensorSpec]] = {"bbox": TensorSpec(("length", 4), "float32", 0)}
    largest_coordinate: int = 10
    integer_boxes: ClassVar[bool] = False

    def layout_tensors(self, window):
        if window.page_sizes is None:
            return {"bbox": window.boxes}
        heights = window.page_sizes[np.maximum(window.page_ids, 0), 1]
        return {"bbox": window.boxes / heights[:, None]}


def test_float_boxes_keep_their_precision_through_lists_and_collation():
    processor = PageHeightProcessor(tiny_tokenizer())
    document = make_document(["Invoice", "number"])
    flat = processor(documents=document)
    assert flat["bbox"][1] == [20 / 800, 20 / 800, 70 / 800, 32 / 800]
    batch = LayoutDataCollator(processor)([flat, processor(documents=make_document(["total"]))])
    assert str(batch["bbox"].dtype) == "torch.float32"
    assert batch["bbox"][0, 1].numpy() == pytest.approx([0.025, 0.025, 0.0875, 0.04])
    assert processor(["a"], boxes=[[0, 0, 0.7, 1]])["bbox"][1] == [0, 0, 0.7, 1]
    with pytest.raises(InputError, match=r"word 0 \('a'\) .* range 0..10; pass page_sizes"):
        processor(["a"], boxes=[[0, 0, 70, 100]])


class StackedPagesProcessor(LayoutProcessor):
    """Pages under each other, over the pages of the window at hand, and the nearest token of each."""

    tensors: ClassVar[dict[str, TensorSpec]] = {
        "bbox": TensorSpec(("length", 4)),
        "neighbors": TensorSpec(("length", 1), "int32", -1, holds_positions=True),
    }
    largest_coordinate: int = 1023

    def layout_tensors(self, window):
        pages = np.unique(window.page_ids[window.page_ids >= 0])
        assert window.page_sizes is not None
        heights = window.page_sizes[pages, 1]
        offsets = np.zeros(len(window.page_sizes))
        offsets[pages] = np.cumsum(heights) - heights
        stacked = window.boxes.copy()
        stacked[:, [1, 3]] += offsets[np.maximum(window.page_ids, 0), None] * (window.page_ids >= 0)[:, None]
        words = np.flatnonzero(window.word_ids >= 0)
        centres = (stacked[words, :2] + stacked[words, 2:]) / 2
        distance = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
        np.fill_diagonal(distance, np.inf)
        neighbors = np.full((len(stacked), 1), -1)
        neighbors[words, 0] = words[distance.argmin(axis=1)]
        return {"bbox": np.floor(stacked / heights.sum() * 1023).astype(np.int64), "neighbors": neighbors}

    def window_spans(self, document, word_ids, capacity, stride):
        """Cut in half until it fits, between words."""

        def halve(start, end):
            if end - start <= capacity:
                return [(start, end)]
            edges = start + 1 + np.flatnonzero(np.diff(word_ids[start:end]))
            middle = int(edges[np.abs(edges - (start + end) / 2).argmin()])
            return halve(start, middle) + halve(middle, end)

        return halve(0, len(word_ids))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_windows_cut_between_words_over_their_own_pages(kind, side):
    processor = StackedPagesProcessor(tiny_tokenizer(kind, padding_side=side), id2label={0: "O", 1: "B-X", 2: "I-X"})
    document = make_document(["Invoice", "2024-0117", "quickly"] * 20, pages=4)
    batch = processor(
        documents=document,
        truncation=True,
        max_length=30,
        return_overflowing_tokens=True,
        padding=True,
        return_word_ids=True,
        return_tensors="np",
    )
    assert len(batch["input_ids"]) >= 4
    for window in range(len(batch["input_ids"])):
        real = np.flatnonzero(batch["token_word_ids"][window] >= 0)
        # No window begins within a word.
        assert batch["token_subword_ids"][window, real[0]] == 0
        neighbors = batch["neighbors"][window]
        assert (neighbors[real] >= real[0]).all()
        assert (neighbors[real] <= real[-1]).all()
        assert (np.delete(neighbors, real, axis=0) == -1).all()
        # The stack spans the pages of this window alone.
        pages = np.unique(batch["token_page_ids"][window][real])
        first = batch["bbox"][window, real][batch["token_page_ids"][window][real] == pages[0]]
        assert first[:, 3].max() <= 1023 / len(pages)
    labels = [index % 3 for index in range(60)]
    (result,) = processor.post_process_token_classification(one_hot_logits(batch, [labels], 3), batch, document)
    assert result.label_ids == labels


class BareProcessor(SkimformerProcessor):
    """No special tokens, and text without boxes."""

    add_special_tokens: ClassVar[bool] = False
    boxes_required: ClassVar[bool] = False


@pytest.mark.parametrize("kind", KINDS)
def test_windows_without_special_tokens(kind):
    bare, whole = BareProcessor(tiny_tokenizer(kind)), make_processor(kind, special_tokens=False)
    document = make_document(["Invoice", "number"] * 10)
    options = {"documents": [document], "truncation": True, "max_length": 8, "stride": 1}
    options |= {"return_overflowing_tokens": True, "return_word_ids": True}
    assert bare(**options).data == whole(**options).data
    assert bare("Which?", documents=document)["input_ids"] == whole("Which?", documents=document)["input_ids"]


def test_text_without_boxes_has_zero_boxes_where_none_are_required():
    batch = BareProcessor(tiny_tokenizer())(["Invoice", "number"])
    assert set(map(tuple, batch["bbox"])) == {(0, 0, 0, 0)}
    with pytest.raises(InputError, match="has no words"):
        BareProcessor(tiny_tokenizer())([])


def test_a_processor_can_be_pickled():
    processor = make_processor("bpe", subword_boxes="split")
    document = make_document(["Invoice", "number"])
    assert pickle.loads(pickle.dumps(processor))(documents=document).data == processor(documents=document).data
