"""What every encoder of the family does with its token inputs before it computes: checks, and the mask of keys."""

import torch
from torch import nn

from .layout_embeddings import is_traced


def check_token_inputs(
    input_ids: torch.Tensor | None,
    inputs_embeds: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    token_type_ids: torch.Tensor | None,
    vocab_size: int,
    type_vocab_size: int,
) -> torch.Size:
    """
    Refuse tokens that the embedding tables cannot look up, masks of another shape than the tokens, and padding on the
    left.

    Args:
        input_ids: int `[batch, length]`, or None.
        inputs_embeds: `[batch, length, hidden]`, or None.
        attention_mask: `[batch, length]`, or None.
        token_type_ids: int `[batch, length]`, or None.
        vocab_size: rows of the word embeddings.
        type_vocab_size: rows of the token type embeddings.

    Returns:
        (batch, length).

    Raises:
        ValueError: naming what is at fault, and the remedy.
    """
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Pass either input_ids or inputs_embeds, not both and not neither.")
    tokens = input_ids if input_ids is not None else inputs_embeds
    assert tokens is not None
    shape = tokens.shape[:2]
    if tokens.dim() != (2 if input_ids is not None else 3):
        name, axes = ("input_ids", "length") if input_ids is not None else ("inputs_embeds", "length, hidden")
        raise ValueError(f"{name} has the shape {list(tokens.shape)}; pass a batch, [batch, {axes}].")
    if not is_traced() and 0 in shape:
        raise ValueError(f"{list(shape)} is a batch without tokens; pass at least one document of one token.")
    for name, value in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
        if value is not None and value.shape != shape:
            raise ValueError(
                f"{name} has the shape {list(value.shape)} but the tokens need {list(shape)}; pad it like input_ids."
            )
    if attention_mask is not None and not is_traced():
        # Poolers and classifiers read the first token, and positions are counted from it.
        padded = (attention_mask[:, 0] == 0) & (attention_mask != 0).any(-1)
        if padded.any():
            raise ValueError(
                f"attention_mask begins with padding in row {int(padded.nonzero()[0, 0])}, but documents are read "
                'from their first token on; pad on the right, with tokenizer.padding_side = "right".'
            )
    remedies = {
        "input_ids": "use the checkpoint's own tokenizer, or call model.resize_token_embeddings(len(tokenizer))",
        "token_type_ids": "leave token_type_ids out, or use the checkpoint's own tokenizer",
    }
    for name, ids, rows in (("input_ids", input_ids, vocab_size), ("token_type_ids", token_type_ids, type_vocab_size)):
        if ids is None or is_traced():
            continue
        faulty = (ids < 0) | (ids >= rows)
        if faulty.any():
            row, token = (int(index) for index in faulty.nonzero()[0])
            raise ValueError(
                f"{name} holds {int(ids[row, token])} at token {token} in row {row}, outside 0..{rows - 1}; "
                f"{remedies[name]}."
            )
    return shape


# Boxes in units of the page's height: the end of a stack of so many pages. Pixels and points are larger.
LARGEST_HEIGHT = 100


def check_float_bbox(
    bbox: torch.Tensor | None,
    input_shape: torch.Size,
    processor: str,
    largest: int = LARGEST_HEIGHT,
    unit: str = "page heights",
) -> torch.Tensor:
    """
    Refuse boxes that are not in the model's unit, that of the page's height unless told.

    Args:
        bbox: float `[batch, length, 4]` as (x0, y0, x1, y1).
        input_shape: (batch, length) of the tokens.
        processor: the processor that makes such boxes, for the message.
        largest: the largest coordinate.
        unit: how the message calls the unit.

    Returns:
        The boxes, in float32 at least.

    Raises:
        ValueError: naming the first box at fault, and the remedy.
    """
    remedy = f"let {processor}(text=words, boxes=boxes, page_sizes=page_sizes) make it"
    if bbox is None:
        raise ValueError(f"bbox is missing: pass bbox [batch, length, 4] as (x0, y0, x1, y1), or {remedy}.")
    if bbox.shape != (*input_shape, 4):
        raise ValueError(
            f"bbox has the shape {list(bbox.shape)} but the tokens need {[*input_shape, 4]}; pad it like input_ids, "
            f"or {remedy}."
        )
    if bbox.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"bbox has the dtype {bbox.dtype}; this model needs float32 boxes: {remedy}, and cast nothing that is "
            "passed to the model (in FSDP's mixed precision, cast_forward_inputs=False)."
        )
    if is_traced():
        return bbox
    faulty = ~torch.isfinite(bbox).all(-1) | (bbox < 0).any(-1) | (bbox > largest).any(-1)
    faulty |= (bbox[..., 2:] < bbox[..., :2]).any(-1)
    if faulty.any():
        row, token = (int(index) for index in faulty.nonzero()[0])
        raise ValueError(
            f"The box {bbox[row, token].tolist()} of token {token} in row {row} is outside 0..{largest} {unit}, "
            f"not finite or has swapped corners; pass boxes in page units and page_sizes to {processor}, "
            "which scales them."
        )
    return bbox


def embed_types(table: nn.Module, token_type_ids: torch.Tensor | None, device: torch.device) -> torch.Tensor:
    """The embeddings of token types `[batch, length, hidden]`; where none are given that of type 0, `[1, hidden]`."""
    if token_type_ids is None:
        # Looked up as any other: the table's weight may lie elsewhere until the table is called.
        token_type_ids = torch.zeros(1, dtype=torch.long, device=device)
    return table(token_type_ids)


def key_mask(attention_mask: torch.Tensor | None) -> torch.Tensor | None:
    """`[batch, length]` -> bool `[batch, 1, 1, length]`, or None where nothing is masked."""
    if attention_mask is None or (not is_traced() and bool(attention_mask.all())):
        return None
    return attention_mask.bool()[:, None, None, :]
