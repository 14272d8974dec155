"""LongSkimformer: skim-attention over a sliding window, computed once (Skim-Attention, section 5.2)."""

from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_long_skimformer import LongSkimformerConfig
from .encoder_layer import EncoderLayer
from .global_tokens import GlobalTokens, add_global_tokens, default_global_mask, find_global_tokens
from .heads import RobertaMaskedLMHead, classifier_dropout, linear_classifier
from .modeling_skimformer import SkimformerModel, SkimformerPreTrainedModel
from .skim_window_attention import SkimWindowAttention, SkimWindowValues
from .sparse_attention import BlockTable, mask_keys, window_table
from .sparse_self_attention import SparseSelfAttention
from .token_inputs import check_token_inputs

# Queries in a block of the window's table: half the window, within what matrix products do well.
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 256


class LongSkimformerLayoutLayer(EncoderLayer):
    """A layer of the contextualizer: a Longformer layer over layout embeddings."""

    def __init__(self, config: LongSkimformerConfig):
        size = config.hidden_layout_size
        heads = config.num_attention_heads_layout_encoder
        super().__init__(
            SparseSelfAttention(size, heads, config.attention_probs_dropout_prob),
            attention_size=size,
            hidden_size=size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class LongSkimformerLayer(EncoderLayer):
    """A text layer: values read through the window's skim-attention, then a feed-forward network."""

    def __init__(self, config: LongSkimformerConfig):
        super().__init__(
            SkimWindowValues(config.hidden_size, config.num_attention_heads, config.value_head_size),
            attention_size=config.num_attention_heads * config.value_head_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class LongSkimformerPreTrainedModel(SkimformerPreTrainedModel):
    """What all LongSkimformers share: config, what can be recorded."""

    config: LongSkimformerConfig  # type: ignore[assignment]
    config_class = LongSkimformerConfig
    base_model_prefix = "long_skimformer"
    _no_split_modules = ["LongSkimformerLayer", "LongSkimformerLayoutLayer"]
    _can_record_outputs = {
        "hidden_states": LongSkimformerLayer,
        "attentions": OutputRecorder(SkimWindowAttention, index=0),
    }


class LongSkimformerModel(LongSkimformerPreTrainedModel, SkimformerModel):
    """
    The LongSkimformer encoder: a Skimformer whose attention, and contextualizer, see a window.

    Where the window covers the input, it equals a Skimformer with the same weights.
    """

    attention_class = SkimWindowAttention
    layer_class = LongSkimformerLayer
    layout_layer_class = LongSkimformerLayoutLayer

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        global_attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        """
        Args:
            input_ids: int `[batch, length]`; any length.
            bbox: int `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000, as `SkimformerProcessor` makes them.
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            global_attention_mask: `[batch, length]`, 1 for tokens that attend to all and that all attend to; none
                when None.
            kwargs: `output_attentions` (a tuple of one `[batch, heads, length, length]`, computed in the plain form),
                `output_hidden_states`, `return_dict`.

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
        table, tokens = self._window(input_shape, attention_mask, global_attention_mask, layout.device)
        eager = self.config._attn_implementation == "eager"
        if self.config.contextualize_layout:
            layout = self.layout_encoder(layout, table, tokens, eager)
        whole_map = bool(kwargs.get("output_attentions", self.config.output_attentions))
        pattern = self.skim_attention(layout, table, tokens, plain=eager or whole_map)
        hidden_states = embeddings(input_ids, token_type_ids, inputs_embeds)
        hidden_states = self.encoder(hidden_states, *pattern)
        pooled = None if self.pooler is None else self.pooler(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=pooled)

    def _window(
        self,
        input_shape: torch.Size,
        attention_mask: torch.Tensor | None,
        global_attention_mask: torch.Tensor | None,
        device: torch.device,
    ) -> tuple[BlockTable, GlobalTokens | None]:
        half = self.config.attention_window // 2
        block = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, half))
        table = window_table(input_shape[1], half, half, block, device)
        if attention_mask is not None:
            table = mask_keys(table, attention_mask)
        if global_attention_mask is None:
            return table, None
        if global_attention_mask.shape != input_shape:
            raise ValueError(
                f"global_attention_mask has the shape {list(global_attention_mask.shape)} but the tokens need "
                f"{list(input_shape)}; pad it like input_ids."
            )
        tokens = find_global_tokens(global_attention_mask, attention_mask)
        return add_global_tokens(table, tokens), tokens


class LongSkimformerForMaskedLM(LongSkimformerPreTrainedModel):
    """LongSkimformer with RoBERTa's masked LM head."""

    _tied_weights_keys = {
        "lm_head.decoder.weight": "long_skimformer.text_embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def __init__(self, config: LongSkimformerConfig):
        super().__init__(config)
        self.long_skimformer = LongSkimformerModel(config, add_pooling_layer=False)
        self.lm_head = RobertaMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """The decoder over the vocabulary."""
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder over the vocabulary."""
        self.lm_head.decoder = new_embeddings
        self.lm_head.bias = new_embeddings.bias

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        global_attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Inputs as `LongSkimformerModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.long_skimformer(
            input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, global_attention_mask, **kwargs
        )
        return self.masked_lm_output(outputs, self.lm_head(outputs.last_hidden_state), labels, **kwargs)


class LongSkimformerForTokenClassification(LongSkimformerPreTrainedModel):
    """LongSkimformer with a linear classifier over the tokens."""

    def __init__(self, config: LongSkimformerConfig):
        super().__init__(config)
        self.long_skimformer = LongSkimformerModel(config, add_pooling_layer=False)
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
        global_attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Inputs as `LongSkimformerModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.long_skimformer(
            input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, global_attention_mask, **kwargs
        )
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        return self.token_classification_output(outputs, logits, labels, **kwargs)


class LongSkimformerForSequenceClassification(LongSkimformerPreTrainedModel):
    """LongSkimformer with a linear classifier over the pooled first token, which is global unless told otherwise."""

    def __init__(self, config: LongSkimformerConfig):
        super().__init__(config)
        self.long_skimformer = LongSkimformerModel(config)
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
        global_attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Inputs as `LongSkimformerModel`; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        global_attention_mask = default_global_mask(bbox, global_attention_mask, question=False)
        outputs = self.long_skimformer(
            input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, global_attention_mask, **kwargs
        )
        logits = self.classifier(self.dropout(outputs.pooler_output))
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class LongSkimformerForQuestionAnswering(LongSkimformerPreTrainedModel):
    """
    LongSkimformer with start and end scores of an extracted answer.

    The tokens before the document's first word, the question's, are global unless told otherwise.
    """

    def __init__(self, config: LongSkimformerConfig):
        super().__init__(config)
        self.long_skimformer = LongSkimformerModel(config, add_pooling_layer=False)
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
        global_attention_mask: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Inputs as `LongSkimformerModel`; `start_positions` and `end_positions` int `[batch]`."""
        global_attention_mask = default_global_mask(bbox, global_attention_mask, question=True)
        outputs = self.long_skimformer(
            input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, global_attention_mask, **kwargs
        )
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "LongSkimformerForMaskedLM",
    "LongSkimformerForQuestionAnswering",
    "LongSkimformerForSequenceClassification",
    "LongSkimformerForTokenClassification",
    "LongSkimformerModel",
    "LongSkimformerPreTrainedModel",
]
