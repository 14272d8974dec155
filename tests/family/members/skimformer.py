import torch
from tests.family.boxes import integer_box_faults, integer_boxes
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, SEQUENCE, TOKENS, Batch, ModelSpec, Variant
from tests.tokenizers import tiny_tokenizer

from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_skimformer import (
    SkimformerForMaskedLM,
    SkimformerForQuestionAnswering,
    SkimformerForSequenceClassification,
    SkimformerForTokenClassification,
    SkimformerModel,
)
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

KEY_BIAS = {r"\bkey\.bias$": "a bias of the keys moves all scores of a query alike, which softmax takes out"}
UNIFORM = {r"layout_embeddings|skim_attention": "equal boxes give 1/n whatever the parameters are"}
BOX_VARIANTS = ("layout", "recomputed", "value-size", "degraded", "contextualized", "contextualized-unmasked")


def make_document(config: SkimformerConfig, length: int, generator: torch.Generator) -> Batch:
    return {
        "input_ids": torch.randint(5, config.vocab_size, (length,), generator=generator),
        "token_type_ids": torch.randint(config.type_vocab_size, (length,), generator=generator),
        "bbox": integer_boxes(length, 1001, generator),
    }


SKIMFORMER = ModelSpec(
    config_class=SkimformerConfig,
    config={
        "vocab_size": 60,
        "hidden_size": 24,
        "hidden_layout_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "skim_attention_head_size": 5,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 20,
        "num_attention_heads_layout_encoder": 4,
        "num_labels": 3,
    },
    variants=(
        Variant("layout", zero_gradients=KEY_BIAS),
        Variant("recomputed", {"skim_recompute_length": 4}, zero_gradients=KEY_BIAS),
        Variant("value-size", {"attention_head_size": 7, "skim_recompute_length": 12}, zero_gradients=KEY_BIAS),
        Variant("position", {"skim_input": "position"}, zero_gradients=KEY_BIAS),
        Variant("uniform", {"skim_input": "uniform"}, zero_gradients=UNIFORM),
        Variant("degraded", {"skim_input": "degraded"}, zero_gradients=KEY_BIAS),
        Variant("contextualized", {"contextualize_layout": True}, zero_gradients=KEY_BIAS),
        Variant(
            "contextualized-unmasked",
            {"contextualize_layout": True, "mask_layout_contextualizer": False},
            zero_gradients=KEY_BIAS,
            leaks_padding="the authors' implementation runs the contextualizer without a mask",
        ),
    ),
    heads={
        MODEL: SkimformerModel,
        MASKED_LM: SkimformerForMaskedLM,
        TOKENS: SkimformerForTokenClassification,
        SEQUENCE: SkimformerForSequenceClassification,
        QUESTIONS: SkimformerForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={"input_ids": 0, "token_type_ids": 0, "bbox": 0},
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: [(batch, config.num_attention_heads, length, length)],
    processor=lambda: SkimformerProcessor(tiny_tokenizer("wordpiece")),
    costly_variants=("value-size", "contextualized"),
    token_limit=lambda config: config.max_position_embeddings if config.skim_input == "position" else None,
    bad_inputs=integer_box_faults("SkimformerProcessor", 1023, BOX_VARIANTS),
)
