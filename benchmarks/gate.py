"""No numbers from code that is wrong: the tests come first."""

import os
import subprocess
import sys
from pathlib import Path

from broadsheet.tokenization.input_checks import InputError

ROOT = Path(__file__).resolve().parent.parent


def require_green(tests: list[str]) -> None:
    """
    Run the quick tests of the given folders.

    Raises:
        InputError: where one fails, or none is there.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.stderr.write(run.stdout[-3000:] + run.stderr[-1000:])
        raise InputError(
            f"The tests in {' and '.join(tests)} are not green, so nothing is measured; make them pass first."
        )
