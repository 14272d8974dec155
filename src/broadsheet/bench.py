"""`broadsheet bench`: the benchmarks of a checkout. They are no part of the installed package."""

import sys
from collections.abc import Sequence

from broadsheet.results.record import checkout_root
from broadsheet.tokenization.input_checks import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run `benchmarks` of the checkout that this package is imported from; see `broadsheet bench --help`.

    Returns:
        The exit status: 1 where a promise does not hold.

    Raises:
        InputError: where there is no checkout.
    """
    root = checkout_root()
    if root is None:
        raise InputError(
            "The benchmarks are not part of the installed package; clone the repository, run pip install -e . in it, "
            "and then broadsheet bench."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    from benchmarks.command import main as run

    return run(argv)
