"""
Measure what the family promises, side by side with its peers.

    broadsheet bench --list
    broadsheet bench skimformer-training-512-dropout-0.1
    broadsheet bench 'skimformer-*' --threads 2
    broadsheet bench all --quick          smoke run at tiny sizes: shows that it runs, judges nothing
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.status import Status
from rich.table import Table

from benchmarks.catalogue import ENTRIES, STUDIES, choose, choose_studies
from benchmarks.entry import QUANTITIES, Benchmark, Study
from benchmarks.gate import require_green
from benchmarks.plot import draw
from benchmarks.report import judge, make_table
from benchmarks.run import measure
from broadsheet.consoles import make_console
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable, results_folder, write_record
from broadsheet.tokenization.input_checks import InputError

console = make_console()


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line; None for the process' own arguments.

    Returns:
        1 where a promise does not hold, else 0.
    """
    arguments = _parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    try:
        if arguments.list or not arguments.names:
            console.print(_catalogue_table())
            return 0
        return _run(arguments)
    except InputError as error:
        console.print(f"error: {error}", style="red", soft_wrap=True, highlight=False)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    chosen, studies = choose(arguments.names), choose_studies(arguments.names)
    if arguments.skip_tests and not arguments.quick:
        raise InputError("Numbers are reported only behind green tests; --skip-tests goes with --quick alone.")
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("There is no CUDA device on this machine; use --device cpu.")
    if device.type != "cpu" and studies:
        if not chosen:
            raise InputError(f"{studies[0].name} measures the CPU alone; leave --device out.")
        studies = []
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    folder = Path(arguments.output or (tempfile.mkdtemp() if arguments.quick else results_folder()))
    if not arguments.skip_tests:
        tests = sorted({path for each in (chosen, studies) for entry in each for path in entry.tests})
        with console.status(f"running the tests in {', '.join(tests)}"):
            require_green(tests)
    if not arguments.quick and hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5:
        console.print(
            f"Other processes keep this machine busy (load {os.getloadavg()[0]:.1f}); times are less certain."
        )
    held = [_run_one(entry, device, arguments, folder) for entry in chosen]
    held += [_run_study(study, arguments.quick, folder) for study in studies]
    return 0 if all(held) else 1


def _run_one(benchmark: Benchmark, device: torch.device, arguments: argparse.Namespace, folder: Path) -> bool:
    benchmark = benchmark.quick() if arguments.quick else benchmark
    environment = describe_environment(device)
    with console.status(benchmark.name) as status:
        measured = measure(benchmark, device, arguments.quick, _progress(status))
    table = make_table(benchmark, measured)
    _print(table)
    judged = [] if arguments.quick or device.type != "cpu" else judge(benchmark, measured)
    for verdict in judged:
        console.print(verdict.sentence(benchmark.peer), style="green" if verdict.holds else "bold red")
    suffix = "" if device.type == "cpu" else f"-{device.type}"
    figure = f"{benchmark.name}{suffix}.png"
    draw(benchmark, measured, folder / figure)
    record = Record(
        name=f"{benchmark.name}{suffix}",
        title=f"{benchmark.title}, dropout {benchmark.dropout:g}",
        kind="benchmark",
        command=f"broadsheet bench {benchmark.name} --threads {torch.get_num_threads()} --device {device.type}",
        date=today(),
        data="random words in random boxes, full windows",
        budget={
            "step": benchmark.step,
            "lengths": list(benchmark.lengths),
            "batch_size": benchmark.batch_size,
            "dropout": benchmark.dropout,
            **({"beams": benchmark.beams} if benchmark.step == "generation" else {}),
            "repetitions": benchmark.repetitions,
            "quick": arguments.quick,
        },
        seeds={"weights": 0, "batch": 0},
        environment=environment,
        measurements={
            "peer": benchmark.peer,
            "lengths": measured,
            "promises": [{**verdict._asdict(), "holds": verdict.holds} for verdict in judged],
        },
        tables=[table],
        notes=[f"{verdict.sentence(benchmark.peer)}." for verdict in judged],
        figures=[figure],
    )
    console.print(f"written to {write_record(folder, record)}", soft_wrap=True, highlight=False)
    return all(verdict.holds for verdict in judged)


def _run_study(study: Study, quick: bool, folder: Path) -> bool:
    with console.status(study.name) as status:
        sentences = study.run(quick, folder, _progress(status))
    for sentence in sentences:
        console.print(sentence, style="green" if sentence.startswith("holds") else "bold red")
    console.print(f"written to {folder}", soft_wrap=True, highlight=False)
    return all(sentence.startswith("holds") for sentence in sentences)


def _progress(status: Status) -> Callable[[str], None]:
    return lambda text: status.update(text)


def _print(table: ResultTable) -> None:
    shown = Table(title=table.caption, title_justify="left")
    for place, heading in enumerate(table.columns):
        shown.add_column(heading, justify="right" if place else "left")
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)


def _catalogue_table() -> Table:
    shown = Table(title="Benchmarks", title_justify="left")
    for heading in ("name", "peer", "size", "dropout", "promised"):
        shown.add_column(heading, overflow="fold")
    for entry in ENTRIES.values():
        promised = [
            f"{bound.contestant}: {QUANTITIES[bound.quantity]} <= {bound.at_most:g}x" for bound in entry.bounds
        ]
        size = f"n = {', '.join(map(str, entry.lengths))}; batch {entry.batch_size}"
        shown.add_row(entry.name, entry.peer, size, f"{entry.dropout:g}", "\n".join(promised) or "nothing: a curve")
    for study in STUDIES.values():
        shown.add_row(study.name, "", study.title, "", "\n".join(study.promised))
    return shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="broadsheet bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names, patterns, or all")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and what they promise")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, few rounds, no verdicts")
    parser.add_argument("--skip-tests", action="store_true", help="with --quick: do not run the tests first")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="promises are about the CPU")
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own)")
    parser.add_argument("--output", help="folder of the records (default: results/ of the checkout)")
    return parser
