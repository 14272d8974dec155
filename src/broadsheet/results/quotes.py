"""
Numbers in README and cards, quoted from records.

`<!-- result NAME PATH FORMAT -->0.61<!-- /result -->` shows what `results/NAME.json` has at PATH, in Python's FORMAT;
`broadsheet results` writes the number, and a test compares.
"""

import json
import re
from pathlib import Path

from broadsheet.results.assembling import look_up
from broadsheet.tokenization.input_checks import InputError

QUOTE = re.compile(r"(<!-- result (\S+) (\S+) (\S+) -->).*?(<!-- /result -->)", re.DOTALL)


def fill_quotes(text: str, folder: Path) -> str:
    """
    The text with every quoted number as the records have it.

    Raises:
        InputError: for a record or a path that is not there.
    """

    def fill(match: re.Match[str]) -> str:
        start, name, path, style, end = match.groups()
        file = folder / f"{name}.json"
        if not file.is_file():
            raise InputError(f"{match[1]} quotes {file}, which is not there; measure it or correct the name.")
        value = look_up(json.loads(file.read_text(encoding="utf-8")), path)
        return f"{start}{format(value, style)}{end}"

    return QUOTE.sub(fill, text)
