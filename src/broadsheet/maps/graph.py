"""The beta-skeleton of a document's words, and what FormNet's heads attend to from one word, drawn on the page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from transformers import AutoConfig, AutoModel, AutoProcessor

from broadsheet.documents import Document
from broadsheet.maps.picture import SELECTED_COLOR, percent, tint_words
from broadsheet.registration import MODELS
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.token_graph import word_graph
from broadsheet.visualization import page_font, render_pages

EDGE_COLOR, CUT_COLOR, NODE_COLOR = "#0072B2", "#D55E00", "#333333"
STRIP = 34  # pixels of the legend below a page
# Pages of more heads than this are drawn smaller, at this share of their size.
FULL_SIZE_HEADS, SMALL_SHARE = 4, 0.6
LONGEST_WINDOW = 1024  # tokens


@dataclass(frozen=True)
class DocumentGraph:
    """
    The graph of a document's words.

    Attributes:
        edges: `[E, 2]`, the beta-skeleton of each page.
        neighbors: `[words, 8]`, the edges that each word keeps, -1 for none.
    """

    edges: np.ndarray
    neighbors: np.ndarray

    def kept(self) -> np.ndarray:
        """Bool `[E]`: the edges that one of their ends keeps at least."""
        first, second = self.edges.T
        return (self.neighbors[first] == second[:, None]).any(1) | (self.neighbors[second] == first[:, None]).any(1)

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "edges": self.edges.tolist(),
            "neighbors": [row[row >= 0].tolist() for row in self.neighbors],
            "most_edges_of_a_word": int(np.bincount(self.edges.ravel(), minlength=1).max()),
            "cut": int((~self.kept()).sum()),
        }


def document_graph(document: Document) -> DocumentGraph:
    """The graph over the words of each page, in the unit of the page."""
    boxes = np.asarray(document.boxes, dtype=np.float64).reshape(-1, 4)
    return DocumentGraph(*word_graph(boxes, np.asarray(document.page_ids)))


def draw_graph(
    document: Document, graph: DocumentGraph, pages: Sequence[int] | None = None, password: str | None = None
) -> list[Image.Image]:
    """
    Draw the graph on the page, as in Figure 6 of the paper: edges between the centres of words, those that the cap of
    eight neighbours takes away in orange.

    Returns:
        One RGB picture per page, its `info` telling the `page` (from 0) and `num_pages`.
    """
    chosen = list(range(document.num_pages)) if pages is None else list(pages)
    kept = graph.kept()
    pictures = []
    for page, picture in zip(chosen, _pale_pages(document, chosen, password), strict=True):
        draw = ImageDraw.Draw(picture)
        centers = _centers(document, page, picture)
        words = document.word_ids_of_page(page)
        on_page = np.isin(graph.edges[:, 0], words)
        for (first, second), stays in zip(graph.edges[on_page].tolist(), kept[on_page], strict=True):
            draw.line([centers[first], centers[second]], fill=EDGE_COLOR if stays else CUT_COLOR, width=2)
        for word in words:
            x, y = centers[word]
            draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=NODE_COLOR)
        caption = f"beta-skeleton: {len(words)} words, {int(on_page.sum())} edges"
        if not kept[on_page].all():
            caption += f", {int((~kept[on_page]).sum())} beyond the eight of a word (orange)"
        pictures.append(_with_caption(picture, caption, page, document))
    return pictures


class HeadMapper:
    """
    What each head of a FormNet attends to from one word.

    Args:
        model: the base model, or one with a head.
        processor: its processor.
    """

    def __init__(self, model: Any, processor: Any):
        self.model = model.base_model.eval()
        self.processor = processor

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str]) -> "HeadMapper":
        """
        Load model and processor from a folder or a repository of the Hub.

        Raises:
            InputError: there is no FormNet.
        """
        try:
            config = AutoConfig.from_pretrained(path)
            if config.model_type != "formnet":
                raise InputError(f"{path} is a '{config.model_type}'; the heads of a formnet are drawn, name one.")
            named = [
                each for each in MODELS["formnet"].models.values() if each.__name__ in (config.architectures or [])
            ]
            model = (named[0] if named else AutoModel).from_pretrained(path)  # type: ignore[attr-defined]
            return cls(model, AutoProcessor.from_pretrained(path))
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(f"The model {path} cannot be loaded: {error}") from error

    @torch.inference_mode()
    def __call__(self, document: Document, word: int, layer: int = -1) -> np.ndarray:
        """
        The attention from a word's first sub-word to all words that its window shows.

        Args:
            document: the document.
            word: the word's index.
            layer: the layer, from 0; -1 for the last.

        Returns:
            `[heads, words]`, a word's sub-words summed; NaN where the window does not show a word.

        Raises:
            InputError: there is no such word or layer.
        """
        layers = self.model.config.num_hidden_layers
        if not 0 <= word < len(document):
            raise InputError(f"There is no word {word} in a document of {len(document)} words, counted from 0.")
        if not -layers <= layer < layers:
            raise InputError(f"There is no layer {layer} in a model of {layers} layers, counted from 0.")
        batch = self.processor(
            documents=document,
            truncation=True,
            max_length=LONGEST_WINDOW,
            stride=LONGEST_WINDOW // 2,
            padding=True,
            return_overflowing_tokens=True,
            return_word_ids=True,
            clip_boxes=True,
            return_tensors="pt",
        )
        word_ids = batch["token_word_ids"].numpy()
        first = (word_ids == word) & (batch["token_subword_ids"].numpy() == 0)
        # The window in which it stands farthest from both ends.
        windows, places = np.nonzero(first)
        ends = (word_ids >= 0).sum(axis=1)
        best = int(np.minimum(places, ends[windows] - 1 - places).argmax())
        window, place = int(windows[best]), int(places[best])
        inputs = {name: tensor[window : window + 1] for name, tensor in batch.model_inputs.items()}
        attention = self.model(**inputs, output_attentions=True).attentions[layer][0, :, place].float().numpy()
        ids = word_ids[window]
        seen = np.flatnonzero(ids >= 0)
        words = np.full((attention.shape[0], len(document)), np.nan)
        words[:, np.unique(ids[seen])] = 0
        for head in range(attention.shape[0]):
            np.add.at(words[head], ids[seen], attention[head, seen])
        return words


def draw_heads(document: Document, word: int, attention: np.ndarray, password: str | None = None) -> list[Image.Image]:
    """
    Draw the attention of a word on its page, head by head, as in Figures 9 and 12 of the paper: words tinted by what
    they get, the word itself outlined in blue.

    Args:
        document: the document.
        word: the word's index.
        attention: `[heads, words]`, as `HeadMapper` returns it.
        password: opens an encrypted source.

    Returns:
        One RGB picture of the page per head, its `info` telling the `head` and the `page` (from 0). In each the
        darkest colour is the head's highest attention.
    """
    page = document.page_ids[word]
    original = render_pages(document, [page], password)[0]
    if len(attention) > FULL_SIZE_HEADS:
        size = (round(original.width * SMALL_SHARE), round(original.height * SMALL_SHARE))
        original = original.resize(size, Image.Resampling.LANCZOS)
    pictures = []
    for head, row in enumerate(attention):
        highest = float(np.nanmax(row))
        # What is out of reach stays white.
        picture = tint_words(original, document, np.where(row > 0, row, np.nan), page, highest or 1.0)
        x0, y0, x1, y1 = _pixels(document, word, picture)
        ImageDraw.Draw(picture).rectangle((x0 - 2, y0 - 2, x1 + 2, y1 + 2), outline=SELECTED_COLOR, width=2)
        rest = max(0.0, 1 - float(np.nansum(row)))
        caption = (
            f"head {head}, from “{document.words[word]}”: {percent(highest)} at most, global token {percent(rest)}"
        )
        picture = _with_caption(picture, caption, page, document)
        picture.info = {"page": page, "num_pages": document.num_pages, "head": head}
        pictures.append(picture)
    return pictures


def _pale_pages(document: Document, pages: Sequence[int], password: str | None) -> list[Image.Image]:
    """The pages with their print in grey, so that what is drawn on them stands out."""
    return [
        Image.blend(picture, Image.new("RGB", picture.size, "white"), 0.5)
        for picture in render_pages(document, pages, password)
    ]


def _pixels(document: Document, word: int, picture: Image.Image) -> tuple[float, float, float, float]:
    width, height = document.page_sizes[document.page_ids[word]]
    x, y = picture.width / width, picture.height / height
    x0, y0, x1, y1 = document.boxes[word]
    return x0 * x, y0 * y, x1 * x, y1 * y


def _centers(document: Document, page: int, picture: Image.Image) -> dict[int, tuple[float, float]]:
    boxes = {word: _pixels(document, word, picture) for word in document.word_ids_of_page(page)}
    return {word: ((x0 + x1) / 2, (y0 + y1) / 2) for word, (x0, y0, x1, y1) in boxes.items()}


def _with_caption(picture: Image.Image, caption: str, page: int, document: Document) -> Image.Image:
    whole = Image.new("RGB", (picture.width, picture.height + STRIP), "#f4f5f7")
    whole.paste(picture, (0, 0))
    draw = ImageDraw.Draw(whole)
    text = f"{caption}; page {page + 1} of {document.num_pages}"
    draw.text((14, picture.height + STRIP / 2), text, fill="#222222", font=page_font(16), anchor="lm")
    whole.info = {"page": page, "num_pages": document.num_pages}
    return whole
