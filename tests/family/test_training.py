"""Training: checkpointing, resized embeddings, Trainer."""

import inspect
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members import heads, types, variant_heads, variants
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, TOKENS, Case, assert_close, gradients, probe_loss
from tests.family.trainer import train

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("dropout", [0.0, 0.2], ids=["no dropout", "dropout"])
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non-reentrant"])
@variants()
def test_gradient_checkpointing(case: Case, reentrant: bool, dropout: float) -> None:
    case = Case(case.spec, case.variant, QUESTIONS if QUESTIONS in case.spec.heads else MODEL)
    results = []
    for checkpointing in (False, True):
        model = case.model(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout).train()
        batch = case.labelled_batch(model.config)
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": reentrant})
        torch.manual_seed(4)
        outputs = model(**batch)
        for _ in range(2):  # the second time adds
            probe_loss(outputs, batch["attention_mask"]).backward(retain_graph=True)
        results.append((outputs.to_tuple()[:2], gradients(model)))
    for actual, expected in zip(results[1][0], results[0][0], strict=True):
        assert_close(actual, expected)
    assert_close(results[1][1], results[0][1])


@variants()
def test_gradient_checkpointing_keeps_less(case: Case) -> None:
    def saved(checkpointing: bool) -> int:
        numbers: list[int] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            numbers.append(tensor.numel())
            return tensor

        model = case.model(torch.float32).train()
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": False})
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(**case.batch(model.config))
        return sum(numbers)

    assert saved(True) < 0.7 * saved(False)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@heads()
def test_resized_embeddings(case: Case, tied: bool, tmp_path: Path) -> None:
    model = case.model(tie_word_embeddings=tied)
    size = model.config.vocab_size
    batch = case.labelled_batch(model.config)
    with torch.no_grad():
        before = model(**batch)
    model.resize_token_embeddings(size + 7)
    assert model.config.vocab_size == size + 7
    assert model.get_input_embeddings().weight.shape[0] == size + 7
    with torch.no_grad():
        after = model(**batch)
    if case.head == MASKED_LM:
        assert after.logits.shape[-1] == size + 7
        assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied
        assert model.get_output_embeddings().bias.shape == (size + 7,)
        assert_close(after.logits[..., :size], before.logits)
    else:
        assert_close(after.to_tuple()[-1], before.to_tuple()[-1])
    batch["input_ids"][0, 1] = size + 6
    outputs = model(**batch)
    probe_loss(outputs, batch["attention_mask"]).backward()
    assert (model.get_input_embeddings().weight.grad[size + 6] != 0).any()

    model.float().save_pretrained(tmp_path)
    reloaded = type(model).from_pretrained(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(reloaded.state_dict()[name], value), name
    model.resize_token_embeddings(size - 9)
    assert model.get_input_embeddings().weight.shape[0] == size - 9


def trained_weights(case: Case, model: Any) -> dict[str, torch.Tensor]:
    """All but those whose gradient is zero by the mathematics, of which Adam makes noise."""
    untrained = case.model()
    untrained(**case.labelled_batch(untrained.config)).loss.backward()
    sizes = {name: float(gradient.abs().max()) for name, gradient in gradients(untrained).items()}
    threshold = 1e-6 * max(sizes.values())
    return {name: value.detach() for name, value in model.named_parameters() if sizes[name] > threshold}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw_torch"])
@heads(MODEL)
def test_gradient_accumulation(case: Case, optimizer: str, tmp_path: Path) -> None:
    """Trainer: 1 x 8 documents and 4 x 2 end in the same weights, with the same losses."""
    if optimizer != "sgd" and case.head != TOKENS:
        pytest.skip("one head with Adam is enough")
    expected, losses = train(case, tmp_path, 8, 1, optimizer)
    model, accumulated = train(case, tmp_path, 2, 4, optimizer)
    assert accumulated == pytest.approx(losses, rel=1e-3)
    assert_close(trained_weights(case, model), trained_weights(case, expected), 1e-4)
    moved = Case(case.spec, case.variant, case.head).model(torch.float32)
    assert any(
        not torch.allclose(value, other, atol=1e-3)
        for value, other in zip(expected.parameters(), moved.parameters(), strict=True)
    )


@pytest.mark.slow
@types()
def test_two_processes(case: Case, tmp_path: Path) -> None:
    """Two processes of four documents each are one of eight: the same losses, the same weights, every head."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port()]
    command += ["-m", "tests.family.trainer", case.spec.model_type, str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr[-3000:]
    for head in case.spec.heads:
        if head == MODEL:
            continue
        expected, losses = train(Case(case.spec, case.variant, head), tmp_path, 8, 1)
        found = torch.load(tmp_path / f"{head}.pt", weights_only=True)
        assert found["losses"] == pytest.approx(losses, rel=1e-3), head
        assert_close(found["weights"], expected.state_dict(), 1e-4)


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@heads(MODEL)
def test_trainer_keeps_every_input(case: Case) -> None:
    """Trainer drops the columns that `forward` does not name."""
    config = case.config()
    names = set(inspect.signature(case.spec.heads[case.head].forward).parameters)
    assert set(case.labelled_batch(config)) <= names


@variant_heads(MODEL)
def test_frozen_encoder(case: Case) -> None:
    """Only the head in training, as in linear probing."""
    model = case.model().train()
    model.base_model.requires_grad_(False)
    batch = case.labelled_batch(model.config)
    model(**batch).loss.backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained
    assert not any(name.startswith(model.base_model_prefix) for name in trained)
