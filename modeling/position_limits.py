"""How many tokens a model with a table of positions takes."""

import torch


def check_positions(input_shape: torch.Size, num_positions: int) -> None:
    """
    Refuse inputs longer than the table.

    Args:
        input_shape: (batch, length) of the tokens.
        num_positions: how many positions there are for tokens.

    Raises:
        ValueError: naming both numbers, and the remedy.
    """
    if input_shape[1] > num_positions:
        raise ValueError(
            f"The input has {input_shape[1]} tokens but the model has {num_positions} positions; cut it into windows "
            f"with processor(..., truncation=True, max_length={num_positions}, return_overflowing_tokens=True)."
        )
