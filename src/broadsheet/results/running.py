"""Runs of a table: each in a process and a folder of its own; what is finished is not run again."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from broadsheet.results.table_recipe import REFERENCE, Run
from broadsheet.tokenization.input_checks import InputError

RESULTS = "results.json"


def finished(run: Run, folder: Path) -> dict[str, Any] | None:
    """What a finished run wrote, else None. Training commands write it last, and never half."""
    path = folder / run.identity / RESULTS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def command_of(run: Run, folder: Path) -> list[str]:
    """The command of a run, as an interrupted one is continued."""
    arguments = [REFERENCE.sub(lambda reference: str(folder / reference[1]), text) for text in run.arguments]
    return [sys.executable, "-m", run.module, *arguments, *run.resume, "--output_dir", str(folder / run.identity)]


def in_order(runs: Iterable[Run]) -> list[Run]:
    """The runs and those that they need, each once, what is needed before what needs it."""
    ordered: dict[str, Run] = {}
    for run in runs:
        for each in (*in_order(run.needs), run):
            ordered.setdefault(each.identity, each)
    return list(ordered.values())


def execute(run: Run, folder: Path) -> dict[str, Any]:
    """
    Run to the end; output goes to a log beside the run's folder.

    Args:
        run: the run.
        folder: where the folders of the runs are.

    Returns:
        The run's results.

    Raises:
        InputError: where it fails; with the end of its log.
        KeyboardInterrupt: after Ctrl-C, once the run has stopped.
    """
    output, log = folder / run.identity, folder / f"{run.identity}.log"
    folder.mkdir(parents=True, exist_ok=True)
    if output.exists() and not run.resume:
        shutil.rmtree(output)
    command = command_of(run, folder)
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"\n$ {shlex.join(command)}\n")
        stream.flush()
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=dict(os.environ))
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.wait()  # it got the same Ctrl-C, and saves what it has
            raise
    if run.is_part and not status and output.is_dir() and not (output / RESULTS).exists():
        (output / RESULTS).write_text("{}\n", encoding="utf-8")  # marks it as finished
    results = finished(run, folder)
    if status or results is None:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])
        reason = f"ended with status {status}" if status else f"wrote no {RESULTS}"
        raise InputError(f"The run of row {run.row}, seed {run.seed}, {reason}; its log is {log} and ends:\n{tail}")
    return results
