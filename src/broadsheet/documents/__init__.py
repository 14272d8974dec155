"""Documents: words, boxes and pages, and the readers that find them in files."""

import os
from collections.abc import Callable
from pathlib import Path

from broadsheet.documents.document import Document
from broadsheet.documents.pdf import read_pdf
from broadsheet.tokenization.input_checks import InputError

__all__ = ["Document", "InputError", "read_document", "read_pdf"]

_READERS: dict[str, Callable[..., Document]] = {
    ".pdf": read_pdf,
}


def read_document(path: str | os.PathLike[str]) -> Document:
    """
    Read a document with the reader that its suffix asks for.

    Raises:
        InputError: the suffix is unknown, or the reader refuses the file.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        known = ", ".join(sorted(_READERS))
        raise InputError(f"{path} has the suffix {suffix!r}, which no reader takes; convert it to one of: {known}.")
    return _READERS[suffix](path)
