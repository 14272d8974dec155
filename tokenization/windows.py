"""Windows: a long sequence of tokens cut into overlapping pieces, and the window that sees a token best."""

import numpy as np

from .input_checks import InputError


def cut_windows(num_tokens: int, capacity: int | None, stride: int = 0) -> list[tuple[int, int]]:
    """
    Cut a sequence into windows that cover every token.

    Args:
        num_tokens: the length of the sequence.
        capacity: the most tokens a window holds; None for one window over everything.
        stride: how many tokens a window shares with the one before it, as in transformers' tokenizers.

    Returns:
        (start, end) of each window, end exclusive, in order. All but the last hold `capacity` tokens.
    """
    if capacity is None or num_tokens <= capacity:
        return [(0, num_tokens)]
    step = capacity - stride
    starts = range(0, num_tokens - stride, step)
    return [(start, min(start + capacity, num_tokens)) for start in starts]


def check_stride(capacity: int, stride: int, num_other: int, max_length: int) -> None:
    """Raise `InputError` where windows of `max_length` with `num_other` further tokens leave no room to move on."""
    if stride < 0:
        raise InputError(f"The stride is {stride}; it counts the tokens that two windows share, from 0.")
    if capacity < 1:
        raise InputError(
            f"max_length={max_length} leaves no room for words beside {num_other} tokens of the question and the "
            "tokenizer's special tokens; pass a larger max_length or a shorter question."
        )
    if stride >= capacity:
        raise InputError(
            f"stride={stride} is not below the {capacity} tokens that a window of max_length={max_length} holds "
            "beside special tokens and question; pass a smaller stride or a larger max_length."
        )


def context(positions: np.ndarray, starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """
    How much of a token's surroundings its window shows: the smaller of the tokens before and after it.

    Args:
        positions: `[T]`, the token's place in its document.
        starts: `[T]`, where the token's window starts in the document.
        ends: `[T]`, where it ends (exclusive).
        lengths: `[T]`, the tokens of the document.

    Returns:
        int64 `[T]`. A side on which the window reaches the document's end hides nothing and counts as endless.
    """
    endless = np.iinfo(np.int64).max
    before = np.where(starts == 0, endless, positions - starts)
    after = np.where(ends == lengths, endless, ends - 1 - positions)
    return np.minimum(before, after)
