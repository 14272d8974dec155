"""Skimformer: attention computed once, from layout, and read by every text layer (Skim-Attention, section 4.2)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_skimformer import SkimformerConfig
from .encoder_layer import EncoderLayer, SelfAttention
from .heads import (
    BertMaskedLMHead,
    EncoderHeadMixin,
    FirstTokenPooler,
    classifier_dropout,
    init_heads,
    linear_classifier,
)
from .layout_embeddings import LayoutEmbeddings, PositionEmbeddings, check_bbox
from .seeded_dropout import Dropout
from .skim_attention import SkimAttention, SkimValues
from .token_inputs import check_token_inputs, embed_types, key_mask
from .warm_start import WarmStartModelMixin


class SkimformerTextEmbeddings(nn.Module):
    """LayerNorm(word + token type), dropout. There is no 1-D position."""

    def __init__(self, config: SkimformerConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ) -> torch.Tensor:
        """`input_ids` `[batch, length]` or `inputs_embeds` `[batch, length, hidden]` -> `[batch, length, hidden]`."""
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        types = embed_types(self.token_type_embeddings, token_type_ids, words.device)
        return self.dropout(self.LayerNorm(words + types))


class SkimformerLayoutLayer(EncoderLayer):
    """A layer of the contextualizer: a BERT layer over layout embeddings."""

    def __init__(self, config: SkimformerConfig):
        size = config.hidden_layout_size
        heads = config.num_attention_heads_layout_encoder
        super().__init__(
            SelfAttention(config, size, heads, config.attention_probs_dropout_prob),
            attention_size=size,
            hidden_size=size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class SkimformerLayer(EncoderLayer):
    """A text layer: values read through the skim-attention, then a BERT feed-forward network."""

    def __init__(self, config: SkimformerConfig):
        super().__init__(
            SkimValues(config.hidden_size, config.num_attention_heads, config.value_head_size),
            attention_size=config.num_attention_heads * config.value_head_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class SkimformerEncoder(nn.Module):
    """A stack of layers under the name `layer`."""

    def __init__(self, layers: Sequence[EncoderLayer]):
        super().__init__()
        self.layer = nn.ModuleList(layers)

    def forward(self, hidden_states: torch.Tensor, *args: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> the same shape; further arguments go to every layer."""
        for layer in self.layer:
            hidden_states = layer(hidden_states, *args)
        return hidden_states


class SkimformerPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all Skimformers share: config, initialisation, what can be recorded."""

    config: SkimformerConfig
    config_class = SkimformerConfig
    base_model_prefix = "skimformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["SkimformerLayer", "SkimformerLayoutLayer"]
    _supports_sdpa = True
    _can_record_outputs = {
        "hidden_states": SkimformerLayer,
        "attentions": OutputRecorder(SkimAttention, index=0),
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)


class SkimformerModel(SkimformerPreTrainedModel):
    """
    The Skimformer encoder.

    Args:
        config: the configuration.
        add_pooling_layer: whether `pooler_output` is computed.
    """

    attention_class: Any = SkimAttention
    layer_class: Any = SkimformerLayer
    layout_layer_class: Any = SkimformerLayoutLayer

    def __init__(self, config: SkimformerConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        eps, dropout = config.layer_norm_eps, config.hidden_dropout_prob
        self.text_embeddings = SkimformerTextEmbeddings(config)
        if config.skim_input == "position":
            self.position_embeddings = PositionEmbeddings(
                config.max_position_embeddings, config.hidden_layout_size, eps, dropout
            )
        else:
            centers_only = config.skim_input == "degraded"
            self.layout_embeddings = LayoutEmbeddings(
                config.max_2d_position_embeddings, config.hidden_layout_size, eps, dropout, centers_only
            )
        if config.contextualize_layout:
            layers = [self.layout_layer_class(config) for _ in range(config.num_hidden_layers_layout_encoder)]
            self.layout_encoder = SkimformerEncoder(layers)
        self.skim_attention = self.attention_class(
            config.hidden_layout_size,
            config.num_attention_heads,
            config.skim_attention_head_size,
            config.attention_probs_dropout_prob,
            config.skim_recompute_length,
        )
        self.encoder = SkimformerEncoder([self.layer_class(config) for _ in range(config.num_hidden_layers)])
        self.pooler = FirstTokenPooler(config.hidden_size) if add_pooling_layer else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings."""
        return self.text_embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word embeddings."""
        self.text_embeddings.word_embeddings = value

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        """
        Args:
            input_ids: int `[batch, length]`.
            bbox: int `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000, as `SkimformerProcessor` makes them. Special
                tokens and padding have [0, 0, 0, 0].
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            kwargs: `output_attentions` (a tuple of one `[batch, heads, length, length]`, the map that all layers
                read), `output_hidden_states`, `return_dict`.

        Returns:
            `last_hidden_state` `[batch, length, hidden]`, `pooler_output` `[batch, hidden]`.
        """
        embeddings = self.text_embeddings
        input_shape = check_token_inputs(
            input_ids,
            inputs_embeds,
            attention_mask,
            token_type_ids,
            embeddings.word_embeddings.num_embeddings,
            embeddings.token_type_embeddings.num_embeddings,
        )
        layout = self.embed_layout(bbox, input_shape, input_ids if inputs_embeds is None else inputs_embeds)
        # Before the attention, so that in the backward pass the large gradient of the table comes after it.
        hidden_states = embeddings(input_ids, token_type_ids, inputs_embeds)
        if self.config.contextualize_layout:
            mask = None
            if self.config.mask_layout_contextualizer:
                mask = create_bidirectional_mask(self.config, layout, attention_mask)
            layout = self.layout_encoder(layout, mask)
        pattern = self.skim_attention(
            layout,
            key_mask(attention_mask),
            plain=self.config._attn_implementation == "eager",
            keep=bool(kwargs.get("output_attentions", self.config.output_attentions)),
        )
        hidden_states = self.encoder(hidden_states, *pattern)
        pooled = None if self.pooler is None else self.pooler(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=pooled)

    def embed_layout(self, bbox: torch.Tensor | None, input_shape: torch.Size, tokens: Any) -> torch.Tensor:
        """
        What the attention is computed from, as `skim_input` says: `[batch, length, hidden_layout_size]`, on the device
        of `tokens`.
        """
        if self.config.skim_input == "position":
            return self.position_embeddings(input_shape, tokens.device)
        if self.config.skim_input == "uniform":
            bbox = torch.zeros(*input_shape, 4, dtype=torch.long, device=tokens.device)
        check_bbox(bbox, input_shape, self.config.max_2d_position_embeddings, "SkimformerProcessor")
        return self.layout_embeddings(bbox)


class SkimformerForMaskedLM(SkimformerPreTrainedModel):
    """Skimformer with BERT's masked LM head: MVLM, the paper's pre-training task, boxes kept for masked tokens."""

    _tied_weights_keys = {
        "cls.predictions.decoder.weight": "skimformer.text_embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: SkimformerConfig):
        super().__init__(config)
        self.skimformer = SkimformerModel(config, add_pooling_layer=False)
        self.cls = BertMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """The decoder over the vocabulary."""
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder over the vocabulary."""
        self.cls.predictions.decoder = new_embeddings
        self.cls.predictions.bias = new_embeddings.bias

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Inputs as `SkimformerModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.skimformer(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        return self.masked_lm_output(outputs, self.cls(outputs.last_hidden_state), labels, **kwargs)


class SkimformerForTokenClassification(SkimformerPreTrainedModel):
    """Skimformer with a linear classifier over the tokens."""

    def __init__(self, config: SkimformerConfig):
        super().__init__(config)
        self.skimformer = SkimformerModel(config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = linear_classifier(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Inputs as `SkimformerModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.skimformer(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        return self.token_classification_output(outputs, logits, labels, **kwargs)


class SkimformerForSequenceClassification(SkimformerPreTrainedModel):
    """Skimformer with a linear classifier over the pooled first token."""

    def __init__(self, config: SkimformerConfig):
        super().__init__(config)
        self.skimformer = SkimformerModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = linear_classifier(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Inputs as `SkimformerModel`; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        outputs = self.skimformer(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class SkimformerForQuestionAnswering(SkimformerPreTrainedModel):
    """Skimformer with start and end scores of an extracted answer."""

    def __init__(self, config: SkimformerConfig):
        super().__init__(config)
        self.skimformer = SkimformerModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Inputs as `SkimformerModel`; `start_positions` and `end_positions` int `[batch]`."""
        outputs = self.skimformer(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "SkimformerForMaskedLM",
    "SkimformerForQuestionAnswering",
    "SkimformerForSequenceClassification",
    "SkimformerForTokenClassification",
    "SkimformerModel",
    "SkimformerPreTrainedModel",
]
