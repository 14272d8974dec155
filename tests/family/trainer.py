"""Two steps of Trainer on a spec's documents; run as a module under torchrun, on several processes."""

import sys
from pathlib import Path
from typing import Any

import torch
from tests.family.spec import MODEL, Batch, Case
from transformers import Trainer, TrainingArguments

from broadsheet.training.runs import leave_process_group


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


def train(
    case: Case, folder: Path, batch_size: int, accumulation: int, optimizer: str = "sgd"
) -> tuple[Any, list[float]]:
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
            optim=optimizer,
            lr_scheduler_type="constant",
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Documents(case, 16),
        data_collator=lambda rows: padded(case, rows),
    )
    trainer.train()
    return model, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main(model_type: str, folder: str) -> None:
    """Train every head of a member, four documents per process and step, and save what came of it."""
    from tests.family.members import MEMBERS

    spec = next(spec for spec in MEMBERS if spec.model_type == model_type)
    for head in spec.heads:
        if head == MODEL:
            continue
        model, losses = train(Case(spec, spec.variants[0], head), Path(folder) / head, 4, 1)
        assert torch.distributed.get_world_size() == 2
        if torch.distributed.get_rank() == 0:
            torch.save({"losses": losses, "weights": model.state_dict()}, Path(folder) / f"{head}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave_process_group()
