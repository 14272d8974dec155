from typing import Any

import torch
from tests.family.boxes import integer_box_faults, integer_boxes
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, SEQUENCE, TOKENS, Batch, ModelSpec, Variant
from tests.tokenizers import tiny_tokenizer

from broadsheet.modeling.configuration_skimming_mask import SkimmingMaskConfig
from broadsheet.modeling.modeling_skimming_mask import (
    SkimmingMaskForMaskedLM,
    SkimmingMaskForQuestionAnswering,
    SkimmingMaskForSequenceClassification,
    SkimmingMaskForTokenClassification,
    SkimmingMaskModel,
)
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

BACKBONE: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 60,
    "type_vocab_size": 2,
}
SKIM: dict[str, Any] = {
    "hidden_layout_size": 16,
    "num_attention_heads": 2,
    "skim_attention_head_size": 5,
    "num_attention_heads_layout_encoder": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 30,
}
ZERO_GRADIENTS = {
    r"\bskim\.": "the skim module is frozen: a choice of k tokens has no gradient",
    r"\bkey\.bias$": "a bias of the keys moves all scores of a query alike, which softmax takes out",
}
BOX_VARIANTS = ("bert", "sparse", "layoutlm", "roberta", "contextualized", "contextualized-unmasked", "degraded")


def make_document(config: SkimmingMaskConfig, length: int, generator: torch.Generator) -> Batch:
    return {
        "input_ids": torch.randint(5, config.vocab_size, (length,), generator=generator),
        "token_type_ids": torch.randint(config.type_vocab_size, (length,), generator=generator),
        "bbox": integer_boxes(length, 1001, generator),
    }


def token_limit(config: SkimmingMaskConfig) -> int:
    if config.skim_config.skim_input == "position":
        return config.skim_config.max_position_embeddings
    unused = config.pad_token_id + 1 if config.backbone_config.model_type == "roberta" else 0
    return config.max_position_embeddings - unused


def variant(name: str, backbone: str = "bert", form: str = "dense", top_k: int = 4, **skim: Any) -> Variant:
    return Variant(
        name,
        {
            "backbone_config": {**BACKBONE, "model_type": backbone},
            "skim_config": {**SKIM, **skim},
            "attention_form": form,
            "top_k": top_k,
        },
        zero_gradients=ZERO_GRADIENTS,
        leaks_padding=(
            "the authors' implementation runs the contextualizer without a mask"
            if skim.get("mask_layout_contextualizer") is False
            else None
        ),
        skips={"replicas": "transformers' LayoutLM asks for a parameter"} if backbone == "layoutlm" else {},
    )


SKIMMING_MASK = ModelSpec(
    config_class=SkimmingMaskConfig,
    config={"num_labels": 3},
    variants=(
        variant("bert"),
        variant("sparse", form="sparse"),
        variant("layoutlm", "layoutlm", "sparse"),
        variant("roberta", "roberta", "sparse"),
        variant("contextualized", contextualize_layout=True),
        variant("contextualized-unmasked", top_k=2, contextualize_layout=True, mask_layout_contextualizer=False),
        variant("degraded", skim_input="degraded"),
        variant("position", skim_input="position"),
    ),
    heads={
        MODEL: SkimmingMaskModel,
        MASKED_LM: SkimmingMaskForMaskedLM,
        TOKENS: SkimmingMaskForTokenClassification,
        SEQUENCE: SkimmingMaskForSequenceClassification,
        QUESTIONS: SkimmingMaskForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={"input_ids": 0, "token_type_ids": 0, "bbox": 0},
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: (
        [(batch, config.num_attention_heads, length, length)] * config.num_hidden_layers
    ),
    processor=lambda: SkimformerProcessor(tiny_tokenizer("wordpiece")),
    token_limit=token_limit,
    bad_inputs=integer_box_faults("SkimformerProcessor", 1023, BOX_VARIANTS),
)
