from tests.family.boxes import integer_box_faults
from tests.family.members.skimformer import KEY_BIAS, make_document
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, SEQUENCE, TOKENS, ModelSpec, Parent, Variant
from tests.tokenizers import tiny_tokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from broadsheet.modeling.configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from broadsheet.modeling.modeling_bert_with_skim_embeddings import (
    BertWithSkimEmbeddingsForMaskedLM,
    BertWithSkimEmbeddingsForQuestionAnswering,
    BertWithSkimEmbeddingsForSequenceClassification,
    BertWithSkimEmbeddingsForTokenClassification,
    BertWithSkimEmbeddingsModel,
)
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

BERT_WITH_SKIM_EMBEDDINGS = ModelSpec(
    config_class=BertWithSkimEmbeddingsConfig,
    config={
        "vocab_size": 60,
        "hidden_size": 24,
        "hidden_layout_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 60,
        "num_labels": 3,
    },
    variants=(Variant("projected", zero_gradients=KEY_BIAS),),
    heads={
        MODEL: BertWithSkimEmbeddingsModel,
        MASKED_LM: BertWithSkimEmbeddingsForMaskedLM,
        TOKENS: BertWithSkimEmbeddingsForTokenClassification,
        SEQUENCE: BertWithSkimEmbeddingsForSequenceClassification,
        QUESTIONS: BertWithSkimEmbeddingsForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={"input_ids": 0, "token_type_ids": 0, "bbox": 0},
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: (
        [(batch, config.num_attention_heads, length, length)] * config.num_hidden_layers
    ),
    processor=lambda: SkimformerProcessor(tiny_tokenizer("wordpiece")),
    token_limit=lambda config: config.max_position_embeddings,
    bad_inputs=integer_box_faults("SkimformerProcessor", 1023),
    parents=(
        Parent(
            config_class=BertConfig,
            config={
                "vocab_size": 60,
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 32,
                "max_position_embeddings": 40,
                "hidden_act": "relu",
                "layer_norm_eps": 1e-5,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
                "num_labels": 3,
            },
            heads={
                MODEL: BertModel,
                MASKED_LM: BertForMaskedLM,
                TOKENS: BertForTokenClassification,
                SEQUENCE: BertForSequenceClassification,
                QUESTIONS: BertForQuestionAnswering,
            },
            additions=(r"embeddings\.[xywh]_position_(embeddings\.weight|projection\.(weight|bias))$",),
            overrides={"hidden_layout_size": 14, "num_labels": 7, "hidden_dropout_prob": 0.3},
            translated={"hidden_act": "relu", "layer_norm_eps": 1e-5, "max_position_embeddings": 40},
            inputs=("input_ids", "attention_mask", "token_type_ids"),
        ),
    ),
)
