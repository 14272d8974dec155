"""A run's folder, its interruption, and what is written down about it."""

import functools
import glob
import json
import logging
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging as transformers_logging

from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def exit_with_sentence(main: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Make a command end with the sentence of an `InputError` on stderr and exit status 1, without a traceback."""

    @functools.wraps(main)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            result = main(*args, **kwargs)
        except InputError as error:
            raise SystemExit(f"Error: {error}") from None
        leave_process_group()
        return result

    return wrapped


def leave_process_group() -> None:
    """End what connects the processes of a launcher; left to the interpreter's end, gloo's threads may abort it."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def start_logging() -> None:
    """Messages of the package to stderr, and the progress bars of transformers on."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("broadsheet").setLevel(logging.INFO if is_main_process() else logging.WARNING)
    transformers_logging.enable_progress_bar()


def is_main_process() -> bool:
    """Whether this is the only process, or the first of those that a launcher started."""
    return int(os.environ.get("RANK", "0")) == 0


def prepare_output_dir(output_dir: str, overwrite: bool, resume: str | None) -> str | None:
    """
    Check the output folder, make it, and find the checkpoint to continue from.

    Args:
        output_dir: the folder.
        overwrite: use it though it is not empty; its old checkpoints are removed, and first of all its results.json,
            whose presence says that a run is complete.
        resume: None, the path of a checkpoint, or "auto" for the last complete one in the folder, if there is one.

    Returns:
        The checkpoint, or None to start at the beginning.

    Raises:
        InputError: where the folder is in use and neither is set, or the checkpoint is none.
    """
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise InputError(f"{output_dir} is a file; set --output_dir to a folder.")
    if resume is not None:
        if resume != "auto":
            if not _is_complete(resume):
                raise InputError(
                    f"{resume} is no complete checkpoint (it needs model.safetensors and trainer_state.json); name a "
                    "checkpoint folder of an earlier run, or auto for the last one in output_dir."
                )
            return resume
        checkpoint = last_checkpoint(output_dir)
        logger.info("Continuing from %s.", checkpoint) if checkpoint else logger.info("No checkpoint yet: starting.")
        os.makedirs(output_dir, exist_ok=True)
        return checkpoint
    if os.path.isdir(output_dir) and os.listdir(output_dir):
        if not overwrite:
            raise InputError(
                f"The output folder {output_dir} is not empty; set --resume_from_checkpoint auto to continue its run, "
                "--overwrite to replace it, or another --output_dir."
            )
        if is_main_process():
            Path(output_dir, "results.json").unlink(missing_ok=True)
            for folder in _checkpoints(output_dir):
                shutil.rmtree(folder)
    os.makedirs(output_dir, exist_ok=True)
    return None


def last_checkpoint(output_dir: str) -> str | None:
    """The checkpoint of the most steps that was written to its end; None where there is none."""
    complete = [folder for folder in _checkpoints(output_dir) if _is_complete(folder)]
    return max(complete, key=lambda folder: int(folder.rsplit("-", 1)[1]), default=None)


def _checkpoints(output_dir: str) -> list[str]:
    folders = glob.glob(os.path.join(glob.escape(output_dir), "checkpoint-*"))
    return [folder for folder in folders if folder.rsplit("-", 1)[1].isdigit() and os.path.isdir(folder)]


def _is_complete(folder: str) -> bool:
    try:
        # Written last, so that a checkpoint with a readable state has everything else.
        TrainerState.load_from_json(os.path.join(folder, "trainer_state.json"))
    except (OSError, ValueError, TypeError):
        return False
    return os.path.isfile(os.path.join(folder, "model.safetensors"))


def any_process(flag: bool, args: TrainingArguments) -> bool:
    """Whether the flag is set in any of the processes that train, which all ask at the same step."""
    if args.world_size == 1:
        return flag
    flags = torch.tensor([int(flag)], device=args.device)
    torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MAX)
    return bool(flags.item())


class StopOnSignal(TrainerCallback):
    """
    On Ctrl-C or SIGTERM: finish the step, save a checkpoint, and leave with a sentence that says how to go on.

    A second Ctrl-C, a moment later, stops at once. In distributed training all processes stop at the same step.
    """

    # A launcher passes on the Ctrl-C that the terminal has already sent to its workers: that is no second one.
    moment = 1.0

    def __init__(self) -> None:
        self.signal: int | None = None
        self._stops = False
        self._received = 0.0
        self._previous: dict[int, Any] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take over the signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._receive)

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _receive(self, number: int, frame: Any) -> None:
        if self.signal is None:
            self.signal, self._received = number, time.monotonic()
            if is_main_process():
                print("\nStopping after this step; press Ctrl-C again to stop at once.", file=sys.stderr, flush=True)
        elif number == signal.SIGINT and time.monotonic() - self._received > self.moment:
            self.restore()
            raise KeyboardInterrupt

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ask for a checkpoint once a signal has come to any process; one that comes later waits for the next step."""
        self._stops = any_process(self.signal is not None, args)
        if self._stops:
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Leave once it is written."""
        if self._stops and state.global_step < state.max_steps:
            if args.world_size > 1:
                # The first process to leave makes the launcher end the others, which may still be writing.
                torch.distributed.barrier()
            raise Interrupted(os.path.join(str(args.output_dir), f"checkpoint-{state.global_step}"), state.global_step)


class Interrupted(Exception):
    """A run was stopped by a signal after it had saved a checkpoint."""

    def __init__(self, checkpoint: str, step: int):
        super().__init__(
            f"Stopped after step {step}. The model, its processor and the training state are in {checkpoint}; to "
            "continue, give the same command with --resume_from_checkpoint auto."
        )
        self.checkpoint, self.step = checkpoint, step


def write_json(path: str, content: Any) -> None:
    """Write a JSON file that is never seen half-written."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: str, text: str) -> None:
    """Write a text file that is never seen half-written."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def environment(device: torch.device) -> dict[str, Any]:
    """Versions and hardware that a result depends on."""
    packages = ("broadsheet", "torch", "transformers", "datasets", "accelerate", "tokenizers", "numpy", "seqeval")
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "cpu_threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "platform": f"{platform.system()} {platform.machine()}",
    }
