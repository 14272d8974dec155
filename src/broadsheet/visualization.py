"""Pictures of documents with the entities found on them."""

import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from broadsheet.documents import Document, InputError
from broadsheet.documents.page_images import read_frames
from broadsheet.documents.pdf import load_page, open_pdf

logger = logging.getLogger(__name__)

# Okabe and Ito's palette without its yellow, then Paul Tol's muted one: told apart by colour-blind people too, and
# dark enough for outlines on white. A label keeps its colour on all pages of a document.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#332288", "#882255", "#117733", "#999933", "#44AA99", "#AA4499", "#661100", "#6699CC",
)  # fmt: skip
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp")
LONG_SIDE = 1700  # pixels of a page's longer side
_PDF_SCALE = 2.5  # pixels a point at most: small pages, as of receipts, need not fill the long side
_FILL_OPACITY = 0.2
_PADDING = 2  # pixels between words and the box around them
_TAG_SIZES = (14.0, 12.0, 11.0)  # of the letters, in pixels, the first with room for it is taken
_HIDDEN_LIMIT = 0.4  # of what `_Room.hidden` tells: a tenth of the tag over words, or a rule across it
_INK = 160  # grey value below which a pixel of the page counts as printed

Pixels = tuple[float, float, float, float]


def annotate_pages(
    document: Document,
    entities: Iterable[Any],
    pages: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    password: str | None = None,
) -> list[Image.Image]:
    """
    Draw a document's pages with its entities: a box around each line of an entity, tagged with its label and score.

    The page itself is drawn from `document.source` (a PDF or picture file); without one, its words are set on white.
    Tags are put where they hide no words, if there is room near the entity. Below each page stand a legend and its
    number.

    Args:
        document: the document that the entities are from.
        entities: objects with `label`, `word_ids` (in the document) and `score` (0..1, or `None`).
        pages: the pages to draw, numbered from 0; all by default.
        labels: all labels there are, for the same colours in the pictures of several documents; by default those of
            the entities.
        password: opens an encrypted source.

    Returns:
        One RGB picture per page, its `info` telling the `page` (from 0), `num_pages` and `num_entities` on it.

    Raises:
        InputError: a page, or an entity's word, is not in the document.
    """
    entities = list(entities)
    chosen = list(range(document.num_pages)) if pages is None else list(pages)
    for page in chosen:
        if not 0 <= page < document.num_pages:
            raise InputError(f"There is no page {page} in a document of {document.num_pages} pages, numbered from 0.")
    for entity in entities:
        outside = [index for index in entity.word_ids if not 0 <= index < len(document)]
        if outside:
            raise InputError(
                f"An entity {entity.label!r} has the word {outside[0]}, but the document has {len(document)} words; "
                "pass the document that the entities are from."
            )
    names = sorted({entity.label for entity in entities}) if labels is None else list(labels)
    names += sorted({entity.label for entity in entities} - set(names))
    colors = {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(names)}
    counts = Counter(entity.label for entity in entities)
    pictures = []
    for page, picture in zip(chosen, _draw_sources(document, chosen, password), strict=True):
        scale = (picture.width / document.page_sizes[page][0], picture.height / document.page_sizes[page][1])
        on_page = [entity for entity in entities if any(document.page_ids[index] == page for index in entity.word_ids)]
        picture = _annotate(picture, document, page, on_page, colors, scale)
        picture = _add_legend(picture, document, page, {name: colors[name] for name in names if counts[name]}, counts)
        picture.info = {"page": page, "num_pages": document.num_pages, "num_entities": len(on_page)}
        pictures.append(picture)
    return pictures


