"""RESULTS.md and quoted numbers are what the records say."""

from pathlib import Path

import pytest

from broadsheet.results import publish
from broadsheet.results.environment import describe_environment
from broadsheet.results.markdown import render_results, render_table
from broadsheet.results.quotes import fill_quotes
from broadsheet.results.record import Record, ResultTable, read_record, write_record
from broadsheet.tokenization.input_checks import InputError

ROOT = Path(__file__).resolve().parents[2]


def record(name: str = "speed") -> Record:
    return Record(
        name=name,
        title="Speed of something",
        kind="benchmark",
        command="broadsheet bench something",
        date="2031-01-02",
        data=None,
        budget={"repetitions": 3},
        seeds=[1],
        environment=describe_environment(),
        measurements={"ratio": {"values": [0.5, 0.25]}},
        tables=[ResultTable("A caption.", ["name", "a|b"], [["one", "1.0"]])],
        notes=["A note."],
        figures=["speed.png"],
    )


def test_results_md_of_this_checkout_is_up_to_date() -> None:
    stale = [str(path.relative_to(ROOT)) for path in publish.out_of_date(ROOT)]
    assert stale == [], "run: broadsheet results"


def test_record_survives_writing(tmp_path: Path) -> None:
    assert read_record(write_record(tmp_path, record())) == record()
    assert [path.name for path in tmp_path.iterdir()] == ["speed.json"]


def test_markdown_says_what_was_measured_how_and_on_what() -> None:
    text = render_results([record()])
    for part in ("## Speed of something", "`broadsheet bench something`", "A caption.", "| one | 1.0 |", "A note."):
        assert part in text
    for part in ("2031-01-02", "(results/speed.png)", record().environment["torch"], "threads"):
        assert part in text
    assert render_table(record().tables[0]).splitlines()[:2] == ["| name | a\\|b |", "| --- | ---: |"]


def test_quotes(tmp_path: Path) -> None:
    write_record(tmp_path, record())
    text = "It takes <!-- result speed measurements.ratio.values.1 .3f -->9<!-- /result --> of the time."
    filled = "It takes <!-- result speed measurements.ratio.values.1 .3f -->0.250<!-- /result --> of the time."
    assert fill_quotes(text, tmp_path) == filled
    assert fill_quotes(filled, tmp_path) == filled
    with pytest.raises(InputError, match="other.json, which is not there"):
        fill_quotes(text.replace("speed", "other"), tmp_path)
    with pytest.raises(InputError, match=r"no measurements\.ratio\.values\.7"):
        fill_quotes(text.replace("values.1", "values.7"), tmp_path)


def test_command_writes_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "checkout_root", lambda: tmp_path)
    write_record(tmp_path / "results", record())
    readme = tmp_path / "README.md"
    readme.write_text("<!-- result speed measurements.ratio.values.0 .0% -->?<!-- /result -->")
    assert publish.main(["--check"]) == 1
    assert not (tmp_path / "RESULTS.md").exists()
    assert publish.main([]) == 0
    assert "50%" in readme.read_text()
    assert "Speed of something" in (tmp_path / "RESULTS.md").read_text()
    assert publish.main(["--check"]) == 0


def test_broken_records_and_bad_names(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"name": "x"')
    with pytest.raises(InputError, match=r"broken\.json is no record"):
        read_record(tmp_path / "broken.json")
    with pytest.raises(InputError, match="no name for a result"):
        write_record(tmp_path, record("../elsewhere"))
