"""Text blocks of a page: lines that stand under each other."""

from collections.abc import Sequence

from broadsheet.documents import Document

Box = list[float]

# Relative to the height of a line: how far apart the lines of a block are at most, and by how much they differ.
LARGEST_GAP = 0.9
LARGEST_RATIO = 1.3
# Of the narrower line's width: how much of two lines stands under each other at least.
LEAST_OVERLAP = 0.5


def text_blocks(document: Document) -> list[list[int]]:
    """
    The words of a document in blocks of text: paragraphs, titles, addresses.

    Lines are words that follow each other on one height, within the document's segments if it has them. Two lines are
    in one block if one stands under the other, nearer than a line's height, in letters of about the same size; their
    reading order plays no part.

    Returns:
        The blocks in the order of their first words, each a list of word indices; every word is in one block.
    """
    lines = _lines(document)
    boxes = [enclosing_box([document.boxes[index] for index in line]) for line in lines]
    pages = [document.page_ids[line[0]] for line in lines]
    block_of = list(range(len(lines)))

    def find(line: int) -> int:
        while block_of[line] != line:
            block_of[line] = line = block_of[block_of[line]]
        return line

    downwards = sorted(range(len(lines)), key=lambda line: (pages[line], boxes[line][1]))
    for place, upper in enumerate(downwards):
        reach = boxes[upper][3] + LARGEST_GAP * (boxes[upper][3] - boxes[upper][1])
        for lower in downwards[place + 1 :]:
            if pages[lower] != pages[upper] or boxes[lower][1] > reach:
                break
            if _stands_under(boxes[upper], boxes[lower]):
                block_of[find(lower)] = find(upper)
    blocks: dict[int, list[int]] = {}
    for number, line in enumerate(lines):
        blocks.setdefault(find(number), []).extend(line)
    return sorted(sorted(block) for block in blocks.values())


def enclosing_box(boxes: Sequence[Sequence[float]]) -> Box:
    """The smallest box around boxes."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return [min(x0), min(y0), max(x1), max(y1)]


def _lines(document: Document) -> list[list[int]]:
    lines: list[list[int]] = []
    for index in range(len(document)):
        if lines and _same_line(document, lines[-1][-1], index):
            lines[-1].append(index)
        else:
            lines.append([index])
    return lines


def _same_line(document: Document, left: int, right: int) -> bool:
    if document.page_ids[left] != document.page_ids[right]:
        return False
    if document.segment_ids is not None and document.segment_ids[left] != document.segment_ids[right]:
        return False
    (_, top, end, bottom), (start, other_top, _, other_bottom) = document.boxes[left], document.boxes[right]
    overlap = min(bottom, other_bottom) - max(top, other_top)
    height = min(bottom - top, other_bottom - other_top)
    return overlap >= 0.5 * height and -0.5 * height <= start - end <= 3 * max(height, 1e-6)


def _stands_under(upper: Box, lower: Box) -> bool:
    heights = sorted((upper[3] - upper[1], lower[3] - lower[1]))
    if heights[0] <= 0 or heights[1] > LARGEST_RATIO * heights[0]:
        return False
    gap = lower[1] - upper[3]
    shared = min(upper[2], lower[2]) - max(upper[0], lower[0])
    narrower = min(upper[2] - upper[0], lower[2] - lower[0])
    return -0.5 * heights[0] <= gap <= LARGEST_GAP * heights[0] and shared > LEAST_OVERLAP * narrower
