import json

import pytest
import torch
from tests.training.test_finetune import weights
from torch import nn

from broadsheet.training.finetune import main
from broadsheet.training.learning_rates import check_learning_rates, set_learning_rates


def model():
    return nn.ModuleDict({"body": nn.Linear(3, 3), "head": nn.Linear(3, 2)})


def test_named_parts_have_their_rates():
    network = model()
    groups = [
        {"params": [parameter for name, parameter in network.named_parameters() if "bias" not in name]},
        {"params": [parameter for name, parameter in network.named_parameters() if "bias" in name], "weight_decay": 0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.1, weight_decay=0.5)
    set_learning_rates(optimizer, network, {"head": 0.7})
    found = {
        name: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
        for name, own in network.named_parameters()
        if own is parameter
    }
    assert found == {
        "body.weight": (0.1, 0.5),
        "body.bias": (0.1, 0),
        "head.weight": (0.7, 0.5),
        "head.bias": (0.7, 0),
    }


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"head": "fast"}, "gives head the rate 'fast'; it is a number above 0"),
        ({"head": 0}, "gives head the rate 0"),
        ({"tail": 0.1}, "names 'tail', which is in no parameter's name"),
        ({"head": 0.1, "weight": 0.2}, r"gives head\.weight two rates, by 'head' and 'weight'"),
    ],
)
def test_refused(rates, message):
    with pytest.raises(ValueError, match=message):
        check_learning_rates(rates, model())


def test_a_run_with_rates(arguments, tmp_path):
    for name, rates in (("plain", None), ("still", "classifier=1e-30")):
        main(arguments(learning_rates=rates, output_dir=tmp_path / name, max_steps=2, lr_scheduler_type="constant"))
    results = json.loads((tmp_path / "still" / "results.json").read_text())
    assert results["budget"]["learning_rates"] == {"classifier": 1e-30}
    plain, still = weights(tmp_path / "plain"), weights(tmp_path / "still")
    assert not torch.equal(plain["classifier.weight"], still["classifier.weight"])
    # Adam moves every weight by about its rate at the first step, whatever the gradient.
    assert not still["classifier.bias"].abs().max() > 1e-20
