"""What a benchmark's step does."""

import pytest
import torch
from benchmarks.entry import Size
from benchmarks.steps import build, make_step


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("name", ["led", "blockwise-6+6", "deep-pyramidion"])
def test_summaries_of_full_length_are_written(name, beams, monkeypatch):
    """Also where the end would be the next token."""
    size, device = Size(16, 2, 0.1, tiny=True, beams=beams), torch.device("cpu")
    model = build(name, size, device)
    with torch.no_grad():
        model.get_output_embeddings().weight[model.config.eos_token_id] *= 100
    written = []
    generate = model.generate
    monkeypatch.setattr(model, "generate", lambda **kwargs: written.append(generate(**kwargs)))
    make_step(model, "generation", size, device)()
    (tokens,) = written
    assert tokens.shape == (2, 17)
