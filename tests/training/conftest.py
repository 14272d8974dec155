from pathlib import Path

import pytest
from tests.dataset_scripts.funsd_files import write_funsd

TINY = (
    "hidden_size=16,hidden_layout_size=16,num_hidden_layers=2,num_attention_heads=2,skim_attention_head_size=8,"
    "intermediate_size=32"
)


@pytest.fixture(scope="session")
def funsd(tmp_path_factory) -> Path:
    return write_funsd(tmp_path_factory.mktemp("funsd"), train=8, test=3)


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def arguments(funsd, cache, tmp_path):
    """Flags of a run of seconds; keyword arguments replace or add some, None removes."""

    def make(**changes) -> list[str]:
        flags = {
            "dataset": "funsd",
            "data_dir": funsd,
            "cache_dir": cache,
            "output_dir": tmp_path / "out",
            "model_type": "skimformer",
            "config_overrides": TINY,
            "tokenizer_vocab_size": 200,
            "max_steps": 4,
            "per_device_train_batch_size": 2,
            "learning_rate": 1e-3,
            "eval_strategy": "no",
            "save_strategy": "no",
            "load_best_model_at_end": False,
            "use_cpu": True,
            "disable_tqdm": True,
            "bootstrap_samples": 20,
            **changes,
        }
        return [part for name, value in flags.items() if value is not None for part in (f"--{name}", str(value))]

    return make
