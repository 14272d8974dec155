"""The shared heads against those of BERT and RoBERTa, whose names their parameters carry."""

from types import SimpleNamespace

import pytest
import torch
from tests.family.spec import disturb
from transformers import BertConfig, RobertaConfig
from transformers.models.bert.modeling_bert import BertOnlyMLMHead, BertPooler
from transformers.models.roberta.modeling_roberta import RobertaLMHead

from broadsheet.modeling.heads import (
    BertMaskedLMHead,
    FirstTokenPooler,
    RobertaMaskedLMHead,
    classifier_dropout,
    linear_classifier,
)

SIZES = {"vocab_size": 17, "hidden_size": 12, "num_attention_heads": 3}


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
@pytest.mark.parametrize("parent", ["bert", "roberta"])
def test_masked_lm_heads_are_the_parents(parent: str, activation: str) -> None:
    if parent == "bert":
        config = BertConfig(**SIZES, hidden_act=activation)
        theirs, ours = BertOnlyMLMHead(config), BertMaskedLMHead(config)
        theirs.predictions.decoder.bias = theirs.predictions.bias  # as post_init ties them
        ours.predictions.decoder.bias = ours.predictions.bias
    else:
        config = RobertaConfig(**SIZES, hidden_act=activation)  # its head has gelu whatever the config says
        theirs, ours = RobertaLMHead(config), RobertaMaskedLMHead(config)
        theirs.decoder.bias = theirs.bias
        ours.decoder.bias = ours.bias
    disturb(theirs)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())
    states = torch.randn(2, 5, 12)
    assert torch.equal(ours(states), theirs(states))
    assert ours(states).shape == (2, 5, 17)


def test_pooler_is_berts() -> None:
    theirs, ours = disturb(BertPooler(BertConfig(**SIZES))), FirstTokenPooler(12)
    ours.load_state_dict(theirs.state_dict())
    states = torch.randn(2, 5, 12)
    assert torch.equal(ours(states), theirs(states))


def test_classifier_dropout_falls_back_on_the_hidden_dropout() -> None:
    assert classifier_dropout(SimpleNamespace(classifier_dropout=None, hidden_dropout_prob=0.3)).p == 0.3
    assert classifier_dropout(SimpleNamespace(classifier_dropout=0.0, hidden_dropout_prob=0.3)).p == 0.0
    assert linear_classifier(SimpleNamespace(hidden_size=4, num_labels=3)).weight.shape == (3, 4)
