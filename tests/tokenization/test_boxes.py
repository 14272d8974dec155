import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadsheet.tokenization.boxes import check_in_range, check_within_pages, clip_boxes, grid_boxes, split_boxes
from broadsheet.tokenization.input_checks import InputError

PAGES = np.array([[600.0, 800.0], [100.0, 200.0]])


def test_grid_is_the_floor_of_the_share_of_the_page():
    boxes = np.array([[0, 0, 600, 800], [1.5, 1.5, 99.99, 199.99], [0, 0, 0, 0]], dtype=float)
    grid = grid_boxes(boxes, np.array([0, 1, -1]), PAGES, 1000)
    assert grid.dtype == np.int64
    assert grid.tolist() == [[0, 0, 1000, 1000], [15, 7, 999, 999], [0, 0, 0, 0]]


def test_grid_of_boxes_without_pages_is_their_floor():
    assert grid_boxes(np.array([[1.9, 2, 1000, 3]]), np.array([0]), None, 1000).tolist() == [[1, 2, 1000, 3]]


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=30), st.floats(0.1, 1e5), st.floats(0.1, 1e5))
def test_grid_stays_in_range_and_keeps_order(shares, width, height):
    array = np.array(shares)
    boxes = np.concatenate([np.minimum(array[:, :2], array[:, 2:]), np.maximum(array[:, :2], array[:, 2:])], axis=1)
    boxes *= np.array([width, height, width, height])
    grid = grid_boxes(boxes, np.zeros(len(boxes), int), np.array([[width, height]]), 1000)
    assert grid.min() >= 0
    assert grid.max() <= 1000
    assert (grid[:, :2] <= grid[:, 2:]).all()


def test_a_box_may_overhang_by_less_than_a_thousandth():
    box = np.array([[0, 0, 600.5, 800.7]])
    check_within_pages(box, np.array([0]), PAGES, ["word"])
    assert grid_boxes(box, np.array([0]), PAGES, 1000).tolist() == [[0, 0, 1000, 1000]]


def test_a_box_beyond_its_page_is_named():
    boxes = np.array([[0, 0, 100, 200], [0, 0, 100, 201]], dtype=float)
    with pytest.raises(InputError, match=r"100.0, 201.0\] of word 1 \('b'\) of document 7 .* page 1 .* 200"):
        check_within_pages(boxes, np.array([1, 1]), PAGES, ["a", "b"], "document 7")


def test_a_box_out_of_the_models_range_is_named():
    with pytest.raises(InputError, match=r"1001.0\] of word 1 \('b'\) .* range 0..1000; pass page_sizes"):
        check_in_range(np.array([[0, 0, 1000, 1], [0, 0, 1, 1001]], dtype=float), 1000, ["a", "b"])


def test_fractions_of_the_page_are_no_grid():
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]])
    with pytest.raises(InputError, match=r"word 1 \('b'\) .* fraction .* page_sizes=\[\(1, 1\)"):
        check_in_range(boxes, 1000, ["a", "b"])
    check_in_range(boxes, 1000, ["a", "b"], integer=False)
    check_in_range(np.array([[0, 0, 1, 1]], dtype=float), 1000, ["a"])


def test_clipping_moves_to_the_edge_of_each_words_page_and_counts():
    boxes = np.array([[-5, 10, 50, 20], [0, 0, 120, 10], [0, 0, 100, 200]], dtype=float)
    clipped, changed = clip_boxes(boxes, np.array([0, 1, 1]), PAGES, (1000, 1000))
    assert clipped.tolist() == [[0, 10, 50, 20], [0, 0, 100, 10], [0, 0, 100, 200]]
    assert changed == 2


def test_clipping_without_pages_clips_to_the_models_range():
    clipped, changed = clip_boxes(np.array([[-1, 0, 2000, 5]]), np.array([0]), None, (1000, 4))
    assert clipped.tolist() == [[0, 0, 1000, 4]]
    assert changed == 1


def test_clipping_hides_nothing_that_is_not_finite():
    clipped, changed = clip_boxes(np.array([[np.nan, 0, np.inf, 5]]), np.array([0]), PAGES, (1000, 1000))
    assert np.isnan(clipped[0, 0])
    assert np.isinf(clipped[0, 2])
    assert changed == 0


def test_split_boxes_follow_the_characters():
    # "quickly" as qu|ick|ly, then "due" whole.
    boxes = np.array([[10.0, 0, 80, 5]] * 3 + [[90.0, 0, 99, 5]])
    split = split_boxes(boxes, np.array([0, 2, 5, 0]), np.array([True, False, False, True]), np.array([7, 7, 7, 3]))
    assert split.tolist() == [[10, 0, 30, 5], [30, 0, 60, 5], [60, 0, 80, 5], [90, 0, 99, 5]]


def test_pieces_of_one_character_and_empty_intervals_share_a_box():
    # Three bytes of one character, then a piece that covers nothing at the very end.
    boxes = np.array([[0.0, 0, 20, 5]] * 4)
    split = split_boxes(boxes, np.array([0, 0, 0, 2]), np.array([True, False, False, False]), np.array([2] * 4))
    assert split[:, [0, 2]].tolist() == [[0, 10], [0, 10], [0, 10], [10, 20]]


@settings(max_examples=200)
@given(st.data())
def test_split_boxes_tile_the_words_box(data):
    boxes, starts, word_starts, lengths = [], [], [], []
    for _ in range(data.draw(st.integers(1, 6))):
        length = data.draw(st.integers(0, 12))
        # Any starts, even out of order and beyond the word: normalisers do such things.
        pieces = data.draw(st.lists(st.integers(0, length + 2), min_size=1, max_size=8))
        left = data.draw(st.floats(0, 500))
        right = left + data.draw(st.floats(0, 500))
        boxes += [[left, 1, right, 2]] * len(pieces)
        starts += pieces
        word_starts += [True] + [False] * (len(pieces) - 1)
        lengths += [length] * len(pieces)
    boxes, word_starts = np.array(boxes, dtype=float), np.array(word_starts)
    split = split_boxes(boxes, np.array(starts), word_starts, np.array(lengths))
    assert (split[:, [1, 3]] == boxes[:, [1, 3]]).all()
    edges = [*np.flatnonzero(word_starts), len(boxes)]
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        distinct = np.unique(split[first:last], axis=0)
        assert distinct[0, 0] == boxes[first, 0]
        assert distinct[-1, 2] == boxes[first, 2]
        np.testing.assert_allclose(distinct[:-1, 2], distinct[1:, 0])
        width = (boxes[first, 2] - boxes[first, 0]) / max(lengths[first], 1)
        assert (distinct[:, 2] - distinct[:, 0] >= width * (1 - 1e-6) - 1e-9).all()


def test_no_pieces_have_no_boxes():
    empty = split_boxes(np.zeros((0, 4)), np.zeros(0, int), np.zeros(0, bool), np.zeros(0, int))
    assert empty.shape == (0, 4)


def test_clip_boxes_of_a_processor_logs_how_many(caplog):
    from tests.tokenization.examples import make_processor

    processor = make_processor()
    with caplog.at_level(logging.WARNING):
        boxes = [[-3, 0, 50, 10], [0, 0, 700, 10]]
        batch = processor(["a", "b"], boxes=boxes, page_sizes=[(600, 800)], clip_boxes=True)
    assert batch["bbox"][1:3] == [[0, 0, 83, 12], [0, 0, 1000, 12]]
    assert [record.getMessage() for record in caplog.records] == ["Clipped 2 of 2 boxes to the edge of their page."]
