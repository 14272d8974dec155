"""
Reproduce a table of the papers.

    broadsheet reproduce --list
    broadsheet reproduce skim_ablation --scale small --data DATA
    broadsheet reproduce skim_ablation --scale small --data DATA --dry-run     the commands, nothing run

Finished runs are not run again, and an interrupted one goes on: give the same command again.
"""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from broadsheet.consoles import make_console
from broadsheet.results.assembling import assemble, describe_data, draw_curves, make_text
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable, results_folder, write_record
from broadsheet.results.running import command_of, execute, finished, in_order
from broadsheet.results.table_recipe import TableRecipe, read_table, shipped_tables
from broadsheet.tokenization.input_checks import InputError

console = make_console()


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line; None for the process' own arguments.

    Returns:
        The exit status: 130 after Ctrl-C.

    Raises:
        InputError: for an unknown table or scale, missing data, or a run that fails.
    """
    arguments = _parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    if arguments.list or not arguments.table:
        for name in shipped_tables():
            table = read_table(name)
            about = f": {table.title} ({table.paper}); scales {', '.join(table.scales)}"
            console.print(Text.assemble((name, "bold"), about))
        return 0
    table = read_table(arguments.table)
    try:
        record = reproduce(
            table,
            arguments.scale,
            data=arguments.data or os.environ.get("BROADSHEET_DATA"),
            runs=Path(arguments.runs),
            output=Path(arguments.output) if arguments.output else results_folder(),
            again=arguments.again,
            dry_run=arguments.dry_run,
        )
    except KeyboardInterrupt:
        console.print("Stopped. Finished runs are kept; to continue, give the same command again.")
        return 130
    if record is not None:
        _print(record.tables[0])
        for note in record.notes:
            console.print(note)
    return 0


def reproduce(
    table: TableRecipe,
    scale: str,
    data: str | None,
    runs: Path,
    output: Path,
    again: bool = False,
    dry_run: bool = False,
) -> Record | None:
    """
    Run what is missing of a table and write its record.

    Args:
        table: the table.
        scale: one of its scales.
        data: the folder that the recipe calls `${data}`.
        runs: where the runs' folders are.
        output: the folder of the records.
        again: run everything anew, finished or not.
        dry_run: print the commands instead.

    Returns:
        The record; None for a dry run.
    """
    shown = table.runs(scale, data)
    planned = in_order(shown)
    if dry_run:
        for run in planned:
            state = "finished" if finished(run, runs) else "to run"
            command = shlex.join(command_of(run, runs))
            console.print(f"# {run.row}, seed {run.seed}: {state}\n{command}", soft_wrap=True)
        return None
    results = {}
    for number, run in enumerate(planned, 1):
        where = f"{number}/{len(planned)} {run.row}, seed {run.seed}"
        if again:
            shutil.rmtree(runs / run.identity, ignore_errors=True)
        result = finished(run, runs)
        if result is None:
            with console.status(Text(f"{where}: running; its output is in {runs / run.identity}.log")):
                result = execute(run, runs)
            console.print(f"{where}: done")
        else:
            console.print(f"{where}: was finished")
        results[run.identity] = result

    rows = assemble(table, {run: results[run.identity] for run in shown})
    described, notes = describe_data(rows)
    name = f"{table.name}-{scale}"
    figures = [f"{name}.png"] if draw_curves(table, rows, output / f"{name}.png") else []
    if note := table.scales[scale].get("note"):
        notes.insert(0, note)
    record = Record(
        name=name,
        title=f"{table.title}, {scale} scale",
        kind="table",
        command=f"broadsheet reproduce {table.name} --scale {scale}",
        date=today(),
        data=described,
        budget=next(iter(rows.values()))["runs"][0]["budget"] or {},
        seeds=table.scales[scale]["seeds"],
        environment=describe_environment(),
        measurements={"rows": rows, "paper": table.paper},
        tables=[make_text(table, scale, rows)],
        notes=notes,
        figures=figures,
    )
    console.print(f"written to {write_record(output, record)}", soft_wrap=True)
    return record


def _print(table: ResultTable) -> None:
    shown = Table(title=table.caption, title_justify="left")
    for place, heading in enumerate(table.columns):
        shown.add_column(heading, justify="right" if place else "left")
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="broadsheet reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", help="name of a table, or the path of a recipe")
    parser.add_argument("--list", action="store_true", help="list the tables")
    parser.add_argument("--scale", default="small", help="small: hours on a few cores; paper: the paper's budget")
    parser.add_argument("--data", help="folder of the data (default: BROADSHEET_DATA)")
    parser.add_argument("--runs", default="runs", help="where the runs' folders are kept (default: ./runs)")
    parser.add_argument("--output", help="folder of the records (default: results/ of the checkout)")
    parser.add_argument("--again", action="store_true", help="run everything anew")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"Error: {error}")
