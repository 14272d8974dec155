"""LongLayoutLM's processor: stacked pages, neighbours, tables of a padded batch."""

import logging
from typing import Any

import numpy as np
import pytest
from tests.tokenizers import tiny_tokenizer

from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_long_layoutlm import LongLayoutLMProcessor

SIZES = [(600.0, 800.0), (300.0, 400.0)]


def processor(**settings: Any) -> LongLayoutLMProcessor:
    return LongLayoutLMProcessor(tiny_tokenizer("bpe"), **settings)


def two_pages() -> dict[str, Any]:
    """One word at the foot of a page, one at the head of the next, which is half as large, one far down."""
    boxes = [[0, 780, 60, 800], [0, 0, 30, 10], [150, 390, 180, 400]]
    return {"words": ["due", "due", "due"], "boxes": boxes, "page_ids": [0, 1, 1], "page_sizes": SIZES}


def test_pages_under_each_other() -> None:
    batch = processor()(documents=two_pages(), return_word_ids=True, return_tensors="np")
    words = batch["token_word_ids"][0] >= 0
    boxes = {int(word): batch["bbox"][0][token].tolist() for token, word in enumerate(batch["token_word_ids"][0])}
    # The stack is 600 wide and 1,600 high; the second page is scaled to the first one's width.
    assert boxes[0] == [0, 1023 * 780 // 1600, 1023 * 60 // 600, 1023 * 800 // 1600]
    assert boxes[1] == [0, 1023 * 800 // 1600, 1023 * 60 // 600, 1023 * 820 // 1600]
    assert boxes[2] == [1023 * 300 // 600, 1023 * 1580 // 1600, 1023 * 360 // 600, 1023]
    assert (batch["bbox"][0][~words] == 0).all()
    assert set(batch) >= {"input_ids", "attention_mask", "bbox"}
    assert "neighbors" not in batch


def test_each_page_by_itself() -> None:
    batch = processor(page_stacking="page")(documents=two_pages(), return_word_ids=True, return_tensors="np")
    first = batch["bbox"][0][(batch["token_word_ids"][0] == 1)][0]
    assert first.tolist() == [0, 0, 1023 * 30 // 300, 1023 * 10 // 400]


@pytest.mark.parametrize("stacking", ["stack", "page"])
def test_neighbours_across_the_page_break(stacking: str) -> None:
    """The words at the foot and the head are nearest to each other, whatever the 2-D tables see."""
    ours = processor(attention_pattern="distance", num_neighbors=2, page_stacking=stacking)
    document = two_pages()
    batch = ours(documents=document, return_word_ids=True, return_tensors="np")
    words = batch["token_word_ids"][0]
    pieces = int((words == 0).sum())
    near = batch["neighbors"][0]
    assert near.dtype == np.int32
    assert (near[words < 0] == -1).all()
    assert (batch["spatial_order"][0][words < 0] == -1).all()
    if pieces == 1:
        assert [words[token] for token in near[list(words).index(0)]] == [0, 1]
    assert not np.isin(near[near >= 0], np.flatnonzero(words < 0)).any()


def test_neighbours_are_those_of_the_window() -> None:
    """Each window has a stack and neighbours of its own."""
    ours = processor(attention_pattern="union", num_neighbors=6, attention_window=4)
    words = ["payable"] * 30
    boxes = [[20 * (i % 5), 12 * (i // 5), 20 * (i % 5) + 15, 12 * (i // 5) + 9] for i in range(30)]
    batch = ours(
        text=words,
        boxes=boxes,
        page_sizes=[(100, 100)],
        truncation=True,
        max_length=24,
        padding=True,
        return_overflowing_tokens=True,
        return_tensors="np",
    )
    lengths = batch["attention_mask"].sum(1)
    assert len(lengths) > 2
    for row, length in enumerate(lengths):
        assert batch["neighbors"][row].max() < length
        assert batch["block_keys"][row].max() < length
        assert (batch["neighbors"][row, length:] == -1).all()


def test_collator_and_processor_make_the_same_tables() -> None:
    ours = processor(attention_pattern="distance", num_neighbors=3)
    documents = [two_pages(), {**two_pages(), "words": ["payable within thirty days"] * 3}]
    whole = ours(documents=documents, padding=True, return_tensors="pt")
    features = [dict(ours(documents=document)) for document in documents]
    collated = LayoutDataCollator(ours)(features)
    assert set(whole) == set(collated)
    assert {"block_queries", "block_keys", "block_members"} <= set(whole)
    for name in whole:
        assert (whole[name] == collated[name]).all()
    del features[0]["spatial_order"], features[1]["spatial_order"]
    with pytest.raises(InputError, match="no spatial_order"):
        LayoutDataCollator(ours)(features)


def test_saved_and_reloaded(tmp_path: Any) -> None:
    ours = processor(attention_pattern="union", num_neighbors=5, attention_window=8, page_stacking="page")
    ours.save_pretrained(tmp_path)
    again = LongLayoutLMProcessor.from_pretrained(tmp_path)
    first, second = (each(documents=two_pages(), return_tensors="np") for each in (ours, again))
    assert set(first) == set(second)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_many_pages_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    pages = 12
    document = {
        "words": ["due"] * pages,
        "boxes": [[0, 0, 10, 10]] * pages,
        "page_ids": list(range(pages)),
        "page_sizes": [(100, 100)] * pages,
    }
    ours = processor()
    with caplog.at_level(logging.WARNING):
        ours(documents=document)
        ours(documents=document)
    assert caplog.text.count("spans 12 pages") == 1
    caplog.clear()
    processor(page_stacking="page")(documents=document)
    assert "pages" not in caplog.text


def test_boxes_without_page_sizes() -> None:
    with pytest.raises(InputError, match="0..1023"):
        processor()(text=["due"], boxes=[[0, 0, 1024, 5]])
    assert processor()(text=["due"], boxes=[[0, 0, 1023, 5]])["bbox"][1] == [0, 0, 1023, 5]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"attention_pattern": "global"}, "attention_pattern is 'global'"),
        ({"page_stacking": "pile"}, "page_stacking is 'pile'"),
        ({"num_neighbors": 0}, "num_neighbors is 0"),
        ({"attention_window": 127}, "attention_window is 127; half of it"),
    ],
)
def test_impossible_settings(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        processor(**settings)
