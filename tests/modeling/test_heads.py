"""The shared heads against those of BERT and RoBERTa, whose names their parameters carry."""

from types import SimpleNamespace

import pytest
import torch
from tests.family.spec import disturb
from transformers import BertConfig, RobertaConfig
from transformers.models.bert.modeling_bert import BertOnlyMLMHead, BertPooler
from transformers.models.roberta.modeling_roberta import RobertaLMHead

from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.heads import (
    BertMaskedLMHead,
    FirstTokenPooler,
    RobertaMaskedLMHead,
    classifier_dropout,
    linear_classifier,
)
from broadsheet.modeling.modeling_skimformer import SkimformerForSequenceClassification

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


@pytest.mark.parametrize("problem_type", ["regression", "single_label_classification", "multi_label_classification"])
def test_a_share_of_the_loss_of_accumulated_batches(problem_type: str) -> None:
    config = SkimformerConfig(**SIZES, num_hidden_layers=1, num_labels=3, problem_type=problem_type)
    model = SkimformerForSequenceClassification(config).eval()
    ids, bbox = torch.arange(8).view(4, 2), torch.zeros(4, 2, 4, dtype=torch.long)
    labels = torch.eye(3)[[0, 2, 1, 1]]
    if problem_type == "single_label_classification":
        labels = labels.argmax(-1)
    whole = model(ids, bbox, labels=labels).loss
    items = labels.ne(-100).sum()  # as Trainer counts
    shares = [
        model(ids[part], bbox[part], labels=labels[part], num_items_in_batch=count).loss
        for part, count in ((slice(1), items), (slice(1, 4), int(items)))
    ]
    torch.testing.assert_close(sum(shares), whole)
