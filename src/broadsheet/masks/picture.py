"""Pictures of attention patterns: the masks side by side, and one word's part of each on the page."""

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image, ImageDraw

from broadsheet.documents import Document
from broadsheet.masks.patterns import PATTERNS, PatternMask
from broadsheet.visualization import page_font, render_pages

# Light background and dark marks, as in the paper's Figure 2; where scores and values differ, a colour for each.
NOTHING, BOTH, SCORES, VALUES = "#FBF7DC", "#14305E", "#0072B2", "#E69F00"
WORD_COLOR = "#D55E00"
SIDE = 1024  # rows and columns of a mask at most
STRIP = 60  # pixels above a page


def draw_masks(masks: Sequence[PatternMask]) -> Image.Image:
    """All masks side by side, row i what word i attends to: one RGB picture."""
    columns = min(3, len(masks))
    rows = -(-len(masks) // columns)
    figure = Figure(figsize=(4.6 * columns, 4.9 * rows + 0.4), dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    cells = [figure.add_subplot(rows, columns, number + 1) for number in range(rows * columns)]
    for axes, mask in zip(cells, masks, strict=False):
        words = len(mask.scores)
        levels = _shrink(mask.scores) + 2 * _shrink(mask.values)
        colors = ListedColormap([NOTHING, SCORES, VALUES, BOTH])
        axes.imshow(levels, cmap=colors, vmin=0, vmax=3, interpolation="nearest", extent=(0, words, words, 0))
        share = mask.scores.mean()
        axes.set_title(f"{PATTERNS[mask.pattern]}: {100 * share:.1f} % of all pairs", fontsize=11)
        axes.set_xlabel("attended word")
        axes.tick_params(labelsize=8)
    cells[0].set_ylabel("attending word")
    for axes in cells[len(masks) :]:
        axes.axis("off")
    legend = [(BOTH, "attended to"), (SCORES, "scores alone"), (VALUES, "values alone")]
    handles = [Patch(color=color, label=label) for color, label in legend]
    (cells[-1] if len(cells) > len(masks) else figure).legend(
        handles=handles, loc="center" if len(cells) > len(masks) else "outside lower center", frameon=False
    )
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def draw_neighbors(
    document: Document, masks: Sequence[PatternMask], word: int, password: str | None = None
) -> list[Image.Image]:
    """
    The page of a word once for each pattern, the words that it attends to tinted, the word itself outlined.

    Args:
        document: the document that the masks are of.
        masks: of `pattern_masks`.
        word: a word that the masks show.
        password: opens an encrypted source.
    """
    page = document.page_ids[word]
    plain = render_pages(document, [page], password)[0]
    scale = (plain.width / document.page_sizes[page][0], plain.height / document.page_sizes[page][1])
    pictures = []
    for mask in masks:
        tint = Image.new("RGB", plain.size, "white")
        draw = ImageDraw.Draw(tint)
        for index in document.word_ids_of_page(page):
            if index >= len(mask.scores):
                continue
            score, value = bool(mask.scores[word, index]), bool(mask.values[word, index])
            if score or value:
                color = "#A9C7E8" if score and value else "#9AD3F2" if score else "#F6D48F"
                draw.rectangle(_pixels(document.boxes[index], scale, 1), fill=color)
        mixed = np.asarray(plain, dtype=np.uint16) * np.asarray(tint, dtype=np.uint16) // 255
        picture = Image.fromarray(mixed.astype(np.uint8))
        outline = _pixels(document.boxes[word], scale, 3)
        ImageDraw.Draw(picture).rectangle(outline, outline=WORD_COLOR, width=4)
        pictures.append(_with_heading(picture, document, mask, word, page))
    return pictures


def _with_heading(picture: Image.Image, document: Document, mask: PatternMask, word: int, page: int) -> Image.Image:
    sheet = Image.new("RGB", (picture.width, picture.height + STRIP), "white")
    sheet.paste(picture, (0, STRIP))
    attended = np.flatnonzero(mask.scores[word] | mask.values[word])
    here = sum(document.page_ids[index] == page for index in attended)
    text = f"{PATTERNS[mask.pattern]}: {len(attended)} words, {here} on this page"
    if not np.array_equal(mask.scores[word], mask.values[word]):
        text += " (blue: scores, ochre: values)"
    size = 26.0
    draw = ImageDraw.Draw(sheet)
    while size > 10 and draw.textlength(text, font=page_font(size)) > picture.width - 24:
        size -= 1
    draw.text((12, (STRIP - size) / 2), text, fill="black", font=page_font(size))
    sheet.info = {"page": page, "num_pages": document.num_pages}
    return sheet


def _shrink(mask: np.ndarray) -> np.ndarray:
    """A mask of at most `SIDE` rows and columns, marked where anything in a cell is."""
    step = -(-len(mask) // SIDE)
    size = -(-len(mask) // step) * step
    padded = np.zeros((size, size), dtype=bool)
    padded[: len(mask), : len(mask)] = mask
    return np.asarray(padded.reshape(size // step, step, size // step, step).any((1, 3)), dtype=np.int64)


def _pixels(box: Sequence[float], scale: tuple[float, float], padding: int) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = box
    return x0 * scale[0] - padding, y0 * scale[1] - padding, x1 * scale[0] + padding, y1 * scale[1] + padding
