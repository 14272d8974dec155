"""Files of text, read whole and decoded, with faults told in a sentence."""

import codecs
import logging
import re
from pathlib import Path

from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# <?xml version="1.0" encoding="..."?>, <meta charset="...">, <meta http-equiv=... content="text/html; charset=...">
_DECLARED_ENCODING = re.compile(rb"""(?:<\?xml[^>]*\bencoding|<meta[^>]*\bcharset)\s*=\s*["']?\s*([\w.:-]+)""", re.I)


def check_is_file(path: Path, what: str) -> None:
    """Raise `InputError` where `path` is no file; `what` is what should stand there, as in "one hOCR file"."""
    if not path.exists():
        raise InputError(f"There is no file {path}; check the path.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass the path of {what}.")


def read_bytes(path: Path, what: str) -> bytes:
    """The bytes of a file that must have some; `InputError` where it is missing, a folder, unreadable or empty."""
    check_is_file(path, what)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its permissions.") from None
    if not data.strip():
        raise InputError(f"{path} is empty; get a fresh copy of it.")
    return data


def decode(data: bytes, path: Path) -> str:
    """
    The text of a file, in the encoding of its byte order mark, or the one that it declares, or UTF-8.

    A file that declares no encoding and is no UTF-8 is read as Windows-1252, as browsers do, and a warning says so.

    Raises:
        InputError: the file is binary, names an unknown encoding, or does not keep to the one that it names.
    """
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), None)
    if encoding is None:
        if b"\0" in data:
            raise InputError(f"{path} is not a text file (it has zero bytes); check that it is the right file.")
        declared = _DECLARED_ENCODING.search(data, 0, 4096)
        encoding = declared.group(1).decode("ascii") if declared else None
    try:
        return data.decode(encoding or "utf-8")
    except LookupError:
        raise InputError(f"{path} names the encoding {encoding!r}, which is unknown; save it as UTF-8.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        if encoding is not None:
            raise InputError(
                f"Line {line} of {path} is not in the file's encoding, {encoding}; save the file as UTF-8."
            ) from None
        logger.warning(
            "%s is not in UTF-8 (line %d) and names no encoding; it was read as Windows-1252: check its letters.",
            path,
            line,
        )
        return data.decode("cp1252", errors="replace")
