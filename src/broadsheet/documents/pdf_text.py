"""
From the characters of a PDF page to words with boxes.

PDFium lists a page's characters in the order of the page's content and puts in spaces and line ends where the content
leaves a gap. Words end at those, and at gaps, new lines and turns that PDFium joined.
"""

from dataclasses import dataclass

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from broadsheet.documents.pdf_characters import UNMAPPED, Characters

# All in font sizes. Two characters with no space between them are two words when they stand further apart than this
# (PDFium itself puts a space into smaller gaps, judging by the font's own space and the text's letter spacing),
WORD_GAP = 0.6
# ... or when the second starts this far before the end of the first (a new line, or a column further left),
BACKWARD_GAP = 1.5
# ... or when their baselines are this far apart (a superscript is raised by less),
BASELINE_STEP = 0.6
# ... or when they are letters or digits this far apart that were drawn one after the other, not at once: the text
# layers that OCR writes draw every word by itself and often closely.
DRAWN_APART_GAP = 0.06
# A segment (a run of words in one line) ends at gaps wider than this, as between the columns of a table.
SEGMENT_GAP = 1.5
# PDFium ends the line between letters of one baseline now and then (letters drawn one by one in changing sizes);
# closer than this they are one word.
TOUCHING_GAP = 0.1
TOUCHING_STEP = 0.1