def save_pages(images: Sequence[Image.Image], path: str | os.PathLike[str], max_pages: int = 6) -> None:
    """
    Save the pictures of `annotate_pages` as one file.

    A PDF file gets them all, a page each. A picture file (.png, .jpg, ...) shows them side by side; of more than
    `max_pages` only those with entities, and of these the first, with a note on standard error.

    Raises:
        InputError: there are no pictures, or the suffix is of no known picture format.
    """
    path = Path(path)
    if not images:
        raise InputError("There are no pages to save; pass what annotate_pages returns.")
    check_picture_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".pdf":
        images[0].save(path, save_all=True, append_images=images[1:], resolution=150.0)
        return
    shown = list(images)
    if len(shown) > max_pages:
        shown = [image for image in images if image.info.get("num_entities", 1)][:max_pages] or shown[:max_pages]
        print(
            f"{path} shows {len(shown)} of {len(images)} pages, the first with fields on them; "
            f"save as {path.with_suffix('.pdf').name} to see all.",
            file=sys.stderr,
        )
    _tile(shown).save(path)


def check_picture_suffix(path: Path) -> None:
    """Raise `InputError` where `save_pages` knows no picture format of the path's suffix."""
    if path.suffix.lower() not in (*IMAGE_SUFFIXES, ".pdf"):
        raise InputError(f"{path} has the suffix {path.suffix.lower()!r}; save pages as .png, .jpg or .pdf.")


def render_pages(
    document: Document, pages: Sequence[int] | None = None, password: str | None = None
) -> list[Image.Image]:
    """The pages as `document.source` shows them, or their words on white: one RGB picture each, nothing drawn on."""
    return _draw_sources(document, list(range(document.num_pages)) if pages is None else pages, password)


def page_font(size: float) -> ImageFont.FreeTypeFont:
    """The font of what is written on pages, in pixels."""
    return _font(size)


def _tile(images: Sequence[Image.Image]) -> Image.Image:
    """The pictures in rows, left to right, in their own size: one by one they stay readable."""
    columns = min(len(images), max(1, math.ceil(math.sqrt(len(images) * 1.3))))
    if len(images) == 4:
        columns = 2
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    gap = 16 if len(images) > 1 else 0
    width = max(sum(image.width + gap for image in row) for row in rows) + gap
    height = sum(max(image.height for image in row) + gap for row in rows) + gap
    sheet = Image.new("RGB", (width, height), "#8a8f98")
    y = gap
    for row in rows:
        x = gap
        for image in row:
            sheet.paste(image, (x, y))
            x += image.width + gap
        y += max(image.height for image in row) + gap
    return sheet


def _draw_sources(document: Document, pages: Sequence[int], password: str | None) -> list[Image.Image]:
    """The pages without annotations, as the source shows them, or their words on white."""
    path = Path(document.source) if document.source else None
    if path is not None and path.exists():
        if path.suffix.lower() == ".pdf":
            with open_pdf(path, password) as pdf:
                if len(pdf) == document.num_pages:
                    return [_pdf_page(load_page(pdf, page)) for page in pages]
                logger.warning("%s has not the pages of the document any more; its words are drawn instead.", path)
        elif path.suffix.lower() in IMAGE_SUFFIXES:
            # As they were read: turned upright as the file says.
            shown = [
                _image_page(image) if page in pages else None for page, (image, _) in enumerate(read_frames(path))
            ]
            if len(shown) == document.num_pages:
                return [picture for page in pages if (picture := shown[page])]
            logger.warning("%s has not the pages of the document any more; its words are drawn instead.", path)
    elif path is not None:
        logger.warning("%s is not there any more; the document's words are drawn instead.", path)
    return [_draw_words(document, page) for page in pages]


def _pdf_page(page: Any) -> Image.Image:
    scale = min(LONG_SIDE / max(page.get_size()), _PDF_SCALE)
    return page.render(scale=scale).to_pil().convert("RGB")


