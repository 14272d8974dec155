"""Training: checkpointing, resized embeddings, Trainer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members import heads, variant_heads, variants
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, Batch, Case, assert_close, gradients, probe_loss
from transformers import Trainer, TrainingArguments


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


@heads()
def test_resized_embeddings(case: Case, tmp_path: Path) -> None:
    model = case.model()
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
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
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


class Documents(torch.utils.data.Dataset):
    """Documents with labels, as many labelled tokens in each as it pleases."""

    def __init__(self, case: Case, count: int):
        config = case.config()
        lengths = [3 + 4 * (index % 3) for index in range(count)]
        self.rows = [case.labelled_batch(config, (length,), seed) for seed, length in enumerate(lengths)]
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Batch:
        return {name: value[0] for name, value in self.rows[index].items()}


def padded(case: Case, rows: list[Batch]) -> Batch:
    """A collator for the tests: the spec's own padding, and -100 for labels."""
    names = [name for name in rows[0] if name not in ("attention_mask", "labels", "start_positions", "end_positions")]
    batch = case.spec.collate(case.config(), [{name: row[name] for name in names} for row in rows])
    for name in ("labels", "start_positions", "end_positions"):
        if name in rows[0]:
            values = [row[name] for row in rows]
            ragged = values[0].dim() > 0
            batch[name] = (
                torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=-100)
                if ragged
                else torch.stack(values)
            )
    return batch


def train(case: Case, folder: Path, batch_size: int, accumulation: int, **arguments: Any) -> tuple[Any, list[float]]:
    """Two steps of Trainer over eight documents each; the model and the logged losses."""
    model = case.model(torch.float32)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            max_steps=2,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            **arguments,
        ),
        train_dataset=Documents(case, 16),
        data_collator=lambda rows: padded(case, rows),
    )
    trainer.train()
    return model, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


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
    """Trainer: 1 x 8 documents, 4 x 2 and 8 x 1 end in the same weights, with the same losses."""
    expected, losses = train(case, tmp_path, 8, 1, optim=optimizer)
    for batch_size, accumulation in ((2, 4), (1, 8)):
        model, accumulated = train(case, tmp_path, batch_size, accumulation, optim=optimizer)
        assert accumulated == pytest.approx(losses, rel=1e-3)
        assert_close(trained_weights(case, model), trained_weights(case, expected), 1e-4)
    moved = Case(case.spec, case.variant, case.head).model(torch.float32)
    assert any(
        not torch.allclose(value, other, atol=1e-3)
        for value, other in zip(expected.parameters(), moved.parameters(), strict=True)
    )


@heads(MODEL)
def test_trainer_keeps_every_input(case: Case) -> None:
    """Trainer drops the columns that `forward` does not name."""
    import inspect

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
