"""Tables from recipes, with a training command that takes no time."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from broadsheet.results.assembling import describe_data
from broadsheet.results.record import read_record
from broadsheet.results.reproduce import main
from broadsheet.results.running import command_of, in_order
from broadsheet.results.table_recipe import read_table, shipped_tables
from broadsheet.tokenization.input_checks import InputError

COMMAND = """
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("recipe", nargs="?")
for name in ("--width", "--seed", "--data_dir", "--config_overrides", "--output_dir", "--resume"):
    parser.add_argument(name, nargs="+" if name == "--data_dir" else None)
given = parser.parse_args()
folder = pathlib.Path(given.output_dir)
folder.mkdir(parents=True, exist_ok=True)
with open(folder / "calls", "a") as stream:
    stream.write("call\\n")
if (pathlib.Path(__file__).parent / "broken").exists() and given.seed == "2":
    print("the disk is full")
    sys.exit(3)
overrides = json.loads(given.config_overrides or "{}")
score = float(given.width) + float(given.seed) / 10 + overrides.get("bonus", 0)
results = {
    "metrics": {"test": {"perplexity": score}},
    "curve": [[step, score + 10 - step] for step in (1, 2)],
    "data": {"folders": given.data_dir},
    "budget": {"steps": 2},
}
(folder / "results.json").write_text(json.dumps(results))
"""

RECIPE = {
    "title": "A table",
    "paper": "A paper, Table 1",
    "module": "quick_command",
    "columns": {"perplexity": {"path": "metrics.test.perplexity", "digits": 1}},
    "curve": {"path": "curve", "x": "steps", "y": "perplexity"},
    "args": {"width": 4, "config_overrides": {"bonus": 0.5}},
    "rows": {
        "narrow": {"title": "Narrow", "paper": {"perplexity": 4.2}},
        "wide": {"title": "Wide", "args": {"width": 8, "config_overrides": {"other": 1}}},
    },
    "scales": {
        "small": {"seeds": [1, 2, 3], "args": {"data_dir": ["${data}/a", "${data}/b"]}, "note": "Small data."},
        "paper": {"seeds": [1], "args": {"config_overrides": {"bonus": 0}}},
    },
}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "quick_command.py").write_text(COMMAND)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("BROADSHEET_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a_table.yaml"
    path.write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    return path


def arguments(recipe: Path, *more: str) -> list[str]:
    return [str(recipe), "--data", "/d", "--output", "out", *more]


def calls() -> list[int]:
    return [len(path.read_text().splitlines()) for path in sorted(Path("runs").glob("*/calls"))]


def test_table_with_means_intervals_and_the_papers_numbers(recipe: Path) -> None:
    assert main(arguments(recipe)) == 0
    record = read_record(Path("out/a_table-small.json"))
    table = record.tables[0]
    assert table.columns == ["", "perplexity", "perplexity, paper"]
    # 4.6, 4.7, 4.8 and 8.6, 8.7, 8.8: t(0.975, 2) = 4.303, standard error 0.0577
    assert table.rows == [["Narrow", "4.7 (4.5 to 4.9)", "4.2"], ["Wide", "8.7 (8.5 to 8.9)", ""]]
    narrow = record.measurements["rows"]["narrow"]
    assert narrow["seeds"] == [1, 2, 3]
    assert narrow["columns"]["perplexity"]["values"] == pytest.approx([4.6, 4.7, 4.8])
    assert narrow["columns"]["perplexity"]["interval"] == pytest.approx([4.7 - 0.2484, 4.7 + 0.2484], abs=1e-4)
    assert narrow["curve"] == [pytest.approx([1, 13.7, 13.6, 13.8]), pytest.approx([2, 12.7, 12.6, 12.8])]
    assert record.data == {"folders": ["/d/a", "/d/b"]}
    assert record.notes == ["Small data."]
    assert (Path("out") / record.figures[0]).is_file()


def test_titles_are_printed_as_they_stand(
    recipe: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rows = {"[/narrow]": {**RECIPE["rows"]["narrow"], "title": "[x] Narrow :smile:"}}
    recipe.write_text(yaml.safe_dump({**RECIPE, "title": "A table [of rows]", "rows": rows}))
    assert main(arguments(recipe)) == 0
    printed = capsys.readouterr().out
    for text in ("A table [of rows]", "[x] Narrow :smile:", "[/narrow], seed 1: done"):
        assert text in printed
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{name}: " in printed for name in shipped_tables())
    assert "[bold]" not in printed


def test_finished_runs_are_not_run_again(recipe: Path) -> None:
    main(arguments(recipe))
    main(arguments(recipe))
    assert calls() == [1] * 6
    main(arguments(recipe, "--again"))
    assert calls() == [1] * 6  # in new folders
    changed = {**RECIPE, "rows": {**RECIPE["rows"], "wide": {"args": {"width": 9}}}}
    recipe.write_text(yaml.safe_dump(changed))
    main(arguments(recipe))
    assert calls() == [1] * 9  # the changed row's alone


def test_failure_names_the_run_and_what_is_done_stays(recipe: Path) -> None:
    (recipe.parent / "broken").touch()
    with pytest.raises(InputError, match=r"row narrow, seed 2, ended with status 3[\s\S]*the disk is full"):
        main(arguments(recipe))
    assert not Path("out").exists()
    (recipe.parent / "broken").unlink()
    assert main(arguments(recipe)) == 0
    assert calls() == [1] * 6


def test_interrupted_run_goes_on_where_the_recipe_says_how(recipe: Path) -> None:
    (recipe.parent / "broken").touch()
    recipe.write_text(yaml.safe_dump({**RECIPE, "resume": {"resume": "auto"}}))
    with pytest.raises(InputError):
        main(arguments(recipe))
    (recipe.parent / "broken").unlink()
    main(arguments(recipe))
    assert sorted(calls()) == [1, 1, 1, 1, 1, 2]  # what it left was there
    table = read_table(str(recipe))
    assert "--resume auto" in " ".join(command_of(table.runs("small", "/d")[0], Path("runs")))


def test_rows_start_from_what_parts_and_other_tables_wrote(recipe: Path) -> None:
    (recipe.parent / "quick_part.py").write_text(
        "import pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[sys.argv.index('--output_dir') + 1])\n"
        "folder.mkdir(parents=True)\n"
        "(folder / 'given').write_text(' '.join(sys.argv))\n"
    )
    parts = {
        "of_each_seed": {"module": "quick_part", "args": {"data": "${data}/c"}},
        "of_one_seed": {"module": "quick_part", "args": {"on": "${run:of_each_seed}"}, "seed": 7},
    }
    later = {
        **RECIPE,
        "rows": {
            "from_part": {"args": {"recipe_of": None, "data_dir": ["${run:of_each_seed}", "${run:of_one_seed}"]}},
            "from_row": {"args": {"data_dir": ["${run:a_table/narrow}"]}},
        },
        "scales": {"small": {"seeds": [1, 2], "parts": parts}},
    }
    path = recipe.parent / "later_table.yaml"
    path.write_text(yaml.safe_dump(later, sort_keys=False))
    with pytest.raises(InputError, match="no table a_table"):
        main(arguments(path))
    del later["rows"]["from_row"]
    path.write_text(yaml.safe_dump(later, sort_keys=False))
    table = read_table(str(path))
    runs = in_order(table.runs("small", "/d"))
    # the part of one seed needs the other part with that seed
    assert [(run.row, run.seed) for run in runs] == [
        ("of_each_seed", 1),
        ("of_each_seed", 7),
        ("of_one_seed", 7),
        ("from_part", 1),
        ("of_each_seed", 2),
        ("from_part", 2),
    ]
    assert main(arguments(path)) == 0
    folders = {(run.row, run.seed): Path("runs") / run.identity for run in runs}
    assert "--data /d/c --seed 1" in (folders["of_each_seed", 1] / "given").read_text()
    assert str(folders["of_each_seed", 7]) in (folders["of_one_seed", 7] / "given").read_text()
    record = read_record(Path("out/later_table-small.json"))
    assert record.data == {"folders": [str(folders["of_each_seed", 1]), str(folders["of_one_seed", 7])]}
    # A change of what a run starts from is a change of the run.
    parts["of_each_seed"]["args"]["more"] = 1
    path.write_text(yaml.safe_dump(later, sort_keys=False))
    changed = in_order(read_table(str(path)).runs("small", "/d"))
    assert not {run.identity for run in changed} & {run.identity for run in runs}


def test_one_seed_has_no_interval(recipe: Path) -> None:
    assert main([str(recipe), "--scale", "paper", "--output", "out"]) == 0
    table = read_record(Path("out/a_table-paper.json")).tables[0]
    assert [row[1] for row in table.rows] == ["4.1", "8.1"]
    assert "one seed" in table.caption


def test_dry_run_prints_the_commands(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(recipe, "--dry-run")) == 0
    printed = capsys.readouterr().out
    assert printed.count("-m quick_command") == 6
    assert "--data_dir /d/a /d/b" in printed
    assert json.dumps({"bonus": 0.5, "other": 1}) in printed
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {"perplexity": {"path": "metrics.nowhere"}}}, "no metrics.nowhere"),
        ({"titel": "x"}, "unknown key titel"),
        ({"rows": {"one": {"paper": {"f1": 1}}}}, "no column f1"),
        ({"scales": {"small": {"seeds": []}}}, "no seeds in scale small"),
        ({"scales": {"paper": {"seeds": [1]}}}, "no scale small"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_faulty_recipes(recipe: Path, change: dict, message: str) -> None:
    recipe.write_text(yaml.safe_dump({**RECIPE, **change}))
    with pytest.raises(InputError, match=message):
        main(arguments(recipe))


def test_missing_table_and_missing_data(recipe: Path) -> None:
    with pytest.raises(InputError, match="no table nonsense; choose from .*skim_ablation"):
        main(["nonsense"])
    with pytest.raises(InputError, match="--data"):
        main([str(recipe)])


@pytest.mark.parametrize("name", shipped_tables())
def test_shipped_table_gives_flags_that_the_command_knows(name: str) -> None:
    from broadsheet.training.arguments import ModelArguments, parse
    from broadsheet.training.pretraining_arguments import CorpusArguments, PretrainingArguments, PretrainingSchedule

    table = read_table(name)
    for scale in table.scales:
        runs = table.runs(scale, "/data")
        assert len({run.identity for run in runs}) == len(runs)
        if table.module == "broadsheet.training.pretrain":
            for run in runs:
                kinds = [PretrainingArguments, CorpusArguments, ModelArguments, PretrainingSchedule]
                flags = [*run.arguments, "--output_dir", "out"]
                parsed = parse(kinds, flags, "broadsheet pretrain", "")
                assert parsed[-1].seed == run.seed


def test_tables_share_runs() -> None:
    ablation, models = (
        {run.row: run.identity for run in read_table(name).runs("small", "/data")}
        for name in ("skim_ablation", "skim_models")
    )
    assert ablation["layout"] == models["skimformer"]
    assert ablation["contextualized"] == models["skimformer_contextualized"]


def test_formnets_are_pretrained_once_for_both_datasets() -> None:
    forms, receipts = (read_table(f"formnet_pretrained_{name}").runs("small", "/data") for name in ("funsd", "cord"))
    starts = [{need.identity for run in runs for need in run.needs} for runs in (forms, receipts)]
    assert starts[0] == starts[1]
    assert len(starts[0]) == 5
    # A row starts from its own variant.
    pretrained = {run.row: run.needs[0].row for run in forms}
    assert all(pretrained[row] == f"pretrained-{row}" for row in ("etc", "rich", "gcn", "both", "heavy"))


@pytest.mark.parametrize("name", ["ablation_funsd", "ablation_cord", "pretrained_funsd", "pretrained_cord"])
def test_formnets_of_the_small_scale_are_small(name: str) -> None:
    """A flag takes the place of what the recipe says as a whole: every new model is told all its sizes."""
    runs = read_table(f"formnet_{name}").runs("small", "/data")
    built = 0
    for run in {each.identity: each for whole in runs for each in (whole, *whole.needs)}.values():
        if "--model_name_or_path" in run.arguments:
            assert "--config_overrides" not in run.arguments
            continue
        settings = json.loads(run.arguments[run.arguments.index("--config_overrides") + 1])
        assert settings["hidden_size"] == (192 if "heavy" in run.row else 128)
        assert settings["num_hidden_layers"] == settings["num_graph_layers"] == 3
        built += 1
    assert built == (18 if name.startswith("ablation") else 8)


def test_the_note_names_what_the_runs_data_differ_in() -> None:
    def rows(*data: dict[str, Any]) -> dict[str, Any]:
        return {str(index): {"runs": [{"data": each}]} for index, each in enumerate(data)}

    def made(length: int, documents: int) -> dict[str, Any]:
        return {
            "max_length": length,
            "splits": {"train": {"documents": documents, "words": 9, "windows": 99 // length}},
        }

    assert describe_data(rows(made(8, 3), made(8, 3)))[1] == []
    assert describe_data(rows(made(8, 3), made(16, 3)))[1] == [
        "The runs' data differ in max_length (8, 16): see the record."
    ]
    assert describe_data(rows(made(8, 3), made(16, 4)))[1] == [
        "The runs' data differ in max_length (8, 16) and the documents of each split: see the record."
    ]
