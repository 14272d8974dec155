"""What people hand to a pipeline, as documents."""

import os
from collections.abc import Mapping
from typing import Any

from PIL import Image

from broadsheet.documents import Document, read_document, read_image
from broadsheet.tokenization.document_input import document_list
from broadsheet.tokenization.input_checks import InputError

FORMS = (
    "the path of a PDF, image, hOCR, ALTO or Tesseract TSV file, a Pillow image, a Document, or a dict with words and "
    "boxes"
)


def as_document(
    given: Any, ocr: str = "never", languages: str = "eng", password: str | None = None
) -> Document | dict[str, Any]:
    """
    A document in the form that processors take.

    Args:
        given: a path, a Pillow image (read by Tesseract, as `read_image` says), a `Document`, or a dict with `words`
            and `boxes`, and `page_ids` and `page_sizes` where there are some.
        ocr: which pages of a PDF file to read with Tesseract: "never", "empty_pages" or "always".
        languages: Tesseract's names for the languages of the text.
        password: opens an encrypted PDF file.

    Raises:
        InputError: for anything else, a dict with the words of several documents, or a file that cannot be read.
    """
    if isinstance(given, Document):
        return given
    if isinstance(given, Mapping):
        document = dict(given)
        if "words" not in document and "text" in document:
            document["words"] = document.pop("text")
        if "words" not in document:
            raise InputError(f"A dict with {', '.join(map(str, given)) or 'nothing'} is no document; pass {FORMS}.")
        kept = ("words", "boxes", "page_ids", "page_sizes", "segment_ids", "source")
        document = {key: document[key] for key in kept if document.get(key) is not None}
        rows, batched = document_list(document)
        if batched:
            raise InputError(
                f"A dict with a list of words for each of {len(rows)} documents is not one document; pass a list with "
                "a dict for each, as [dataset[0], dataset[1]], or the data set itself."
            )
        return document
    if isinstance(given, str | os.PathLike):
        return read_document(given, ocr=ocr, languages=languages, password=password)  # type: ignore[arg-type]
    if isinstance(given, Image.Image):
        return read_image(given, languages)
    raise InputError(f"{type(given).__name__} is no document; pass {FORMS}.")


def source_of(given: Any, document: Any = None) -> str | None:
    """The file that an input or its document came from, where it came from one."""
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    if document is None and isinstance(given, Mapping) and given.get("document") is not None:
        return source_of(given["document"])
    found = document.get("source") if isinstance(document, Mapping) else getattr(document, "source", None)
    return found or (given.get("source") if isinstance(given, Mapping) else getattr(given, "source", None))


def union_box(boxes: list[list[float]]) -> list[float] | None:
    """The smallest box around boxes; None around none."""
    if not boxes:
        return None
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return [min(x0), min(y0), max(x1), max(y1)]


def placed(found: Any) -> dict[str, Any]:
    """What an entity or an answer says of its place: page, box around its words on that page, words' boxes, words."""
    here = [box for box, page in zip(found.boxes, found.page_ids, strict=False) if page == found.page]
    return {"page": found.page, "box": union_box(here), "boxes": found.boxes, "words": found.word_ids}
