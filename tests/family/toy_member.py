"""
The smallest family member that starts from a parent: a RoBERTa or BERT with a linear layout addition, zero at first.
It proves the warm-start tests while no member of the family has a parent; nothing else uses it.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from tests.family.boxes import integer_boxes
from tests.family.spec import MASKED_LM, MODEL, QUESTIONS, SEQUENCE, TOKENS, Batch, ModelSpec, Parent, Variant
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    PreTrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForTokenClassification,
    RobertaModel,
)
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import can_return_tuple

from broadsheet.modeling.encoder_layer import EncoderLayer, SelfAttention
from broadsheet.modeling.heads import EncoderHeadMixin, FirstTokenPooler, RobertaMaskedLMHead, init_heads
from broadsheet.modeling.warm_start import WarmStartConfigMixin, WarmStartModelMixin


def from_roberta(config: dict[str, Any]) -> dict[str, Any]:
    """RoBERTa's position table has `pad_token_id + 1` rows more than it has positions."""
    offset = config.pop("pad_token_id", 1) + 1
    config["first_position"] = offset
    config["num_positions"] = config.pop("max_position_embeddings") - offset
    return config


def from_bert(config: dict[str, Any]) -> dict[str, Any]:
    config["num_positions"] = config.pop("max_position_embeddings")
    return config


@strict
class ToyConfig(WarmStartConfigMixin, PreTrainedConfig):
    model_type = "toy"
    parents: ClassVar[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
        "roberta": from_roberta,
        "bert": from_bert,
    }

    vocab_size: int = 60
    hidden_size: int = 16
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    intermediate_size: int = 20
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.0
    attention_probs_dropout_prob: float | int = 0.0
    type_vocab_size: int = 1
    num_positions: int = 40
    first_position: int = 0
    layer_norm_eps: float | int = 1e-12
    initializer_range: float | int = 0.02
    layout_scale: float | int = 1000
    tie_word_embeddings: bool = True


class ToyLayout(nn.Linear):
    """Zero at first, so that the model equals its parent; a class of its own, so that the zeros survive."""


class ToyEmbeddings(nn.Module):
    def __init__(self, config: ToyConfig):
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size)
        self.position_embeddings = nn.Embedding(config.first_position + config.num_positions, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.layout = ToyLayout(4, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.config = config

    def forward(self, input_ids: torch.Tensor, bbox: torch.Tensor) -> torch.Tensor:
        first = self.config.first_position
        positions = self.position_embeddings.weight[first : first + input_ids.shape[1]]
        words = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0] + positions
        layout = bbox.to(self.layout.weight.dtype) / self.config.layout_scale
        return self.LayerNorm(words + self.layout(layout))


class ToyPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    config: ToyConfig
    config_class = ToyConfig
    base_model_prefix = "toy"
    _supports_sdpa = True
    parent_weights: ClassVar[dict[str, dict[str, str]]] = {
        "roberta": {r"^roberta\.": "toy."},
        "bert": {
            r"^bert\.": "toy.",
            r"^cls\.predictions\.transform\.dense\.": "lm_head.dense.",
            r"^cls\.predictions\.transform\.LayerNorm\.": "lm_head.layer_norm.",
            r"^cls\.predictions\.bias$": "lm_head.bias",
        },
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)
        if isinstance(module, ToyLayout):
            init.zeros_(module.weight)
            init.zeros_(module.bias)


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config: ToyConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        size, heads = config.hidden_size, config.num_attention_heads
        self.embeddings = ToyEmbeddings(config)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(
            EncoderLayer(
                SelfAttention(config, size, heads, 0.0),
                attention_size=size,
                hidden_size=size,
                intermediate_size=config.intermediate_size,
                activation=config.hidden_act,
                eps=config.layer_norm_eps,
                dropout=config.hidden_dropout_prob,
            )
            for _ in range(config.num_hidden_layers)
        )
        self.pooler = FirstTokenPooler(size) if add_pooling_layer else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings.word_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        states = self.embeddings(input_ids, bbox)
        mask = create_bidirectional_mask(self.config, states, attention_mask)
        for layer in self.encoder.layer:
            states = layer(states, mask)
        return BaseModelOutputWithPooling(states, None if self.pooler is None else self.pooler(states))


class ToyForMaskedLM(ToyPreTrainedModel):
    _tied_weights_keys = {
        "lm_head.decoder.weight": "toy.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.toy = ToyModel(config, add_pooling_layer=False)
        self.lm_head = RobertaMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    @can_return_tuple
    def forward(self, input_ids: Any, bbox: Any, attention_mask: Any = None, labels: Any = None, **kwargs: Any) -> Any:
        outputs = self.toy(input_ids, bbox, attention_mask)
        return self.masked_lm_output(outputs, self.lm_head(outputs.last_hidden_state), labels, **kwargs)


class ToyForTokenClassification(ToyPreTrainedModel):
    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.toy = ToyModel(config, add_pooling_layer=False)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids: Any, bbox: Any, attention_mask: Any = None, labels: Any = None, **kwargs: Any) -> Any:
        outputs = self.toy(input_ids, bbox, attention_mask)
        return self.token_classification_output(outputs, self.classifier(outputs[0]), labels, **kwargs)


class ToyForSequenceClassification(ToyPreTrainedModel):
    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.toy = ToyModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids: Any, bbox: Any, attention_mask: Any = None, labels: Any = None, **kwargs: Any) -> Any:
        outputs = self.toy(input_ids, bbox, attention_mask)
        logits = self.classifier(outputs.pooler_output)
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class ToyForQuestionAnswering(ToyPreTrainedModel):
    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.toy = ToyModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids: Any, bbox: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        outputs = self.toy(input_ids, bbox, attention_mask)
        logits = self.qa_outputs(outputs[0])
        return self.question_answering_output(outputs, logits, attention_mask, None, None, **kwargs)


