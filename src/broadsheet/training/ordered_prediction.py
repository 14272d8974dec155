"""Predictions in the order of the dataset, by which windows are merged into documents."""

from typing import Any


class OrderedPrediction:
    """
    A mixin before `Trainer`: with `train_sampling_strategy="group_by_length"` alone, `Trainer` sorts what it evaluates
    and predicts by length too, and gives predictions in that order.
    """

    args: Any

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        strategy, self.args.train_sampling_strategy = self.args.train_sampling_strategy, "random"
        try:
            return super()._get_eval_sampler(eval_dataset)  # type: ignore[misc]
        finally:
            self.args.train_sampling_strategy = strategy