_LIGATURES = dict(zip(range(0xFB00, 0xFB07), ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))
_BLANKS = np.array(
    [0x20, 0x09, 0x0A, 0x0D, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)


@dataclass
class PageText:
    """
    The words of one page.

    `boxes [words, 4]` are float64 in the displayed page's points, origin top left, clipped to the page;
    `segment_ids [words]` count from 0; `num_clipped` words lost a tenth of their width or height, or more, by that;
    `num_unmapped` characters have no Unicode value in the file and stand in the words as U+FFFD.
    """

    words: list[str]
    boxes: np.ndarray
    segment_ids: np.ndarray
    size: tuple[float, float]
    num_clipped: int = 0
    num_unmapped: int = 0


def read_page_text(page: pdfium.PdfPage) -> PageText:
    """Read the words of a page, in the order of the page's content."""
    turns = pdfium_c.FPDFPage_GetRotation(page) % 4
    bounds = page.get_bbox()
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    size = (height, width) if turns % 2 else (width, height)
    textpage = page.get_textpage()
    try:
        characters = Characters.read(textpage)
    finally:
        textpage.close()
    characters = _without_false_line_ends(characters)
    starts, ends = _find_words(characters)
    if len(starts) == 0:
        return PageText([], np.zeros((0, 4)), np.zeros(0, dtype=np.int64), size)
    text = [_LIGATURES.get(code) or chr(code) for code in characters.codes.tolist()]
    words = ["".join(text[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    boxes = _to_displayed(_word_boxes(characters.boxes, starts, ends), bounds, turns)
    clipped = np.clip(boxes, 0, np.array([size[0], size[1], size[0], size[1]]))
    # The font's ascent reaching a trifle over the edge is no news; a tenth of the word missing is.
    lost = (boxes[:, 2:] - boxes[:, :2]) - (clipped[:, 2:] - clipped[:, :2])
    num_clipped = int((lost > 0.1 * (boxes[:, 2:] - boxes[:, :2])).any(axis=1).sum())
    num_unmapped = int((characters.codes == UNMAPPED).sum())
    return PageText(words, clipped, _find_segments(characters, starts, ends), size, num_clipped, num_unmapped)


def _without_false_line_ends(characters: Characters) -> Characters:
    """Leave out the line ends that stand between two characters of one baseline that touch each other."""
    line_end = np.isin(characters.codes, (0x0A, 0x0D))
    ink = np.flatnonzero(~line_end)
    before, after = ink[:-1], ink[1:]
    ended = after - before > 1
    before, after = before[ended], after[ended]
    if len(before) == 0:
        return characters
    direction, em = characters.direction[before], np.maximum(characters.em[before], characters.em[after])
    gap = (_extent(characters.boxes[after], direction)[0] - _extent(characters.boxes[before], direction)[1]) / em
    touching = (np.abs(gap) < TOUCHING_GAP) & (_step(characters, before, after) < TOUCHING_STEP * em)
    touching &= ~np.isin(characters.codes[before], _BLANKS) & ~np.isin(characters.codes[after], _BLANKS)
    kept = np.ones(len(characters), dtype=bool)
    for start, end in zip(before[touching].tolist(), after[touching].tolist(), strict=True):
        kept[start + 1 : end] = False
    return characters.select(kept)


def _find_words(characters: Characters) -> tuple[np.ndarray, np.ndarray]:
    """First and last-plus-one character of each word, `[words]` each."""
    count = len(characters)
    ink = ~np.isin(characters.codes, _BLANKS)
    first = np.flatnonzero(ink[:-1] & ink[1:])
    second = first + 1
    drawn_apart = characters.objects[first] != characters.objects[second]
    drawn_apart[drawn_apart] = _are_alphanumeric(characters.codes, first[drawn_apart])
    gap_limit = np.where(drawn_apart, DRAWN_APART_GAP, WORD_GAP)
    joined = np.zeros(count + 1, dtype=bool)  # this character belongs to the word of the one before
    joined[second] = ~_stand_apart(characters, first, second, gap_limit)
    return np.flatnonzero(ink & ~joined[:-1]), np.flatnonzero(ink & ~joined[1:]) + 1


def _are_alphanumeric(codes: np.ndarray, first: np.ndarray) -> list[bool]:
    return [chr(codes[index]).isalnum() and chr(codes[index + 1]).isalnum() for index in first.tolist()]


def _find_segments(characters: Characters, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The segment of each word `[words]`: consecutive words in one line without a wide gap between them."""
    apart = _stand_apart(characters, ends[:-1] - 1, starts[1:], SEGMENT_GAP)
    return np.concatenate([[0], np.cumsum(apart)])


def _stand_apart(
    characters: Characters, first: np.ndarray, second: np.ndarray, gap_limit: float | np.ndarray
) -> np.ndarray:
    """Whether the characters `second [n]` stand apart from the characters `first [n]`, read just before them."""
    direction = characters.direction[first]
    em = np.maximum(characters.em[first], characters.em[second])
    start_1, end_1 = _extent(characters.boxes[first], direction)
    start_2, end_2 = _extent(characters.boxes[second], direction)
    leftward = _is_right_to_left(characters.codes[first]) & _is_right_to_left(characters.codes[second])
    gap = np.where(leftward, start_1 - end_2, start_2 - end_1)
    step = _step(characters, first, second)
    turned = (direction * characters.direction[second]).sum(axis=1) < 0.9
    return (gap > gap_limit * em) | (gap < -BACKWARD_GAP * em) | (step > BASELINE_STEP * em) | turned


def _step(characters: Characters, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How far the baselines of characters are apart, across the line of the first."""
    return np.abs(((characters.origins[second] - characters.origins[first]) * characters.up[first]).sum(axis=1))


def _extent(boxes: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where boxes `[n, 4]` begin and end along `direction [n, 2]`."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]) / 2
    centre, reach = (middle * direction).sum(axis=1), (half * np.abs(direction)).sum(axis=1)
    return centre - reach, centre + reach


def _is_right_to_left(codes: np.ndarray) -> np.ndarray:
    hebrew_arabic = (codes >= 0x590) & (codes < 0x900)
    return hebrew_arabic | ((codes >= 0xFB1D) & (codes < 0xFE00)) | ((codes >= 0xFE70) & (codes < 0xFEFF))


def _word_boxes(boxes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The boxes `[words, 4]` around the characters `[start, end)` of each word."""
    # reduceat takes [start, end) pairs; what it computes between the pairs is dropped.
    spans = np.stack([starts, ends], axis=1).ravel()
    padded = np.concatenate([boxes, boxes[-1:]])  # an end may lie one past the last character
    low = np.minimum.reduceat(padded[:, :2], spans, axis=0)[::2]
    high = np.maximum.reduceat(padded[:, 2:], spans, axis=0)[::2]
    return np.concatenate([low, high], axis=1)


def _to_displayed(boxes: np.ndarray, bounds: tuple[float, float, float, float], turns: int) -> np.ndarray:
    """Turn boxes `[n, 4]` in PDF coordinates into the page as it is displayed, turned clockwise `turns` times."""
    left, bottom, right, top = bounds
    x0, y0, x1, y1 = boxes.T
    if turns == 1:
        edges = (y0 - bottom, x0 - left, y1 - bottom, x1 - left)
    elif turns == 2:
        edges = (right - x1, y0 - bottom, right - x0, y1 - bottom)
    elif turns == 3:
        edges = (top - y1, right - x1, top - y0, right - x0)
    else:
        edges = (x0 - left, top - y1, x1 - left, top - y0)
    return np.stack(edges, axis=1)
