"""
The one collator of the family: windows of different lengths become one batch, padded as the processor declares.

A processor declares each tensor once, as a `TensorSpec`; nothing here knows any model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .input_checks import InputError
from .layout_batch import LayoutBatch


@dataclass(frozen=True)
class TensorSpec:
    """
    The form of one tensor of a window.

    Attributes:
        shape: its dimensions without the batch. "length" is the window's number of tokens, padded to the longest
            window; any other name is a dimension padded to that tensor's largest of the batch; a number is fixed.
        dtype: name of a numpy type.
        pad_value: fills what is padded; None where padding is impossible (a tokenizer without a pad token).
        holds_positions: the values are places of tokens in the window (neighbours, start of an answer), negative ones
            none; they move along where the tokens are padded on the left.
    """

    shape: tuple[int | str, ...] = ("length",)
    dtype: str = "int64"
    pad_value: float | None = 0
    holds_positions: bool = False


class LayoutDataCollator:
    """
    Features of a processor (dicts of lists, arrays or tensors) -> one padded `LayoutBatch` of PyTorch tensors.

    What comes out, for B features of which the longest has N tokens (N rounded up to `pad_to_multiple_of`):
    `input_ids [B, N]`, `attention_mask [B, N]`, `bbox [B, N, 4]`, the model's own tensors as its processor declares
    them, `labels [B, N]` padded with -100 (labels of a document, one number each, become `[B]`),
    `start_positions [B]`, `end_positions [B]`, `token_word_ids [B, N]` and `token_page_ids [B, N]` padded with -1.
    Other keys are stacked where they are numbers or arrays of one shape, and refused with a sentence otherwise.

    Args:
        processor: the processor that made the features.
        label_pad_token_id: label of padding.
        pad_to_multiple_of: round the length up to a multiple of it.
        return_tensors: "pt" or "np".
    """

    def __init__(
        self,
        processor: Any,
        label_pad_token_id: int = -100,
        pad_to_multiple_of: int | None = None,
        return_tensors: str = "pt",
    ) -> None:
        self.processor = processor
        self.label_pad_token_id = label_pad_token_id
        self.pad_to_multiple_of = pad_to_multiple_of
        self.return_tensors = return_tensors

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> LayoutBatch:
        specs = self.processor.tensor_specs()
        specs["labels"] = TensorSpec(("length",), "int64", self.label_pad_token_id)
        arrays = pad_features(
            features,
            specs,
            padding_side=self.processor.tokenizer.padding_side,
            pad_to_multiple_of=self.pad_to_multiple_of,
        )
        arrays.update(self.processor.batch_tensors(arrays))
        return LayoutBatch(arrays, tensor_type=self.return_tensors)


def pad_features(
    features: Sequence[Mapping[str, Any]],
    specs: Mapping[str, TensorSpec],
    padding_side: str = "right",
    pad_to_multiple_of: int | None = None,
    length: int | None = None,
) -> dict[str, np.ndarray]:
    """
    Pad and stack features.

    Args:
        features: at least one dict; all have the same keys, `input_ids` among them.
        specs: the form of each tensor; keys without one must be numbers, or arrays of one shape.
        padding_side: "right" or "left".
        pad_to_multiple_of: round the length up to a multiple of it.
        length: pad to this length instead of the longest.

    Returns:
        key -> array `[features, ...]`.

    Raises:
        InputError: for features that do not fit each other, naming the feature and the key.
    """
    if not features:
        raise InputError("There are no features to collate; pass at least one.")
    keys = list(features[0])
    for index, feature in enumerate(features):
        if set(feature) != set(keys):
            odd = sorted(set(feature) ^ set(keys))
            raise InputError(
                f"Feature {index} differs from feature 0 in the keys {odd}; make all features by the same call."
            )
        if "input_ids" not in feature:
            raise InputError(f"Feature {index} has no input_ids; pass features as the processor returns them.")
    lengths = [len(feature["input_ids"]) for feature in features]
    longest = max(lengths) if length is None else length
    if pad_to_multiple_of:
        longest = -(-longest // pad_to_multiple_of) * pad_to_multiple_of
    left = padding_side == "left"
    batch = {}
    for key in keys:
        values = [feature[key] for feature in features]
        spec = specs.get(key)
        if spec is None or (key == "labels" and np.ndim(values[0]) == 0):
            batch[key] = _stack(key, values)
        elif key == "labels" and any(len(value) != size for value, size in zip(values, lengths, strict=True)):
            # Targets of a decoder have a length of their own.
            batch[key] = _pad(key, values, TensorSpec(("targets",), spec.dtype, spec.pad_value), None, 0, False)
        else:
            batch[key] = _pad(key, values, spec, lengths, longest, left)
    return batch


def _pad(
    key: str, values: list[Any], spec: TensorSpec, lengths: list[int] | None, longest: int, left: bool
) -> np.ndarray:
    arrays = []
    for index, value in enumerate(values):
        array = _array(key, index, value, spec.dtype)
        if array.size == 0 and array.ndim < len(spec.shape):
            array = array.reshape([0 if isinstance(size, str) else size for size in spec.shape])
        fits = array.ndim == len(spec.shape) and all(
            isinstance(size, str) or size == actual for size, actual in zip(spec.shape, array.shape, strict=True)
        )
        if not fits:
            raise InputError(
                f"{key} of feature {index} has the shape {list(array.shape)}, but {list(spec.shape)} is declared; "
                "pass features as the processor returns them."
            )
        if lengths is not None and "length" in spec.shape:
            entries = array.shape[spec.shape.index("length")]
            if entries != lengths[index]:
                raise InputError(
                    f"{key} of feature {index} has {entries} entries for {lengths[index]} input_ids; "
                    "pass one for each token."
                )
        arrays.append(array)
    shape = [
        longest if size == "length" else max(array.shape[axis] for array in arrays) if isinstance(size, str) else size
        for axis, size in enumerate(spec.shape)
    ]
    if spec.pad_value is None and any(list(array.shape) != shape for array in arrays):
        raise InputError(
            f"The windows differ in length, but the tokenizer has no pad token for {key}; set tokenizer.pad_token."
        )
    if spec.holds_positions and left and lengths is not None:
        arrays = [
            np.where(array >= 0, array + longest - length, array)
            for array, length in zip(arrays, lengths, strict=True)
        ]
    padded = np.full((len(arrays), *shape), 0 if spec.pad_value is None else spec.pad_value, dtype=spec.dtype)
    for index, array in enumerate(arrays):
        place = tuple(
            slice(shape[axis] - size, None) if left and spec.shape[axis] == "length" else slice(0, size)
            for axis, size in enumerate(array.shape)
        )
        padded[(index, *place)] = array
    return padded


def _stack(key: str, values: list[Any]) -> np.ndarray:
    arrays = [_array(key, index, value, None) for index, value in enumerate(values)]
    for index, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise InputError(
                f"{key} of feature {index} has the shape {list(array.shape)}, that of feature 0 "
                f"{list(arrays[0].shape)}; declare how to pad it in the processor's tensors, or leave it out."
            )
    stacked = np.stack(arrays)
    return stacked.astype(np.float32) if stacked.dtype == np.float64 else stacked


def _array(key: str, index: int, value: Any, dtype: str | None) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{key} of feature {index} is ragged or holds something other than numbers ({error}); "
            "pass one row of the declared form for each token."
        ) from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{key} of feature {index} holds {value!r:.60}, not numbers; remove the column {key}.")
    return array
