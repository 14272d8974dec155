"""One window of a document: its tokens with their raw boxes, pages and words."""

from dataclasses import dataclass

import numpy as np

from .document_input import DocumentInput
from .word_tokenization import SpecialTokens, TokenizedWords


@dataclass(frozen=True)
class Window:
    """
    One window of N tokens, special tokens and question included, as `LayoutProcessor.layout_tensors` gets it.

    Attributes:
        input_ids: int64 `[N]`.
        boxes: float64 `[N, 4]`, the box of each token in the unit of `page_sizes` (in the model's range where there
            are none); [0, 0, 0, 0] for special tokens and question.
        page_ids: int64 `[N]`, -1 for special tokens and question.
        word_ids: int64 `[N]`, the word of each token in its document, -1 for special tokens and question.
        subword_ids: int64 `[N]`, the index of each token within its word, -1 likewise.
        page_sizes: float64 `[pages, 2]`, (width, height) of all pages of the document, or None.
        document: the whole document, with its word boxes.
    """

    input_ids: np.ndarray
    boxes: np.ndarray
    page_ids: np.ndarray
    word_ids: np.ndarray
    subword_ids: np.ndarray
    page_sizes: np.ndarray | None
    document: DocumentInput


def make_window(
    document: DocumentInput,
    tokens: TokenizedWords,
    boxes: np.ndarray,
    pages: np.ndarray,
    part: slice,
    question: list[int],
    specials: SpecialTokens,
) -> Window:
    """The window over the sub-words `part` of a batch's tokens, with question and special tokens around them."""
    before = specials.prefix[0] + question + specials.middle[0]
    length = len(before) + part.stop - part.start + len(specials.suffix[0])
    inside = slice(len(before), len(before) + part.stop - part.start)

    def around(values: np.ndarray, fill: int) -> np.ndarray:
        array = np.full((length, *values.shape[1:]), fill, dtype=values.dtype)
        array[inside] = values[part]
        return array

    input_ids = around(tokens.input_ids, 0)
    input_ids[: inside.start] = before
    input_ids[inside.stop :] = specials.suffix[0]
    return Window(
        input_ids=input_ids,
        boxes=around(boxes, 0),
        page_ids=around(pages, -1),
        word_ids=around(tokens.words, -1),
        subword_ids=around(tokens.pieces, -1),
        page_sizes=document.page_sizes,
        document=document,
    )
