"""The batch that processors and the collator return."""

from typing import Any

from transformers.feature_extraction_utils import BatchFeature

# What `return_word_ids=True` adds for merging windows and sub-words; no model takes it.
WORD_ID_KEYS = ("token_word_ids", "token_subword_ids", "token_page_ids", "overflow_to_sample_mapping")


class LayoutBatch(BatchFeature):
    """
    A dict of tensors, one row per window.

    Differs from `BatchFeature` in two ways: `.to(dtype)` moves but never casts, because layout arithmetic stays
    float32 under half precision (sin(500 t) of a bfloat16 box is off by up to 0.94); and `model_inputs` leaves out
    what only the merging of predictions needs.
    """

    def to(self, *args: Any, **kwargs: Any) -> "LayoutBatch":
        """
        Move all tensors to a device. A dtype is accepted and ignored: ids are integers and layout stays float32.

        Returns:
            This batch.
        """
        import torch

        device = kwargs.pop("device", None)
        kwargs.pop("dtype", None)
        for arg in args:
            if isinstance(arg, torch.Tensor):
                device = arg.device
            elif not isinstance(arg, torch.dtype) and device is None:
                device = arg
        if device is None:
            return self

        def move(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value.to(device=device, **kwargs)
            if isinstance(value, list | tuple):
                return type(value)(move(item) for item in value)
            return value

        self.data = {key: move(value) for key, value in self.data.items()}
        return self

    @property
    def model_inputs(self) -> "LayoutBatch":
        """What the model takes: this batch without `WORD_ID_KEYS`, so that `model(**batch.model_inputs)` works."""
        return LayoutBatch({key: value for key, value in self.data.items() if key not in WORD_ID_KEYS})
