import torch
from tests.family.boxes import float_box_faults
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, SEQUENCE, TOKENS, Batch, ModelSpec, Parent, Variant
from tests.tokenizers import tiny_tokenizer
from transformers import (
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
)

from broadsheet.modeling.configuration_lambert import LambertConfig
from broadsheet.modeling.modeling_lambert import (
    LambertForMaskedLM,
    LambertForQuestionAnswering,
    LambertForSequenceClassification,
    LambertForTokenClassification,
    LambertModel,
)
from broadsheet.tokenization.processing_lambert import LambertProcessor

KEY_BIAS = {
    r"\bkey\.bias$": "a bias of the keys moves all scores of a query alike, which softmax takes out",
}


def make_document(config: LambertConfig, length: int, generator: torch.Generator) -> Batch:
    corners = torch.rand(length, 2, 2, generator=generator, dtype=torch.float64).sort(dim=1).values
    return {
        "input_ids": torch.randint(5, config.vocab_size, (length,), generator=generator),
        "token_type_ids": torch.randint(config.type_vocab_size, (length,), generator=generator),
        "bbox": corners.flatten(1).float(),
    }


LAMBERT = ModelSpec(
    config_class=LambertConfig,
    config={
        "vocab_size": 60,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 122,
        "max_sequential_distance": 20,
        "type_vocab_size": 2,
        "pad_token_id": 1,
        "num_labels": 3,
    },
    variants=(
        Variant("grid", zero_gradients=KEY_BIAS),
        Variant("log-buckets", {"relative_bias": "log_buckets"}, zero_gradients=KEY_BIAS),
        Variant("no-positions", {"use_sequential_embeddings": False}, zero_gradients=KEY_BIAS),
        Variant(
            "sequential-bias-alone",
            {"use_horizontal_bias": False, "use_vertical_bias": False, "use_layout_embeddings": False},
            zero_gradients=KEY_BIAS,
        ),
        Variant(
            "no-bias",
            {"use_sequential_bias": False, "use_horizontal_bias": False, "use_vertical_bias": False},
            zero_gradients=KEY_BIAS,
        ),
    ),
    heads={
        MODEL: LambertModel,
        MASKED_LM: LambertForMaskedLM,
        TOKENS: LambertForTokenClassification,
        SEQUENCE: LambertForSequenceClassification,
        QUESTIONS: LambertForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={"input_ids": 1, "token_type_ids": 0, "bbox": 0.0},
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: (
        [(batch, config.num_attention_heads, length, length)] * config.num_hidden_layers
    ),
    processor=lambda: LambertProcessor(tiny_tokenizer("bpe")),
    costly_variants=(),
    token_limit=lambda config: config.max_position_embeddings - 2 if config.use_sequential_embeddings else None,
    bad_inputs=float_box_faults("LambertProcessor", 100),
    parents=(
        Parent(
            config_class=RobertaConfig,
            config={
                "vocab_size": 60,
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 32,
                "max_position_embeddings": 22,
                "type_vocab_size": 1,
                "hidden_act": "relu",
                "layer_norm_eps": 1e-3,
            },
            heads={
                MODEL: RobertaModel,
                MASKED_LM: RobertaForMaskedLM,
                TOKENS: RobertaForTokenClassification,
                SEQUENCE: RobertaForSequenceClassification,
                QUESTIONS: RobertaForQuestionAnswering,
            },
            additions=(r"layout_adapter\.(weight|bias)$", r"relative_bias\.(sequential|horizontal|vertical)\.weight$"),
            overrides={"relative_bias": "log_buckets"},
            translated={"hidden_act": "relu", "layer_norm_eps": 1e-3, "max_position_embeddings": 22},
        ),
    ),
)
