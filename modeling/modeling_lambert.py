"""LAMBERT: RoBERTa with layout embeddings and a relative attention bias (the LAMBERT summary, sections 2 and 3)."""

from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .biased_attention import fold_mask, share_bias
from .configuration_lambert import LambertConfig
from .encoder_layer import EncoderLayer
from .flex_bias import flex_bias
from .flex_kernel import takes_flex
from .heads import (
    EncoderHeadMixin,
    FirstTokenPooler,
    RobertaClassificationHead,
    RobertaMaskedLMHead,
    classifier_dropout,
    init_heads,
    linear_classifier,
)
from .lambert_attention import LambertSelfAttention
from .layout_embeddings import is_traced
from .layout_sinusoids import sinusoidal_layout
from .position_limits import check_positions
from .relative_bias import RelativeBias, init_relative_bias
from .token_inputs import check_float_bbox, check_token_inputs, embed_types, key_mask
from .warm_start import WarmStartModelMixin


class LambertLayoutAdapter(nn.Linear):
    """The linear layer after the sinusoids. A class of its own, so that it can start at zero."""


class LambertEmbeddings(nn.Module):
    """RoBERTa's embeddings, LayerNorm and dropout, then the adapted layout embedding added."""

    def __init__(self, config: LambertConfig):
        super().__init__()
        size, pad = config.hidden_size, config.pad_token_id
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=pad)
        if config.use_sequential_embeddings:
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, size, padding_idx=pad)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        if config.use_layout_embeddings:
            self.layout_adapter = LambertLayoutAdapter(size, size)
        self.config = config

    def forward(
        self,
        input_ids: torch.Tensor | None,
        bbox: torch.Tensor,
        token_type_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ) -> torch.Tensor:
        """`input_ids` `[batch, length]` or `inputs_embeds`, and `bbox`, as the model -> `[batch, length, hidden]`."""
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        embedding = words + embed_types(self.token_type_embeddings, token_type_ids, words.device)
        if self.config.use_sequential_embeddings:
            embedding = embedding + self.position_embeddings(self.positions(input_ids, words))
        embedding = self.dropout(self.LayerNorm(embedding))
        if self.config.use_layout_embeddings:
            layout = sinusoidal_layout(bbox, self.config.hidden_size)
            embedding = embedding + self.layout_adapter(layout.to(embedding.dtype))
        return embedding

    def positions(self, input_ids: torch.Tensor | None, words: torch.Tensor) -> torch.Tensor:
        """RoBERTa's positions: counted over tokens that are no padding, from `pad_token_id + 1`."""
        pad, (batch, length) = self.config.pad_token_id or 0, words.shape[:2]
        if input_ids is None:
            return torch.arange(pad + 1, pad + 1 + length, device=words.device).expand(batch, length)
        is_token = input_ids.ne(pad).int()
        return (is_token.cumsum(1).type_as(is_token) * is_token).long() + pad


