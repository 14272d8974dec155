import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.windows import check_stride, context, cut_windows


def test_windows_of_a_sequence():
    assert cut_windows(10, None) == [(0, 10)]
    assert cut_windows(10, 10, 3) == [(0, 10)]
    assert cut_windows(10, 4, 0) == [(0, 4), (4, 8), (8, 10)]
    assert cut_windows(10, 4, 2) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert cut_windows(0, 4, 1) == [(0, 0)]


@given(st.integers(0, 300), st.integers(1, 60), st.data())
def test_windows_cover_everything_with_the_stride_in_common(num_tokens, capacity, data):
    stride = data.draw(st.integers(0, capacity - 1))
    windows = cut_windows(num_tokens, capacity, stride)
    assert windows[0][0] == 0
    assert windows[-1][1] == num_tokens
    for (start, end), (next_start, next_end) in zip(windows[:-1], windows[1:], strict=True):
        assert end - start == capacity
        assert end - next_start == stride
        assert next_end > end
    assert windows[-1][1] - windows[-1][0] <= capacity


def test_windows_are_those_of_transformers():
    from tests.tokenizers import tiny_tokenizer

    tokenizer = tiny_tokenizer(special_tokens=False)
    words = ["total"] * 23
    for capacity, stride in ((5, 2), (7, 0), (23, 3), (22, 21)):
        theirs = tokenizer(
            words,
            is_split_into_words=True,
            truncation=True,
            max_length=capacity,
            stride=stride,
            return_overflowing_tokens=True,
        )
        assert [end - start for start, end in cut_windows(23, capacity, stride)] == list(map(len, theirs["input_ids"]))


@pytest.mark.parametrize(
    ("capacity", "stride", "sentence"),
    [
        (10, -1, "stride is -1"),
        (0, 0, "max_length=12 leaves no room for words beside 5 tokens"),
        (10, 10, "stride=10 is not below the 10 tokens"),
    ],
)
def test_impossible_windows_are_refused(capacity, stride, sentence):
    with pytest.raises(InputError, match=sentence):
        check_stride(capacity, stride, 5, 12)


def test_context_is_the_shorter_side_and_a_documents_end_hides_nothing():
    positions = np.arange(4, 8)
    middle = context(positions, np.full(4, 4), np.full(4, 8), np.full(4, 20))
    assert middle.tolist() == [0, 1, 1, 0]
    first = context(np.arange(4), np.zeros(4, int), np.full(4, 4), np.full(4, 20))
    assert first.tolist() == [3, 2, 1, 0]