def _image_page(image: Image.Image) -> Image.Image:
    scale = LONG_SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def _draw_words(document: Document, page: int) -> Image.Image:
    """A white page with each word written into its box."""
    width, height = document.page_sizes[page]
    scale = LONG_SIDE / max(width, height)
    picture = Image.new("RGB", (max(1, round(width * scale)), max(1, round(height * scale))), "white")
    draw = ImageDraw.Draw(picture)
    for index in document.word_ids_of_page(page):
        x0, y0, x1, y1 = (edge * scale for edge in document.boxes[index])
        if x1 - x0 < 1 or y1 - y0 < 1:
            continue
        word = document.words[index]
        size = 0.8 * (y1 - y0)
        size *= min(1.0, (x1 - x0) / max(_font(max(size, 4)).getlength(word), 1e-3))
        draw.text((x0, (y0 + y1) / 2), word, fill="#222222", font=_font(max(size, 4)), anchor="lm")
    return picture


def _annotate(
    picture: Image.Image,
    document: Document,
    page: int,
    entities: list[Any],
    colors: dict[str, str],
    scale: tuple[float, float],
) -> Image.Image:
    """Draw the boxes and tags of a page's entities."""
    tagged = []
    for entity in entities:
        lines = _merge_lines([document.boxes[index] for index in entity.word_ids if document.page_ids[index] == page])
        boxes = [_to_pixels(line, scale, picture.size) for line in lines]
        score = getattr(entity, "score", None)
        text = entity.label if score is None else f"{entity.label} {score:.2f}"
        if document.page_ids[entity.word_ids[0]] != page:
            text = f"... {entity.label}"
        tagged.append((entity, boxes, text))
    room = _Room(picture)
    for index in document.word_ids_of_page(page):
        room.mark(_to_pixels(document.boxes[index], scale, picture.size, 0), weight=4)
    layer = Image.new("RGBA", picture.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    for entity, boxes, _ in tagged:
        red, green, blue = _rgb(colors[entity.label])
        for box in boxes:
            room.mark(box, weight=4)
            draw.rectangle(
                box, fill=(red, green, blue, round(255 * _FILL_OPACITY)), outline=(red, green, blue, 255), width=2
            )
    picture = Image.alpha_composite(picture.convert("RGBA"), layer).convert("RGB")
    draw = ImageDraw.Draw(picture)
    homeless = []
    for entity, boxes, text in tagged:
        found = _find_place(room, boxes, text)
        if found is None:
            homeless.append((boxes, text, colors[entity.label]))
            continue
        place, size = found
        room.mark(place, weight=6)
        if not _touch(place, boxes):
            draw.line(_nearest(place, boxes), fill=colors[entity.label], width=2)
        _draw_tag(draw, place, text, colors[entity.label], size)
    return _add_gutter(picture, homeless) if homeless else picture


def _find_place(room: "_Room", boxes: list[Pixels], text: str) -> tuple[Pixels, float] | None:
    """A place near an entity where a tag hides next to nothing, and the tag's size; `None` if there is none."""
    for size in _TAG_SIZES:
        width, height = _tag_size(text, size)
        ranked = [
            (10 * hidden + rank, place)
            for rank, place in enumerate(_places(boxes, width, height))
            if (hidden := room.hidden(place)) < _HIDDEN_LIMIT
        ]
        if ranked:
            return min(ranked)[1], size
    return None


def _add_gutter(picture: Image.Image, tags: list[tuple[list[Pixels], str, str]]) -> Image.Image:
    """Widen the picture to the right for tags (boxes, text, colour) without room, each with a line to its box."""
    size, gap = _TAG_SIZES[-1], 3
    height = _tag_size("", size)[1] + gap
    columns = math.ceil(len(tags) * height / picture.height)
    column_width = max(_tag_size(text, size)[0] for _, text, _ in tags) + 24
    whole = Image.new("RGB", (round(picture.width + columns * column_width), picture.height), "#f4f5f7")
    whole.paste(picture, (0, 0))
    draw = ImageDraw.Draw(whole)
    tags = sorted(tags, key=lambda tag: (tag[0][0][1], tag[0][0][0]))
    tops = [(boxes[0][1] + boxes[0][3] - height) / 2 for boxes, _, _ in tags]
    for index in range(columns, len(tags)):  # downwards: below the tag before, in the same column
        tops[index] = max(tops[index], tops[index - columns] + height)
    limit = dict.fromkeys(range(columns), picture.height - height)
    for index in reversed(range(len(tags))):  # and upwards again, where the last would leave the page
        tops[index] = min(tops[index], limit[index % columns])
        limit[index % columns] = tops[index] - height
    placed = []
    for index, (boxes, text, color) in enumerate(tags):
        width, tag_height = _tag_size(text, size)
        left = picture.width + (index % columns) * column_width + 12
        place = (left, tops[index], left + width, tops[index] + tag_height)
        start = (boxes[0][2], (boxes[0][1] + boxes[0][3]) / 2)
        draw.line([start, (left, tops[index] + tag_height / 2)], fill=color, width=1)
        placed.append((place, text, color))
    for place, text, color in placed:
        _draw_tag(draw, place, text, color, size)
    return whole


def _tag_size(text: str, size: float) -> tuple[float, float]:
    return _font(size).getlength(text) + 6, size + 4


def _draw_tag(draw: ImageDraw.ImageDraw, place: Pixels, text: str, color: str, size: float) -> None:
    draw.rectangle(place, fill=color)
    ink = "white" if _luminance(color) < 0.26 else "black"
    middle = ((place[0] + place[2]) / 2, (place[1] + place[3]) / 2)
    draw.text(middle, text, fill=ink, font=_font(size), anchor="mm")


def _places(boxes: list[Pixels], width: float, height: float) -> list[Pixels]:
    """Where a tag could stand, the best first: on the box's upper edge, beside it, below, and further off."""
    places = []
    first, last = boxes[0], boxes[-1]
    for gap in (0.0, 5.0, 10.0):
        x0, y0, x1, _ = first
        places += [(x, y0 - gap - height) for x in (x0, x1 - width, x0 - width / 2)]
        places += [(last[2] + gap, (last[1] + last[3] - height) / 2), (x0 - gap - width, (y0 + first[3] - height) / 2)]
        places += [(x, last[3] + gap) for x in (last[0], last[2] - width)]
    for gap in (20.0, 35.0, 55.0, 80.0, 110.0):
        x0, y0, _, y1 = first
        places += [(last[2] + gap, (last[1] + last[3] - height) / 2), (x0 - gap - width, (y0 + y1 - height) / 2)]
        if gap < 60:
            places += [(x0, y0 - gap - height), (x0, last[3] + gap)]
    return [(x, y, x + width, y + height) for x, y in places]


class _Room:
    """How much of a page is taken where: printed pixels count a little, words, boxes and tags much."""

    def __init__(self, picture: Image.Image):
        self.taken = (np.asarray(picture.convert("L")) < _INK).astype(np.float32)

    def mark(self, place: Pixels, weight: float) -> None:
        """Count the area as taken."""
        x0, y0, x1, y1 = (max(0, round(edge)) for edge in place)
        self.taken[y0:y1, x0:x1] = np.maximum(self.taken[y0:y1, x0:x1], weight)

    def hidden(self, place: Pixels) -> float:
        """How much a tag there would hide, a mean over its area; infinite where it would leave the page."""
        x0, y0, x1, y1 = place
        height, width = self.taken.shape
        if x0 < 0 or y0 < 0 or x1 > width or y1 > height:
            return math.inf
        return float(self.taken[round(y0) : max(round(y1), round(y0) + 1), round(x0) : round(x1)].mean())


def _merge_lines(boxes: list[list[float]]) -> list[list[float]]:
    """Boxes of consecutive words merged as long as they stand in one line."""
    lines: list[list[float]] = []
    for box in boxes:
        x0, y0, x1, y1 = box
        if lines:
            line = lines[-1]
            overlap = min(y1, line[3]) - max(y0, line[1])
            height = min(y1 - y0, line[3] - line[1])
            apart = max(x0 - line[2], line[0] - x1)
            if overlap >= 0.5 * height and apart < 3 * max(height, 1e-6):
                lines[-1] = [min(x0, line[0]), min(y0, line[1]), max(x1, line[2]), max(y1, line[3])]
                continue
        lines.append(list(box))
    return lines


def _to_pixels(
    box: Sequence[float], scale: tuple[float, float], size: tuple[int, int], padding: float = _PADDING
) -> Pixels:
    x0, y0, x1, y1 = box[0] * scale[0], box[1] * scale[1], box[2] * scale[0], box[3] * scale[1]
    width, height = size
    return (
        max(x0 - padding, 0), max(y0 - padding, 0), min(x1 + padding, width - 1), min(y1 + padding, height - 1)
    )  # fmt: skip


def _touch(place: Pixels, boxes: list[Pixels]) -> bool:
    return any(
        place[0] <= box[2] + 3 and place[2] >= box[0] - 3 and place[1] <= box[3] + 3 and place[3] >= box[1] - 3
        for box in boxes
    )


def _nearest(place: Pixels, boxes: list[Pixels]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The shortest line from a tag to one of the boxes."""
    lines = []
    for box in boxes:
        start, end = [0.0, 0.0], [0.0, 0.0]
        for axis in (0, 1):
            low, high = max(place[axis], box[axis]), min(place[axis + 2], box[axis + 2])
            if low <= high:
                start[axis] = end[axis] = (low + high) / 2
            elif place[axis + 2] < box[axis]:
                start[axis], end[axis] = place[axis + 2], box[axis]
            else:
                start[axis], end[axis] = place[axis], box[axis + 2]
        lines.append((math.dist(start, end), (start[0], start[1]), (end[0], end[1])))
    _, start_point, end_point = min(lines)
    return start_point, end_point


def _add_legend(
    picture: Image.Image, document: Document, page: int, colors: dict[str, str], counts: Counter[str]
) -> Image.Image:
    """The picture with a strip below it: the labels' colours and how often each occurs, the file and the page."""
    font, leading, margin = _font(15), 26, 14
    entries: list[tuple[float, int, str, str]] = []
    x, row = float(margin), 0
    caption = f"Page {page + 1} of {document.num_pages}"
    if document.source:
        caption = f"{Path(document.source).name} - {caption}"
    for name, color in colors.items():
        text = f"{name} ({counts[name]})"
        width = 20 + font.getlength(text) + 22
        if x + width > picture.width - margin and x > margin:
            x, row = float(margin), row + 1
        entries.append((x, row, text, color))
        x += width
    if not entries:
        entries.append((margin, 0, "no fields found", "#bbbbbb"))
        x += 20 + font.getlength("no fields found") + 22
    if x + font.getlength(caption) > picture.width - margin:
        row += 1
    strip = (row + 1) * leading + 16
    whole = Image.new("RGB", (picture.width, picture.height + strip), "#f4f5f7")
    whole.paste(picture, (0, 0))
    draw = ImageDraw.Draw(whole)
    draw.line([(0, picture.height), (picture.width, picture.height)], fill="#9aa0a8", width=2)
    for left, line, text, color in entries:
        middle = picture.height + 8 + line * leading + leading / 2
        draw.rectangle((left, middle - 7, left + 14, middle + 7), fill=color)
        draw.text((left + 20, middle), text, fill="#222222", font=font, anchor="lm")
    middle = picture.height + 8 + row * leading + leading / 2
    draw.text((picture.width - margin, middle), caption, fill="#555555", font=font, anchor="rm")
    return whole


@lru_cache(maxsize=64)
def _font(size: float) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib and has Latin, Greek, Cyrillic and many symbols."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    red, green, blue = ((channel / 255) ** 2.2 for channel in _rgb(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
