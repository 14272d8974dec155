"""A loss in which rare labels weigh more (Position-aware attention, Kleister-NDA): `--class_weights train`."""

from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import nn


def balanced_weights(windows: Dataset, num_labels: int) -> torch.Tensor:
    """
    The weight of each label: inverse to its share of the training labels, one on the average label.

    Args:
        windows: training windows with `labels`, one for each token (-100 for none) or one for each window.
        num_labels: how many labels the model tells apart.

    Returns:
        float32 `[num_labels]`; 1 for labels that do not occur.
    """
    counts = np.zeros(num_labels, dtype=np.int64)
    for rows in windows.select_columns(["labels"]).with_format("numpy").iter(batch_size=64):
        for labels in rows["labels"]:
            found = np.atleast_1d(labels)
            counts += np.bincount(found[found >= 0].astype(np.int64), minlength=num_labels)
    seen = counts > 0
    weights = np.ones(num_labels)
    weights[seen] = counts.sum() / (seen.sum() * counts[seen])
    return torch.tensor(weights, dtype=torch.float32)


class WeightedLoss:
    """
    Cross-entropy with a weight for each label, for Trainer's `compute_loss_func`.

    It is divided by the number of labels, not by the sum of their weights, whose mean over the training labels is one:
    so accumulated and distributed batches add up to one large batch exactly.

    Args:
        weights: `[labels]`.
    """

    def __init__(self, weights: torch.Tensor):
        self.weights = weights

    def __call__(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        """`outputs.logits` `[..., labels]` and `labels` `[...]`, -100 for none; returns a scalar."""
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        weights = self.weights.to(logits.device)
        total = nn.functional.cross_entropy(
            logits.flatten(0, -2).float(), labels.flatten().to(logits.device), weights, reduction="sum"
        )
        count = (labels >= 0).sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        return total / torch.as_tensor(count, device=total.device)
