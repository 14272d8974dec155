"""BertWithSkimEmbeddings: the six projected lookups, and what it takes from its two models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.boxes import integer_boxes
from tests.family.spec import disturb
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    RobertaConfig,
    RobertaModel,
)

from broadsheet.modeling.configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_bert_with_skim_embeddings import (
    BertWithSkimEmbeddingsForMaskedLM,
    BertWithSkimEmbeddingsForSequenceClassification,
    BertWithSkimEmbeddingsForTokenClassification,
    BertWithSkimEmbeddingsModel,
)
from broadsheet.modeling.modeling_skimformer import SkimformerForMaskedLM

TEXT = {
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "num_labels": 3,
}


def skimformer(**changes: Any) -> Any:
    torch.manual_seed(0)
    return disturb(SkimformerForMaskedLM(SkimformerConfig(**{**TEXT, "hidden_layout_size": 10, **changes})))


def bert(model_class: Any = BertModel) -> Any:
    torch.manual_seed(1)
    return disturb(model_class(BertConfig(**TEXT))).eval()


def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {
        "input_ids": torch.randint(5, 60, (2, 9), generator=generator),
        "bbox": torch.stack([integer_boxes(9, 1001, generator) for _ in range(2)]),
    }


def test_six_lookups_each_projected_with_its_bias() -> None:
    torch.manual_seed(0)
    embeddings = disturb(BertWithSkimEmbeddingsModel(BertWithSkimEmbeddingsConfig(**TEXT))).embeddings
    box = [3, 50, 40, 1000]
    expected = torch.zeros(24)
    for name, rows in (("x", (3, 40)), ("y", (50, 1000)), ("w", (37,)), ("h", (950,))):
        table = getattr(embeddings, f"{name}_position_embeddings").weight
        projection = getattr(embeddings, f"{name}_position_projection")
        for row in rows:
            expected = expected + projection.weight @ table[row] + projection.bias
    torch.testing.assert_close(embeddings.embed_layout(torch.tensor([[box]]))[0, 0], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BertWithSkimEmbeddingsModel, BertModel),
        (BertWithSkimEmbeddingsForMaskedLM, BertForMaskedLM),
        (BertWithSkimEmbeddingsForTokenClassification, BertForTokenClassification),
        (BertWithSkimEmbeddingsForSequenceClassification, BertForSequenceClassification),
    ],
)
def test_from_both(ours: Any, theirs: Any, tmp_path: Path) -> None:
    """Tables from the Skimformer; at zero projections the BERT itself; from models and from checkpoints alike."""
    source, skim, inputs = bert(theirs), skimformer(), batch()
    source.save_pretrained(tmp_path / "bert")
    skim.save_pretrained(tmp_path / "skimformer")
    with torch.no_grad():
        expected = source(input_ids=inputs["input_ids"])[0]
    for parts in ((source, skim), (tmp_path / "bert", tmp_path / "skimformer")):
        model = ours.from_bert_and_skimformer(*parts, zero_projections=True)
        assert not model.training
        assert model.config.hidden_layout_size == 10
        for name in "xywh":
            mine = getattr(model.base_model.embeddings, f"{name}_position_embeddings").weight
            assert torch.equal(mine, getattr(skim.skimformer.layout_embeddings, f"{name}_position_embeddings").weight)
        with torch.no_grad():
            torch.testing.assert_close(model(**inputs)[0], expected, rtol=0, atol=1e-5)
        fresh = ours.from_bert_and_skimformer(*parts)
        weight = fresh.base_model.embeddings.x_position_projection.weight
        assert 0.01 < weight.std() < 0.03
        with torch.no_grad():
            assert not torch.allclose(fresh(**inputs)[0], expected, atol=1e-3)


def test_fields_of_the_config_may_be_set() -> None:
    source = bert(BertForTokenClassification)
    model = BertWithSkimEmbeddingsForTokenClassification.from_bert_and_skimformer(source, skimformer(), num_labels=7)
    assert model.classifier.weight.shape == (7, 24)


@pytest.mark.parametrize("heads", [0, -12])
def test_there_is_a_head_at_least(heads: int) -> None:
    with pytest.raises(Exception, match=f"num_attention_heads={heads} is too small; set it to 1 or more"):
        BertWithSkimEmbeddingsConfig(num_attention_heads=heads)


def test_refuses_what_cannot_take_its_part() -> None:
    with pytest.raises(ValueError, match="'roberta' was passed as the BERT"):
        BertWithSkimEmbeddingsModel.from_bert_and_skimformer(RobertaModel(RobertaConfig(**TEXT)), skimformer())
    with pytest.raises(ValueError, match='skim_input="degraded".*pass one with skim_input="layout"'):
        BertWithSkimEmbeddingsModel.from_bert_and_skimformer(bert(), skimformer(skim_input="degraded"))
    with pytest.raises(ValueError, match="'bert' was passed as the Skimformer"):
        BertWithSkimEmbeddingsModel.from_bert_and_skimformer(bert(), bert())
    with pytest.raises(ValueError, match="is a decoder"):
        BertWithSkimEmbeddingsConfig.from_dict({**BertConfig(**TEXT, is_decoder=True).to_dict()})
