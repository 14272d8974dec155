"""What the commands print on."""

from typing import Any

from rich.console import Console


def make_console(**options: Any) -> Console:
    """A console, with options of Rich's; it prints text as it is: brackets and colons may stand in a document."""
    return Console(markup=False, emoji=False, highlight=False, **options)


def print_error(error: Exception) -> None:
    """Print the sentence of an error on standard error."""
    make_console(stderr=True).print(f"error: {error}", style="red", soft_wrap=True)
