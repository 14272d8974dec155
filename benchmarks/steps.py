"""One step of a contestant, ready to be measured again and again."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.contestants import CONTESTANTS, make_batch
from benchmarks.entry import Size
from benchmarks.long_layoutlm_contestants import spatial_inputs
from benchmarks.summarizers import TARGET


def build(contestant: str, size: Size, device: torch.device) -> Any:
    """The model of a contestant, a name in `CONTESTANTS`; the same weights each time."""
    torch.manual_seed(0)
    model: Any = CONTESTANTS[contestant](size)
    return model.to(device)


def make_step(model: Any, step: str, size: Size, device: torch.device) -> Callable[[], None]:
    """
    Make a step and its batch.

    Args:
        model: a contestant.
        step: "training": gradients cleared, forward, loss, backward, AdamW; "inference": forward without gradients;
            "generation": 512 tokens, whatever they are.
        size: what it was built for.
        device: where it runs.
    """
    inputs = {**make_batch(size, model.config.vocab_size), **spatial_inputs(model.config, size)}
    batch = {name: tensor.to(device) for name, tensor in inputs.items()}
    if step == "training":
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

        def train() -> None:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return train

    model.eval()
    del batch["labels"]
    if step == "generation":
        target = min(TARGET, size.length)
        # Nothing ends a summary early, and no step is spent on forbidding the end.
        model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None

        def generate() -> None:
            beams = size.beams
            model.generate(**batch, max_new_tokens=target, num_beams=beams, do_sample=False)

        return generate

    def infer() -> None:
        with torch.inference_mode():
            model(**batch)

    return infer
