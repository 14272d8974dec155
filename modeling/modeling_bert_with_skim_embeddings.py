"""BERT with the layout embeddings of a Skimformer (Skim-Attention, section 5.3, BERT+SkimEmbeddings)."""

from typing import Any, ClassVar

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
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from .encoder_layer import EncoderLayer, SelfAttention, eager_attention, split_heads
from .heads import (
    BertMaskedLMHead,
    EncoderHeadMixin,
    FirstTokenPooler,
    classifier_dropout,
    init_heads,
    linear_classifier,
)
from .layout_embeddings import check_bbox
from .position_limits import check_positions
from .skim_embeddings_assembly import assemble
from .token_inputs import check_token_inputs, embed_types, key_mask
from .warm_start import WarmStartModelMixin


class LayoutProjection(nn.Linear):
    """From the layout's size to the hidden size. A class of its own, so that it can start at zero."""


class BertWithSkimEmbeddingsEmbeddings(nn.Module):
    """LayerNorm(word + position + type + six projected lookups of the layout tables), dropout."""

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        super().__init__()
        size, layout_size, rows = config.hidden_size, config.hidden_layout_size, config.max_2d_position_embeddings
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.x_position_embeddings = nn.Embedding(rows, layout_size)
        self.y_position_embeddings = nn.Embedding(rows, layout_size)
        self.w_position_embeddings = nn.Embedding(rows, layout_size)
        self.h_position_embeddings = nn.Embedding(rows, layout_size)
        self.x_position_projection = LayoutProjection(layout_size, size)
        self.y_position_projection = LayoutProjection(layout_size, size)
        self.w_position_projection = LayoutProjection(layout_size, size)
        self.h_position_projection = LayoutProjection(layout_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

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
        embedding = embedding + self.position_embeddings(torch.arange(words.shape[1], device=words.device))
        return self.dropout(self.LayerNorm(embedding + self.embed_layout(bbox)))

    def embed_layout(self, bbox: torch.Tensor) -> torch.Tensor:
        """`bbox` int `[batch, length, 4]` -> the sum of the six projected lookups, `[batch, length, hidden]`."""
        x0, y0, x1, y1 = bbox.unbind(-1)
        x, y, w, h = (self._project(name) for name in "xywh")
        return x(x0) + y(y0) + x(x1) + y(y1) + w(x1 - x0) + h(y1 - y0)

    def _project(self, name: str) -> nn.Sequential:
        return nn.Sequential(
            getattr(self, f"{name}_position_embeddings"), getattr(self, f"{name}_position_projection")
        )


class BertWithSkimEmbeddingsSelfAttention(SelfAttention):
    """BERT's self-attention, which gives its probabilities in the plain form."""

    def forward(  # type: ignore[override]
        self, hidden_states: torch.Tensor, mask: torch.Tensor | None, plain: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states: `[batch, length, hidden]`.
            mask: `[batch, 1, 1, length]`, added to the scores in the plain form, else bool; None for no mask.
            plain: take the plain form.
        """
        attend = eager_attention if plain else ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        output, probabilities = attend(
            self,
            split_heads(self.query(hidden_states), self.head_size),
            split_heads(self.key(hidden_states), self.head_size),
            split_heads(self.value(hidden_states), self.head_size),
            mask,
            scaling=self.head_size**-0.5,
            dropout=self.dropout if self.training else 0.0,
        )
        return output.flatten(2), probabilities


class BertWithSkimEmbeddingsLayer(EncoderLayer):
    """A layer of BERT."""

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        size = config.hidden_size
        super().__init__(
            BertWithSkimEmbeddingsSelfAttention(
                config, size, config.num_attention_heads, config.attention_probs_dropout_prob
            ),
            attention_size=size,
            hidden_size=size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class BertWithSkimEmbeddingsEncoder(nn.Module):
    """The layers, under BERT's name for them."""

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        super().__init__()
        self.layer = nn.ModuleList(BertWithSkimEmbeddingsLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden_states: torch.Tensor, mask: torch.Tensor | None, plain: bool) -> torch.Tensor:
        """`[batch, length, hidden]` -> the same shape."""
        for layer in self.layer:
            hidden_states = layer(hidden_states, mask, plain)
        return hidden_states


class BertWithSkimEmbeddingsPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all of them share: config, initialisation, how one is put together from two checkpoints."""

    config: BertWithSkimEmbeddingsConfig
    config_class = BertWithSkimEmbeddingsConfig
    base_model_prefix = "bert_with_skim_embeddings"
    supports_gradient_checkpointing = True
    _no_split_modules = ["BertWithSkimEmbeddingsEmbeddings", "BertWithSkimEmbeddingsLayer"]
    _supports_sdpa = True
    _can_record_outputs = {
        "hidden_states": BertWithSkimEmbeddingsLayer,
        "attentions": OutputRecorder(BertWithSkimEmbeddingsSelfAttention, index=1),
    }
    parent_weights: ClassVar[dict[str, dict[str, str]]] = {"bert": {r"^bert\.": "bert_with_skim_embeddings."}}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)
        if isinstance(module, LayoutProjection):
            init.zeros_(module.weight)
            init.zeros_(module.bias)

    @classmethod
    def from_bert_and_skimformer(
        cls, bert: Any, skimformer: Any, zero_projections: bool = False, **kwargs: Any
    ) -> Any:
        """
        Put a model together from two trained ones.

        Args:
            bert: a BERT of any head, or its checkpoint (a folder or a repository of the Hub). Where it has the head
                that this class has, the head's weights are taken too.
            skimformer: a Skimformer of any head and any layout size, or its checkpoint; its layout tables are taken.
            zero_projections: start the projections at zero, so that the model equals the BERT at first. Else they
                start at random, as in the paper.
            kwargs: further fields of the config; `num_labels` for example.

        Returns:
            The model in evaluation mode.

        Raises:
            ValueError: one of the two is of a type that cannot take its part.
        """
        return assemble(cls, bert, skimformer, zero_projections, **kwargs)


class BertWithSkimEmbeddingsModel(BertWithSkimEmbeddingsPreTrainedModel):
    """
    The encoder.

    Args:
        config: the configuration.
        add_pooling_layer: whether `pooler_output` is computed.
    """

    def __init__(self, config: BertWithSkimEmbeddingsConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = BertWithSkimEmbeddingsEmbeddings(config)
        self.encoder = BertWithSkimEmbeddingsEncoder(config)
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
            bbox: int `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000, as `SkimformerProcessor` makes them. Special
                tokens and padding have [0, 0, 0, 0].
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            kwargs: `output_attentions` (one `[batch, heads, length, length]` per layer, computed in the plain form),
                `output_hidden_states`, `return_dict`.

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
        check_positions(input_shape, self.config.max_position_embeddings)
        check_bbox(bbox, input_shape, self.config.max_2d_position_embeddings, "SkimformerProcessor")
        plain = self.config._attn_implementation == "eager"
        plain |= bool(kwargs.get("output_attentions", self.config.output_attentions))
        mask = key_mask(attention_mask)
        hidden_states = embeddings(input_ids, bbox, token_type_ids, inputs_embeds)
        if mask is not None and plain:
            exact = torch.promote_types(hidden_states.dtype, torch.float32)
            mask = torch.zeros_like(mask, dtype=exact).masked_fill(~mask, torch.finfo(exact).min)
        hidden_states = self.encoder(hidden_states, mask, plain)
        pooled = None if self.pooler is None else self.pooler(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=pooled)


class BertWithSkimEmbeddingsForMaskedLM(BertWithSkimEmbeddingsPreTrainedModel):
    """The model with BERT's masked LM head."""

    _tied_weights_keys = {
        "cls.predictions.decoder.weight": "bert_with_skim_embeddings.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        super().__init__(config)
        self.bert_with_skim_embeddings = BertWithSkimEmbeddingsModel(config, add_pooling_layer=False)
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
        """Inputs as the model; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.base_model(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        return self.masked_lm_output(outputs, self.cls(outputs.last_hidden_state), labels, **kwargs)


class BertWithSkimEmbeddingsForTokenClassification(BertWithSkimEmbeddingsPreTrainedModel):
    """The model with a linear classifier over the tokens."""

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        super().__init__(config)
        self.bert_with_skim_embeddings = BertWithSkimEmbeddingsModel(config, add_pooling_layer=False)
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
        """Inputs as the model; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.base_model(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        return self.token_classification_output(outputs, logits, labels, **kwargs)


class BertWithSkimEmbeddingsForSequenceClassification(BertWithSkimEmbeddingsPreTrainedModel):
    """The model with a linear classifier over the pooled first token."""

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        super().__init__(config)
        self.bert_with_skim_embeddings = BertWithSkimEmbeddingsModel(config)
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
        """Inputs as the model; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        outputs = self.base_model(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class BertWithSkimEmbeddingsForQuestionAnswering(BertWithSkimEmbeddingsPreTrainedModel):
    """The model with start and end scores of an extracted answer."""

    def __init__(self, config: BertWithSkimEmbeddingsConfig):
        super().__init__(config)
        self.bert_with_skim_embeddings = BertWithSkimEmbeddingsModel(config, add_pooling_layer=False)
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
        """Inputs as the model; `start_positions` and `end_positions` int `[batch]`."""
        outputs = self.base_model(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "BertWithSkimEmbeddingsForMaskedLM",
    "BertWithSkimEmbeddingsForQuestionAnswering",
    "BertWithSkimEmbeddingsForSequenceClassification",
    "BertWithSkimEmbeddingsForTokenClassification",
    "BertWithSkimEmbeddingsModel",
    "BertWithSkimEmbeddingsPreTrainedModel",
]
