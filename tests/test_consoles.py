"""Text of documents, paths and messages is printed as it stands."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table

from broadsheet import cli
from broadsheet.consoles import make_console, print_error
from broadsheet.documents import Document

TEXTS = ["[x] box", "[/S/ Doe]", 'pip install "broadsheet[ocr]"', ":smile: 1,250.00"]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("text", TEXTS)
def test_fields(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = Document(["a"], [[0.0, 0.0, 9.0, 9.0]], [0], [(10.0, 10.0)])
    cli.print_fields(Path(f"{text}.pdf"), document, [SimpleNamespace(label="[b]", text=text, page=0, score=0.5)])
    printed = capsys.readouterr().out
    assert printed.count(text) == 2
    assert "[b]" in printed


@pytest.mark.parametrize("text", TEXTS)
def test_titles_headings_and_captions(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(Table(text, title=text, caption=text))
    assert capsys.readouterr().out.count(text) == 3


@pytest.mark.parametrize("text", TEXTS)
def test_errors(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_error(ValueError(text))
    assert capsys.readouterr().err == f"error: {text}\n"
    with pytest.raises(SystemExit):
        cli.main(["graph", f"{text}.docx"])
    assert f"{text}.docx has the suffix" in capsys.readouterr().err
