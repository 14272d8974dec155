"""What every encoder of the family checks of its token inputs before it computes."""

import torch

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
    Refuse tokens that the embedding tables cannot look up, and masks of another shape than the tokens.

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
    for name, value in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
        if value is not None and value.shape != shape:
            raise ValueError(
                f"{name} has the shape {list(value.shape)} but the tokens need {list(shape)}; pad it like input_ids."
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