class LambertLayer(EncoderLayer):
    """A layer of RoBERTa with the biased attention."""

    def __init__(self, config: LambertConfig):
        super().__init__(
            LambertSelfAttention(config),
            attention_size=config.hidden_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class LambertEncoder(nn.Module):
    """The layers."""

    def __init__(self, config: LambertConfig):
        super().__init__()
        self.layer = nn.ModuleList([LambertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states: torch.Tensor, *args: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> the same shape; further arguments go to every layer."""
        for layer in self.layer:
            hidden_states = layer(hidden_states, *args)
        return hidden_states


class LambertPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all LAMBERT models share: config, initialisation, parents, what can be recorded."""

    config: LambertConfig
    config_class = LambertConfig
    base_model_prefix = "lambert"
    parent_weights = {"roberta": {r"^roberta\.": "lambert."}}
    supports_gradient_checkpointing = True
    _no_split_modules = ["LambertEmbeddings", "LambertLayer"]
    _supports_sdpa = True
    _supports_flex_attn = True  # in inference; training takes the form of sdpa
    _can_record_outputs = {"hidden_states": LambertLayer, "attentions": LambertSelfAttention}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)
        init_relative_bias(module, normal=self.config.bias_init == "normal")
        if isinstance(module, LambertLayoutAdapter) and self.config.adapter_init == "zeros":
            init.zeros_(module.weight)
            init.zeros_(module.bias)


class LambertModel(LambertPreTrainedModel):
    """
    The LAMBERT encoder.

    With zero adapter and tables, as after loading a RoBERTa checkpoint, it equals RoBERTa.

    Args:
        config: the configuration.
        add_pooling_layer: whether `pooler_output` is computed.
    """

    def __init__(self, config: LambertConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = LambertEmbeddings(config)
        self.relative_bias = RelativeBias(
            config.num_attention_heads,
            config.relative_bias,
            config.use_sequential_bias,
            config.use_horizontal_bias,
            config.use_vertical_bias,
            config.max_sequential_distance,
        )
        self.encoder = LambertEncoder(config)
        self.pooler = FirstTokenPooler(config.hidden_size) if add_pooling_layer else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word embeddings."""
        self.embeddings.word_embeddings = value

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
            bbox: float32 `[batch, length, 4]`, (x0, y0, x1, y1) divided by the height of the page, as
                `LambertProcessor` makes them. Special tokens and padding have [0, 0, 0, 0].
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            kwargs: `output_attentions` (one `[batch, heads, length, length]` per layer), `output_hidden_states`,
                `return_dict`.

        Returns:
            `last_hidden_state` `[batch, length, hidden]`, `pooler_output` `[batch, hidden]`.
        """
        embeddings = self.embeddings
        input_shape = check_token_inputs(
            input_ids,
            inputs_embeds,
            attention_mask,
            token_type_ids,
            embeddings.word_embeddings.num_embeddings,
            embeddings.token_type_embeddings.num_embeddings,
        )
        if self.config.use_sequential_embeddings and not is_traced():
            check_positions(input_shape, self.config.max_position_embeddings - (self.config.pad_token_id or 0) - 1)
        bbox = check_float_bbox(bbox, input_shape, "LambertProcessor")
        hidden_states = embeddings(input_ids, bbox, token_type_ids, inputs_embeds)
        mask = key_mask(attention_mask)
        plain = self.config._attn_implementation == "eager" or is_traced()
        plain = plain or bool(kwargs.get("output_attentions", self.config.output_attentions))
        hidden_states = self.encoder(hidden_states, *self._bias(bbox, mask, hidden_states.dtype, plain), plain)
        pooled = None if self.pooler is None else self.pooler(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=pooled)

    def _bias(self, bbox: torch.Tensor, mask: torch.Tensor | None, dtype: torch.dtype, plain: bool) -> tuple:
        """Mask, bias, link and gradient, as the layers take them; see `SharedBias`."""
        has_tables = any(True for _ in self.relative_bias.children())
        if has_tables and not plain and takes_flex(self.config, self.training, bbox.device):
            return None, flex_bias(self.relative_bias, bbox, mask), None, None
        bias = self.relative_bias(bbox)
        if bias is None or plain:
            return mask, bias, None, None
        shared = share_bias(bias)
        if shared.link is None and not (self.training and self.config.attention_probs_dropout_prob):
            device = bbox.device.type
            dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else dtype
            return None, fold_mask(bias, mask, dtype), None, None
        return mask, *shared


class LambertForMaskedLM(LambertPreTrainedModel):
    """LAMBERT with RoBERTa's masked LM head."""

    _tied_weights_keys = {
        "lm_head.decoder.weight": "lambert.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def __init__(self, config: LambertConfig):
        super().__init__(config)
        self.lambert = LambertModel(config, add_pooling_layer=False)
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
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Inputs as `LambertModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.lambert(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        return self.masked_lm_output(outputs, self.lm_head(outputs.last_hidden_state), labels, **kwargs)


class LambertForTokenClassification(LambertPreTrainedModel):
    """LAMBERT with a linear classifier over the tokens."""

    def __init__(self, config: LambertConfig):
        super().__init__(config)
        self.lambert = LambertModel(config, add_pooling_layer=False)
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
        """Inputs as `LambertModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.lambert(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        return self.token_classification_output(outputs, logits, labels, **kwargs)


class LambertForSequenceClassification(LambertPreTrainedModel):
    """LAMBERT with RoBERTa's classification head over the first token."""

    def __init__(self, config: LambertConfig):
        super().__init__(config)
        self.lambert = LambertModel(config, add_pooling_layer=False)
        self.classifier = RobertaClassificationHead(config)
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
        """Inputs as `LambertModel`; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        outputs = self.lambert(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(outputs.last_hidden_state)
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class LambertForQuestionAnswering(LambertPreTrainedModel):
    """LAMBERT with start and end scores of an extracted answer."""

    def __init__(self, config: LambertConfig):
        super().__init__(config)
        self.lambert = LambertModel(config, add_pooling_layer=False)
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
        """Inputs as `LambertModel`; `start_positions` and `end_positions` int `[batch]`."""
        outputs = self.lambert(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "LambertForMaskedLM",
    "LambertForQuestionAnswering",
    "LambertForSequenceClassification",
    "LambertForTokenClassification",
    "LambertModel",
    "LambertPreTrainedModel",
]
