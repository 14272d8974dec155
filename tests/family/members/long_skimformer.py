import torch
from tests.family.boxes import integer_box_faults
from tests.family.members.skimformer import KEY_BIAS, SKIMFORMER, UNIFORM
from tests.family.members.skimformer import make_document as make_skimformer_document
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, SEQUENCE, TOKENS, Batch, ModelSpec, Variant
from tests.tokenizers import tiny_tokenizer

from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.modeling_long_skimformer import (
    LongSkimformerForMaskedLM,
    LongSkimformerForQuestionAnswering,
    LongSkimformerForSequenceClassification,
    LongSkimformerForTokenClassification,
    LongSkimformerModel,
)
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

GLOBAL = {r"(query|key|value)_global": "no token is global here", **KEY_BIAS}
WITH_GLOBAL = {r"key(_global)?\.bias$": KEY_BIAS[r"\bkey\.bias$"]}


def make_document(config: LongSkimformerConfig, length: int, generator: torch.Generator) -> Batch:
    return make_skimformer_document(config, length, generator)


LONG_SKIMFORMER = ModelSpec(
    config_class=LongSkimformerConfig,
    config={**SKIMFORMER.config, "attention_window": 6},
    variants=(
        Variant("window", zero_gradients=GLOBAL),
        Variant("recomputed", {"skim_recompute_length": 4}, zero_gradients=GLOBAL),
        Variant("uniform", {"skim_input": "uniform"}, zero_gradients={**GLOBAL, **UNIFORM}),
        Variant("contextualized", {"contextualize_layout": True}, zero_gradients=GLOBAL),
    ),
    heads={
        MODEL: LongSkimformerModel,
        MASKED_LM: LongSkimformerForMaskedLM,
        TOKENS: LongSkimformerForTokenClassification,
        SEQUENCE: LongSkimformerForSequenceClassification,
        QUESTIONS: LongSkimformerForQuestionAnswering,
    },
    make_document=make_document,
    pad_values=SKIMFORMER.pad_values,
    hidden_states=SKIMFORMER.hidden_states,
    attentions=SKIMFORMER.attentions,
    processor=lambda: SkimformerProcessor(tiny_tokenizer("wordpiece")),
    costly_variants=("contextualized",),
    bad_inputs=integer_box_faults("SkimformerProcessor", 1023, ("window", "recomputed", "contextualized")),
)
