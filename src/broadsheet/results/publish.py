"""
Write RESULTS.md from results/*.json, and the numbers that README and cards quote from them.

    broadsheet results
    broadsheet results --check      change nothing; status 1 where something is out of date
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from broadsheet.results.markdown import render_results
from broadsheet.results.quotes import fill_quotes
from broadsheet.results.record import checkout_root, read_records
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.runs import write_text


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line; None for the process' own arguments.

    Returns:
        With --check, 1 where a file is out of date; else 0.

    Raises:
        InputError: outside a checkout, or for a broken record or quote.
    """
    parser = argparse.ArgumentParser(
        prog="broadsheet results", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing, say what is out of date")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else list(argv))
    root = checkout_root()
    if root is None:
        raise InputError("RESULTS.md belongs to a checkout; clone the repository and run pip install -e . in it.")
    changed = out_of_date(root)
    for path, text in changed.items():
        print(f"{path.relative_to(root)} {'is out of date' if arguments.check else 'written'}")
        if not arguments.check:
            write_text(str(path), text)
    return int(arguments.check and bool(changed))


def out_of_date(root: Path) -> dict[Path, str]:
    """The files that differ from what the records say, with the text they should have."""
    folder = root / "results"
    wanted = {root / "RESULTS.md": render_results(read_records(folder))}
    for path in [root / "README.md", *sorted((root / "model_cards").glob("*.md"))]:
        if path.is_file():
            wanted[path] = fill_quotes(path.read_text(encoding="utf-8"), folder)
    return {path: text for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"Error: {error}")
