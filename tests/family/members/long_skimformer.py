import torch
from tests.family.boxes import integer_box_faults
from tests.family.members.skimformer import KEY_BIAS, SKIMFORMER
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

ZERO_GRADIENTS = {
    r"\bkey(_global)?\.bias$": KEY_BIAS[r"\bkey\.bias$"],
    r"^ForSequenceClassification .*\bencoder\.layer\.2\.attention\.self\.value\.": (
        "the class is read from the first token alone, which is global and has values of its own"
    ),
}


def make_document(config: LongSkimformerConfig, length: int, generator: torch.Generator) -> Batch:
    """The first token is global, and about one in six others."""
    is_global = torch.rand(length, generator=generator) < 0.16
    is_global[0] = True
    document = make_skimformer_document(config, length, generator)
    return {**document, "global_attention_mask": is_global.long()}


LONG_SKIMFORMER = ModelSpec(
    config_class=LongSkimformerConfig,
    config={**SKIMFORMER.config, "attention_window": 6},
    variants=(
        Variant("window", zero_gradients=ZERO_GRADIENTS),
        Variant("recomputed", {"skim_recompute_length": 4}, zero_gradients=ZERO_GRADIENTS),
        Variant("contextualized", {"contextualize_layout": True}, zero_gradients=ZERO_GRADIENTS),
    ),
    heads={
        MODEL: LongSkimformerModel,
        MASKED_LM: LongSkimformerForMaskedLM,
        TOKENS: LongSkimformerForTokenClassification,
        SEQUENCE: LongSkimformerForSequenceClassification,
        QUESTIONS: LongSkimformerForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={**SKIMFORMER.pad_values, "global_attention_mask": 0},
    hidden_states=SKIMFORMER.hidden_states,
    attentions=SKIMFORMER.attentions,
    processor=lambda: SkimformerProcessor(tiny_tokenizer("wordpiece")),
    costly_variants=("contextualized",),
    bad_inputs=integer_box_faults("SkimformerProcessor", 1023, ("window", "recomputed", "contextualized")),
)
