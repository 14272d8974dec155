import json
from types import SimpleNamespace

import pytest
from torch.utils.data import SequentialSampler

from broadsheet.training.augmentation import AugmentingTrainer
from broadsheet.training.evaluate import main as evaluate
from broadsheet.training.finetune import main
from broadsheet.training.masked_lm import MaskedLMTrainer
from broadsheet.training.summarize import SummaryTrainer


def test_training_by_length_leaves_the_order_of_predictions(arguments, funsd, cache, tmp_path):
    """Windows of very different lengths: predictions in another order would be merged into other documents."""
    main(
        arguments(
            train_sampling_strategy="group_by_length",
            max_steps=40,
            learning_rate=1e-2,
            max_length=16,
            stride=2,
            box_level="segment",
            validation_fraction=0,
            per_device_eval_batch_size=2,
        )  # fmt: skip
    )
    of_the_run = json.loads((tmp_path / "out" / "results.json").read_text())["metrics"]["test"]
    flags = ["--model_name_or_path", str(tmp_path / "out"), "--dataset", "funsd", "--data_dir", str(funsd)]
    flags += ["--cache_dir", cache, "--bootstrap_samples", "20", "--seed", "42", "--use_cpu"]
    evaluate([*flags, "--json", str(tmp_path / "e.json")])
    measured = json.loads((tmp_path / "e.json").read_text())["metrics"]
    assert measured["f1"] > 0.3
    assert measured == of_the_run


@pytest.mark.parametrize("kind", [AugmentingTrainer, MaskedLMTrainer, SummaryTrainer])
def test_trainers_evaluate_in_order(kind):
    trainer = kind.__new__(kind)
    trainer.args = SimpleNamespace(train_sampling_strategy="group_by_length", world_size=1)
    assert isinstance(trainer._get_eval_sampler([3, 1, 2]), SequentialSampler)
    assert trainer.args.train_sampling_strategy == "group_by_length"
