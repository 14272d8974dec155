import json

import pytest

from broadsheet.training.evaluate import main as evaluate
from broadsheet.training.finetune import main

SIZES = "hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=32"


@pytest.mark.parametrize("model_type", ["bert", "layoutlm", *(pytest.param("roberta", marks=pytest.mark.slow),)])
def test_baselines_are_fine_tuned_and_measured_by_the_same_commands(model_type, arguments, funsd, cache, tmp_path):
    # Boxes are moved for models that read them; the others have none.
    main(arguments(model_type=model_type, config_overrides=SIZES, max_length=32, stride=8, box_augmentation=0.1))
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["model_type"] == model_type
    assert results["metrics"]["test"]["support"] == 3 * 7
    flags = ["--model_name_or_path", str(tmp_path / "out"), "--dataset", "funsd", "--data_dir", str(funsd)]
    flags += ["--cache_dir", cache, "--bootstrap_samples", "20", "--seed", "42", "--use_cpu"]
    evaluate([*flags, "--json", str(tmp_path / "measured.json")])
    assert json.loads((tmp_path / "measured.json").read_text())["metrics"] == results["metrics"]["test"]
