from pathlib import Path

import pytest
from benchmarks import command, gate
from benchmarks.command import main

from broadsheet import bench
from broadsheet.results.record import read_record
from broadsheet.tokenization.input_checks import InputError


def test_quick_run_writes_a_record_without_verdicts(tmp_path: Path) -> None:
    name = "skimformer-inference-512-dropout-0"
    assert bench.main([name, "--quick", "--skip-tests", "--output", str(tmp_path)]) == 0
    record = read_record(tmp_path / f"{name}.json")
    assert record.kind == "benchmark"
    assert record.budget["quick"] is True
    assert record.measurements["promises"] == []
    results = record.measurements["lengths"]["8"]
    assert set(results) == {"layoutlm", "skimformer", "skimformer+contextualizer"}
    assert all(result["products"]["gflop"] > 0 for result in results.values())
    # Two tiny layers: one attention where LayoutLM has two.
    assert results["layoutlm"]["attention"]["products"] == 1
    assert results["skimformer"]["attention"]["formula"] == 0.5
    assert (tmp_path / record.figures[0]).is_file()


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "layoutlm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all", "--skip-tests"], "only behind green tests"),
        (["nonsense", "--quick"], "no benchmark nonsense"),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().out


def test_red_tests_refuse_the_report(tmp_path: Path) -> None:
    (tmp_path / "test_red.py").write_text("def test_red():\n    assert False\n")
    (tmp_path / "test_green.py").write_text("def test_green():\n    assert True\n")
    gate.require_green([str(tmp_path / "test_green.py")])
    with pytest.raises(InputError, match="not green"):
        gate.require_green([str(tmp_path / "test_red.py")])


def test_tests_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(tests: list[str]) -> None:
        asked.extend(tests)
        raise InputError("red")

    monkeypatch.setattr(command, "require_green", refuse)
    assert main(["skimformer-inference-512-dropout-0", "--output", str(tmp_path)]) == 2
    assert asked == ["tests/family", "tests/modeling"]
    assert not list(tmp_path.iterdir())


def test_installed_from_a_wheel_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "checkout_root", lambda: None)
    with pytest.raises(InputError, match="clone the repository"):
        bench.main(["--list"])