def make_document(config: ToyConfig, length: int, generator: torch.Generator) -> Batch:
    return {
        "input_ids": torch.randint(5, config.vocab_size, (length,), generator=generator),
        "bbox": integer_boxes(length, 1001, generator),
    }


PARENT_CONFIG = {
    "vocab_size": 50,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu_new",
    "layer_norm_eps": 1e-3,
    "num_labels": 3,
}
TRANSLATED = {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "vocab_size": 50, "num_positions": 30}

TOY = ModelSpec(
    config_class=ToyConfig,
    config={"num_labels": 3},
    variants=(Variant("linear"),),
    heads={
        MODEL: ToyModel,
        MASKED_LM: ToyForMaskedLM,
        TOKENS: ToyForTokenClassification,
        SEQUENCE: ToyForSequenceClassification,
        QUESTIONS: ToyForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={"input_ids": 1, "bbox": 0},
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: [],
    parents=(
        Parent(
            RobertaConfig,
            {**PARENT_CONFIG, "max_position_embeddings": 32, "type_vocab_size": 1},
            {
                MODEL: RobertaModel,
                MASKED_LM: RobertaForMaskedLM,
                TOKENS: RobertaForTokenClassification,
                QUESTIONS: RobertaForQuestionAnswering,
            },
            additions=(r"embeddings\.layout\.",),
            overrides={"layout_scale": 500, "num_labels": 7, "hidden_dropout_prob": 0.3},
            translated={**TRANSLATED, "first_position": 2},
        ),
        Parent(
            BertConfig,
            {**PARENT_CONFIG, "max_position_embeddings": 30, "hidden_act": "gelu"},
            {
                MODEL: BertModel,
                MASKED_LM: BertForMaskedLM,
                TOKENS: BertForTokenClassification,
                SEQUENCE: BertForSequenceClassification,
                QUESTIONS: BertForQuestionAnswering,
            },
            additions=(r"embeddings\.layout\.",),
            overrides={"layout_scale": 500},
            translated={**TRANSLATED, "hidden_act": "gelu", "type_vocab_size": 2, "first_position": 0},
        ),
    ),
)
