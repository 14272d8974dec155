"""Documents, processors and strategies that the tests of this folder share."""

from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.tokenizers import KINDS, tiny_tokenizer

from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

ODD_WORDS = [
    *["", " ", "\u00ad", "\u200b", "日本語文書", "😀👩‍👩‍👧", "e\u0301", "\u0301", "ﬁ"],
    *["a" * 1000, "-", "Überweisung", "\t", "\x00"],
]

words = st.one_of(
    st.sampled_from(["Invoice", "number", "total", "amount", "due", "$1,234.56", "quickly", "agreement"]),
    st.sampled_from(ODD_WORDS),
    st.text(max_size=12),
)
kinds = st.sampled_from(KINDS)


@cache
def shared_processor(kind: str, **options: Any) -> SkimformerProcessor:
    """A processor that tests do not change."""
    return make_processor(kind, **options)


def make_processor(kind: str = "wordpiece", **options: Any) -> SkimformerProcessor:
    names = ("subword_boxes", "only_label_first_subword", "id2label")
    own = {key: options.pop(key) for key in names if key in options}
    if "id2label" in own and not isinstance(own["id2label"], dict):
        own["id2label"] = dict(enumerate(own["id2label"]))
    return SkimformerProcessor(tiny_tokenizer(kind, **options), **own)


def make_document(texts: list[str], pages: int = 1) -> dict[str, Any]:
    """Words set one after the other in lines of ten, spread over pages of 600 x 800."""
    corners = [(20 + 55 * (i % 10), 20 + 15 * (i // 10 % 50)) for i in range(len(texts))]
    boxes = [[x, y, x + 50, y + 12] for x, y in corners]
    page_ids = [i * pages // len(texts) for i in range(len(texts))]
    return {"words": texts, "boxes": boxes, "page_ids": page_ids, "page_sizes": [(600, 800)] * pages}


def one_hot_logits(batch: Any, word_labels: list[list[int]], num_labels: int) -> np.ndarray:
    """Logits `[W, N, num_labels]` that give every sub-word its word's label."""
    word_ids = np.asarray(batch["token_word_ids"])
    logits = np.zeros((*word_ids.shape, num_labels), dtype=np.float32)
    for window, sample in enumerate(np.asarray(batch["overflow_to_sample_mapping"])):
        for place in np.flatnonzero(word_ids[window] >= 0):
            logits[window, place, word_labels[sample][word_ids[window, place]]] = 10.0
    return logits
