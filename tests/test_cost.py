"""The accounting of Table 4, and the counts of what is really computed."""

import pytest
import torch
from transformers import BertConfig, GPT2Config, LayoutLMConfig, LongformerConfig

from broadsheet.cost import attention_cost
from broadsheet.modeling.configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.configuration_skimming_mask import SkimmingMaskConfig
from broadsheet.modeling.sparse_attention import dense_mask, window_table
from broadsheet.tokenization.input_checks import InputError

SKIM = {"contextualize_layout": True}


def masked(top_k: int, backbone: str = "bert") -> SkimmingMaskConfig:
    return SkimmingMaskConfig(backbone_config={"model_type": backbone}, skim_config=SKIM, top_k=top_k)


@pytest.mark.parametrize(
    ("config", "length", "standard", "skim", "percent"),
    [
        (BertConfig(), 512, 12, 0, 100),
        (LayoutLMConfig(), 512, 12, 0, 100),
        (SkimformerConfig(contextualize_layout=True), 512, 0, 3, 25),
        (BertWithSkimEmbeddingsConfig(), 512, 12, 0, 100),
        (masked(128), 512, 12, 3, 31.25),
        (masked(128, "layoutlm"), 512, 12, 3, 31.25),
        (LongformerConfig(), 2048, 12, 0, 100),
        (LongSkimformerConfig(contextualize_layout=True), 2048, 0, 3, 25),
    ],
    ids=lambda value: getattr(value, "model_type", None),
)
def test_table_4_of_the_paper(config: object, length: int, standard: int, skim: int, percent: float) -> None:
    cost = attention_cost(config, length)
    assert (cost.standard_attentions, cost.skim_attentions) == (standard, skim)
    assert cost.formula_share == pytest.approx(percent / 100)


def test_products_left_when_each_query_skips_its_own() -> None:
    short, long = attention_cost(masked(128), 512), attention_cost(masked(128), 2048)
    assert short.products_share == pytest.approx(0.5)
    assert long.products_share == pytest.approx(0.3125)
    assert round(100 * long.formula_share, 1) == 25.4
    assert long.attended == 128
    assert attention_cost(masked(4096), 512).formula_share == pytest.approx(1.25)


def test_without_contextualizer() -> None:
    assert attention_cost(SkimformerConfig(), 512).formula_share == pytest.approx(1 / 12)


@pytest.mark.parametrize("length", [1, 2, 5, 30])
def test_window_counts_what_the_window_allows(length: int) -> None:
    config = LongSkimformerConfig(attention_window=8)
    allowed = int(dense_mask(window_table(length, 4, 4, 16), length).sum())
    assert attention_cost(config, length).products == allowed
    assert torch.tensor(attention_cost(config, length).peer_products) == 12 * allowed


def test_refuses() -> None:
    with pytest.raises(InputError, match="length of 1 or more"):
        attention_cost(BertConfig(), 0)
    with pytest.raises(InputError, match="'gpt2' is not counted here"):
        attention_cost(GPT2Config(), 4)
