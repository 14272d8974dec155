"""Masked language modelling with the Trainer of transformers, the same for every model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForMaskedLM,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from broadsheet.metrics.perplexity import merged_loss, perplexity
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.masking import MaskedLMCollator
from broadsheet.training.ordered_prediction import OrderedPrediction


class MaskedLM:
    """The task, as `building.build` wants it."""

    name = "masked_lm"
    auto_model = AutoModelForMaskedLM


class CountEpochs(TrainerCallback):
    """Tells a collator which pass over the data it is, after a resumption too, so that each pass is masked anew."""

    def __init__(self, collator: MaskedLMCollator):
        self.collator = collator

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the collator's epoch; evaluation has epoch 0."""
        self.collator.epoch = 1 + int((state.epoch or 0.0) + 1e-6)


class MaskedLMTrainer(OrderedPrediction, Trainer):
    """
    A Trainer whose loss is the mean cross-entropy of the hidden tokens of a step, and which evaluates by the token.

    Every model gets the same loss, from its logits: the models of transformers normalise their own losses in different
    ways under gradient accumulation. Logits are computed for hidden tokens alone, 15 % of all, by a hook before the
    model's head; the loss and its gradients are those of the full logits.

    Evaluation gives `eval_loss`, over all hidden tokens alike (the Trainer's own is the mean of batches), and
    `eval_perplexity`, its exponential; `predict` gives the summed loss and the number of hidden tokens of each window
    as `predictions [W]` and `label_ids [W]`.

    Args:
        eval_collator: masks of evaluation.
    """

    def __init__(self, *args: Any, eval_collator: MaskedLMCollator, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.compute_loss_func = _mean_loss
        self.compute_metrics = lambda prediction: measure(prediction.predictions, prediction.label_ids)
        self.eval_collator = eval_collator
        self._head = language_modeling_head(self.model)
        # The loss is never the model's own, which would be handed the number of hidden tokens.
        self.model_accepts_loss_kwargs = False

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """As of `Trainer`, with the masks of evaluation."""
        with self._eval_masks():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """As of `Trainer`, with the masks of evaluation."""
        with self._eval_masks():
            return super().get_test_dataloader(test_dataset)

    @contextmanager
    def _eval_masks(self) -> Iterator[None]:
        training = self.data_collator
        self.data_collator = self.eval_collator  # type: ignore[assignment]
        try:
            yield
        finally:
            self.data_collator = training

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As of `Trainer`, with logits of hidden tokens alone."""
        with logits_where(self._head, inputs["labels"] != -100):
            return super().compute_loss(model, inputs, *args, **kwargs)

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[None, torch.Tensor, torch.Tensor]:
        """No loss of the batch, but the summed loss `[B]` and the number of hidden tokens `[B]` of each window."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels")
        hidden = labels != -100
        with torch.no_grad(), self.compute_loss_context_manager(), logits_where(self._head, hidden):
            logits = model(**inputs).logits
            losses = nn.functional.cross_entropy(logits.float(), labels[hidden], reduction="none")
        sums = torch.zeros(len(labels), device=labels.device, dtype=torch.float64)
        sums.index_add_(0, hidden.nonzero()[:, 0], losses.double())
        return None, sums, hidden.sum(1)


def language_modeling_head(model: Any) -> nn.Module:
    """
    The module that turns hidden states into logits: `cls` in BERT and its kin, `lm_head` in RoBERTa and its kin.

    Raises:
        InputError: a model without one.
    """
    for name in ("cls", "lm_head"):
        head = getattr(model, name, None)
        if isinstance(head, nn.Module):
            return head
    raise InputError(f"{type(model).__name__} has no masked LM head (cls or lm_head); choose another model type.")


@contextmanager
def logits_where(head: nn.Module, wanted: torch.Tensor) -> Iterator[None]:
    """Within it, `head` computes logits where `wanted` `[batch, length]` alone: `[wanted tokens, vocab]`, in order."""
    # Models that pad their input to a multiple (Longformer, BigBird) cut the padding off again before the head.
    hook = head.register_forward_pre_hook(lambda module, inputs: (inputs[0][wanted], *inputs[1:]))
    try:
        yield
    finally:
        hook.remove()


def _mean_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """The summed loss of a batch over the number of hidden tokens of the whole step, all devices and batches."""
    targets = labels[labels != -100]
    total = nn.functional.cross_entropy(outputs.logits.float(), targets, reduction="sum")
    count = targets.numel() if num_items_in_batch is None else num_items_in_batch
    return total / max(int(count), 1)


def losses_and_counts(sums: Any, counts: Any) -> tuple[list[float], list[int]]:
    """The mean loss per hidden token of each window, 0 without any, and their number, from what `predict` gives."""
    pairs = list(zip(sums, counts, strict=True))
    return [float(total / max(count, 1)) for total, count in pairs], [int(count) for _, count in pairs]


def measure(sums: Any, counts: Any) -> dict[str, float]:
    """`loss` per hidden token and `perplexity`, from the summed loss and the number of hidden tokens of windows."""
    loss = merged_loss(*losses_and_counts(sums, counts))
    return {"loss": loss, "perplexity": perplexity(loss)}
