"""The cards that runs leave: what they tell to type loads the model."""

import re

import pytest

from broadsheet.training.finetune import main


@pytest.mark.parametrize(
    ("model_type", "processor"), [("skimformer", "SkimformerProcessor"), ("bert", "TextProcessor")]
)
def test_the_code_of_a_card_loads_the_model(arguments, tmp_path, monkeypatch, model_type, processor):
    small = "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16"
    changes = {} if model_type == "skimformer" else {"config_overrides": small}
    main(arguments(model_type=model_type, max_steps=1, **changes))
    card = (tmp_path / "out" / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(code, found)
    assert type(found["processor"]).__name__ == processor
    assert found["model"].config.model_type == model_type
