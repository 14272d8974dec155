"""Pictures of skim-attention maps on the page itself."""

from typing import Any

import matplotlib
import numpy as np
from PIL import Image, ImageDraw

from broadsheet.documents import Document
from broadsheet.maps.attention import AttentionMap
from broadsheet.visualization import page_font, render_pages

COLORS = "YlOrRd"
BLOCK_COLOR = "#117733"
SELECTED_COLOR = "#0072B2"
OPACITY = 0.62
STRIP = 66  # pixels of the legend below a page


def draw_attention(
    document: Document,
    attention: AttentionMap,
    caption: str | None = None,
    blocks: bool = True,
    password: str | None = None,
) -> list[Image.Image]:
    """
    Draw a map as Figures 3 and 6 of the paper do: each word tinted by the attention it gets, the mean of each block of
    text in white on green at its edge, the chosen words outlined in blue.

    Args:
        document: the document that the map is of.
        attention: the map.
        caption: what was chosen, for the legend.
        blocks: whether the blocks are outlined.
        password: opens an encrypted source.

    Returns:
        One RGB picture for each page that a window with a chosen word has read. Colours are the same on all pages:
        the darkest is the highest attention of a word, the middle of the scale a quarter of it.
    """
    page_of = np.asarray(document.page_ids)
    pages = [int(page) for page in np.unique(page_of[np.isfinite(attention.words)])]
    highest = float(np.nanmax(attention.words)) or 1.0  # all zero: all pale
    pictures = []
    for page, picture in zip(pages, render_pages(document, pages, password), strict=True):
        scale = (picture.width / document.page_sizes[page][0], picture.height / document.page_sizes[page][1])
        picture = tint_words(picture, document, attention.words, page, highest)
        draw = ImageDraw.Draw(picture)
        if blocks:
            _draw_blocks(draw, attention, page, scale)
        for index in attention.selected:
            if document.page_ids[index] == page:
                draw.rectangle(_pixels(document.boxes[index], scale, 1), outline=SELECTED_COLOR, width=2)
        picture = _add_legend(picture, document, attention, page, highest, caption)
        picture.info = {"page": page, "num_pages": document.num_pages}
        pictures.append(picture)
    return pictures


def tint_words(picture: Image.Image, document: Document, values: np.ndarray, page: int, highest: float) -> Image.Image:
    """
    Tint each word of a page by its value: the darker the higher, the middle of the scale a quarter of `highest`.

    Args:
        picture: the page.
        document: the document.
        values: `[words]`, of all its words; NaN for those that stay as they are.
        page: the page's number, from 0.
        highest: the value of the darkest colour.
    """
    scale = (picture.width / document.page_sizes[page][0], picture.height / document.page_sizes[page][1])
    layer = Image.new("RGBA", picture.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    for index in document.word_ids_of_page(page):
        value = values[index]
        if np.isfinite(value):
            red, green, blue = _color(value / highest)
            draw.rectangle(_pixels(document.boxes[index], scale, 1), fill=(red, green, blue, round(255 * OPACITY)))
    # Multiplied rather than laid over, so that black letters stay black.
    white = Image.new("RGBA", picture.size, "white")
    tint = Image.alpha_composite(white, layer).convert("RGB")
    return Image.fromarray(
        (np.asarray(picture, dtype=np.uint16) * np.asarray(tint, dtype=np.uint16) // 255).astype(np.uint8)
    )


def _draw_blocks(draw: ImageDraw.ImageDraw, attention: AttentionMap, page: int, scale: tuple[float, float]) -> None:
    font = page_font(13)
    taken: list[tuple[float, float, float, float]] = []
    for block in attention.blocks:
        if block.page != page or not np.isfinite(block.mean):
            continue
        box = _pixels(block.box, scale, 3)
        draw.rectangle(box, outline=BLOCK_COLOR, width=1)
        text = percent(block.mean)
        width, height = font.getlength(text) + 6, 16
        # Outside the block: to its left, where margins are, else to its right or above it.
        places = [
            (box[0] - width - 1, box[1]),
            (box[2] + 1, box[1]),
            (box[0], box[1] - height - 1),
            (box[0], box[3] + 1),
        ]
        fitting = [
            (x, y, x + width, y + height)
            for x, y in places
            if x >= 0 and x + width <= draw.im.size[0] and y >= 0 and y + height <= draw.im.size[1]
        ]
        free = [place for place in fitting if not any(_overlap(place, other) for other in taken)]
        if not fitting:
            continue
        place = (free or fitting)[0]
        taken.append(place)
        draw.rectangle(place, fill=BLOCK_COLOR)
        draw.text(((place[0] + place[2]) / 2, (place[1] + place[3]) / 2), text, fill="white", font=font, anchor="mm")


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _add_legend(
    picture: Image.Image,
    document: Document,
    attention: AttentionMap,
    page: int,
    highest: float,
    caption: str | None,
) -> Image.Image:
    whole = Image.new("RGB", (picture.width, picture.height + STRIP), "#f4f5f7")
    whole.paste(picture, (0, 0))
    draw: Any = ImageDraw.Draw(whole)
    top, font = picture.height, page_font(14)
    draw.line([(0, top), (picture.width, top)], fill="#9aa0a8", width=2)
    left, width = 14, 220
    for column in range(width):
        draw.line([(left + column, top + 12), (left + column, top + 26)], fill=_color((column / (width - 1)) ** 2))
    draw.text((left, top + 32), "0", fill="#222222", font=font)
    draw.text((left + width / 2, top + 32), percent(highest / 4), fill="#222222", font=font, anchor="ma")
    draw.text((left + width, top + 32), percent(highest), fill="#222222", font=font, anchor="ra")
    chosen = caption or f"{len(attention.selected)} words"
    lines = [
        f"mean attention of a token, from: {chosen}",
        f"blue: chosen words; green: mean of a block; page {page + 1} of {document.num_pages}",
    ]
    if attention.windows > 1:
        lines[1] += f"; {attention.windows_averaged} of {attention.windows} windows averaged"
    for row, line in enumerate(lines):
        draw.text((left + width + 24, top + 11 + 24 * row), line, fill="#333333", font=font)
    return whole


def percent(value: float) -> str:
    """An attention as a percentage with three digits."""
    return f"{100 * value:.3g} %"


def _color(value: float) -> tuple[int, int, int]:
    # By the square root, else one word that gets much would leave all others pale.
    red, green, blue, _ = matplotlib.colormaps[COLORS](min(max(value, 0.0), 1.0) ** 0.5)
    return round(255 * red), round(255 * green), round(255 * blue)


def _pixels(box: list[float], scale: tuple[float, float], padding: int) -> tuple[float, float, float, float]:
    x, y = scale
    return box[0] * x - padding, box[1] * y - padding, box[2] * x + padding, box[3] * y + padding
