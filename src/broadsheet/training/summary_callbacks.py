"""What `broadsheet summarize` does beside training: validations every few epochs, a limit of time."""

import json
import os
import time
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from broadsheet.training.runs import any_process, write_json


class EveryFewEpochs(TrainerCallback):
    """Validate and save after every so many epochs, where transformers would after each."""

    def __init__(self, every: int):
        self.every = every

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take back what transformers asks for."""
        if round(state.epoch or 0) % self.every and not control.should_training_stop:
            control.should_evaluate = control.should_save = False


class TimeLimit(TrainerCallback):
    """Stop training after so many seconds, validations not counted, those before `checkpoint` counted too."""

    file = "training_time.json"

    def __init__(self, seconds: float, clock: str = "wall", checkpoint: str | None = None):
        self.seconds = seconds
        self.clock = time.process_time if clock == "cpu" else time.perf_counter
        self.spent = 0.0
        if checkpoint is not None and os.path.isfile(os.path.join(checkpoint, self.file)):
            with open(os.path.join(checkpoint, self.file), encoding="utf-8") as stream:
                self.spent = float(json.load(stream)["spent_s"])
        self.reached = False
        self._since = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step's time counts from here."""
        self._since = self.clock()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """To here. The first process whose time is up stops all."""
        self.spent += self.clock() - self._since
        self.reached = any_process(self.spent >= self.seconds, args)
        if self.reached:
            control.should_training_stop = control.should_save = True
            control.should_evaluate = args.eval_strategy != IntervalStrategy.NO

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Beside the checkpoint, for who continues from it."""
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if state.is_world_process_zero and os.path.isdir(folder):
            write_json(os.path.join(folder, self.file), {"spent_s": self.spent})
