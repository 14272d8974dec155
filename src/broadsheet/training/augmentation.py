"""Small changes of training batches that keep a model from learning few documents by heart."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import Trainer

from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.learning_rates import set_learning_rates
from broadsheet.training.ordered_prediction import OrderedPrediction


def without_word(input_ids: torch.Tensor, tokenizer: Any) -> torch.Tensor:
    """Which tokens `[batch, length]` stand for no word: special tokens and padding, but not unknown words."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id, tokenizer.mask_token_id}
    return torch.isin(input_ids, torch.tensor(sorted(special), device=input_ids.device))


def drop_tokens(input_ids: torch.Tensor, is_special: torch.Tensor, mask_id: int, rate: float) -> torch.Tensor:
    """
    Replace tokens at random by the mask token; boxes and labels stay.

    Args:
        input_ids: int `[batch, length]`.
        is_special: bool `[batch, length]`, the tokens to leave alone.
        mask_id: the mask token.
        rate: the share of tokens, 0..1.
    """
    drop = torch.rand(input_ids.shape, device=input_ids.device) < rate
    return torch.where(drop & ~is_special, mask_id, input_ids)


def move_boxes(bbox: torch.Tensor, is_special: torch.Tensor, largest: int, amount: float) -> torch.Tensor:
    """
    Shrink each window's page towards a random point, by up to `amount` in x and y independently.

    The relative places of words stay as they are while their coordinates change, so that a model sees more of its
    coordinates than a small corpus has.

    Args:
        bbox: int or float `[batch, length, 4]`, (x0, y0, x1, y1) in 0..`largest`.
        is_special: bool `[batch, length]`, the tokens whose box stays.
        largest: the largest coordinate.
        amount: the most that a page shrinks, 0..1.
    """
    size = (bbox.shape[0], 1, 2)
    scale = 1 - amount * torch.rand(size, device=bbox.device)
    shift = torch.rand(size, device=bbox.device) * (1 - scale) * largest
    moved = (bbox * scale.repeat(1, 1, 2) + shift.repeat(1, 1, 2)).clamp(0, largest)
    if not bbox.is_floating_point():
        moved = moved.floor().to(bbox.dtype)
    return torch.where(is_special[..., None], bbox, moved)


class AugmentingTrainer(OrderedPrediction, Trainer):
    """
    A Trainer that changes each training batch at random before the model sees it.

    It draws at the training step and not in the data loader, which works ahead: so a resumed run draws what an
    uninterrupted one does.

    Args:
        token_dropout: see `drop_tokens`.
        box_augmentation: see `move_boxes`; for models that read whole-number boxes.
        learning_rates: see `set_learning_rates`.
    """

    def __init__(
        self,
        *args: Any,
        token_dropout: float = 0.0,
        box_augmentation: float = 0.0,
        learning_rates: Mapping[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.learning_rates = learning_rates or {}
        self.token_dropout, self.box_augmentation = token_dropout, box_augmentation
        processor: Any = self.processing_class
        for name, value in (("token_dropout", token_dropout), ("box_augmentation", box_augmentation)):
            if not 0 <= value < 1:
                raise InputError(f"{name}={value} is a share; set it from 0 to below 1.")
        if token_dropout and processor.tokenizer.mask_token_id is None:
            raise InputError("The tokenizer has no mask token for token_dropout; set it to 0.")
        if box_augmentation and not processor.integer_boxes:
            raise InputError(f"{type(processor).__name__} makes boxes of its own kind; set box_augmentation to 0.")

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """As of `Trainer`, with the rates of the named parts."""
        is_new = self.optimizer is None
        optimizer = super().create_optimizer(*args, **kwargs)
        if is_new and self.learning_rates:
            set_learning_rates(optimizer, self.accelerator.unwrap_model(self.model), self.learning_rates)
        return optimizer

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """As of `Trainer`, on the changed batch."""
        processor: Any = self.processing_class
        is_special = without_word(inputs["input_ids"], processor.tokenizer)
        if self.token_dropout:
            mask_id = processor.tokenizer.mask_token_id
            inputs["input_ids"] = drop_tokens(inputs["input_ids"], is_special, mask_id, self.token_dropout)
        if self.box_augmentation and "bbox" in inputs:  # a model of text alone has no boxes to move
            largest = processor.largest_coordinate
            inputs["bbox"] = move_boxes(inputs["bbox"], is_special, largest, self.box_augmentation)
        return super().training_step(model, inputs, *args, **kwargs)
