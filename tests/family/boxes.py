"""Boxes for the common tests, and the faults that a model with integer boxes must refuse."""

from collections.abc import Callable

import torch
from tests.family.spec import BadInput, Batch


def integer_boxes(length: int, coordinates: int, generator: torch.Generator) -> torch.Tensor:
    """Boxes int64 `[length, 4]` in 0..coordinates-1, the first [0, 0, 0, 0], some of them equal or without a size."""
    corners = torch.randint(coordinates, (length, 2, 2), generator=generator).sort(1).values
    boxes = corners.flatten(1)
    if length > 3:
        boxes[2] = boxes[1]
        boxes[3, 2:] = boxes[3, :2]
    boxes[0] = 0
    return boxes


def integer_box_faults(processor: str, largest: int, variants: tuple[str, ...] | None = None) -> tuple[BadInput, ...]:
    """The faults of `bbox` that every model with int boxes 0..largest refuses, naming `processor` as the remedy."""
    box = ("box", "token 2", "row 1", processor)
    return (
        BadInput("no bbox", lambda batch: batch.pop("bbox"), ("bbox is missing", processor), variants),
        BadInput("a bbox per document", _bbox(lambda bbox: bbox[:, 0]), ("shape", processor), variants),
        BadInput("a short bbox", _bbox(lambda bbox: bbox[:, :-1]), ("shape", "pad", processor), variants),
        BadInput("float boxes", _bbox(lambda bbox: bbox.float() / 1000), ("float32", "integer", processor), variants),
        BadInput("a box too far right", _box([0, 0, largest + 1, 9]), (*box, str(largest + 1)), variants),
        BadInput("a negative box", _box([-1, 0, 5, 9]), (*box, "-1"), variants),
        BadInput("swapped corners", _box([50, 0, 40, 9]), (*box, "swapped"), variants),
    )


def float_box_faults(processor: str, largest: int) -> tuple[BadInput, ...]:
    """The faults of `bbox` that every model with float boxes 0..largest refuses, naming `processor` as the remedy."""
    box = ("box", "token 2", "row 1", processor)
    return (
        BadInput("no bbox", lambda batch: batch.pop("bbox"), ("bbox is missing", processor)),
        BadInput("a short bbox", _bbox(lambda bbox: bbox[:, :-1]), ("shape", "pad", processor)),
        BadInput("integer boxes", _bbox(lambda bbox: bbox.long()), ("int64", "float32", processor)),
        BadInput("half precision boxes", _bbox(lambda bbox: bbox.half()), ("float16", "float32", processor)),
        BadInput("a box in pixels", _box([0, 0, largest + 1, 9]), (*box, str(largest + 1))),
        BadInput("a negative box", _box([-1, 0, 5, 9]), (*box, "-1")),
        BadInput("swapped corners", _box([5, 0, 4, 9]), (*box, "swapped")),
        BadInput("a box that is not a number", _box([0, float("nan"), 4, 9]), (*box, "finite")),
        BadInput("an endless box", _box([0, 0, 4, float("inf")]), (*box, "finite")),
    )


def _bbox(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Batch], None]:
    def spoil(batch: Batch) -> None:
        batch["bbox"] = change(batch["bbox"])

    return spoil


def _box(box: list[float]) -> Callable[[Batch], None]:
    def spoil(batch: Batch) -> None:
        batch["bbox"] = batch["bbox"].clone()
        batch["bbox"][1, 2] = torch.tensor(box, dtype=batch["bbox"].dtype)

    return spoil
