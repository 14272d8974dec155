"""FormNet: super-tokens from graph convolutions, ETC with Rich Attention, BIOES with Viterbi (FormNet, section 3)."""

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

from .configuration_formnet import FormNetConfig
from .encoder_layer import EncoderLayer
from .etc_attention import EtcSelfAttention, etc_pattern
from .flex_kernel import takes_flex
from .graph_convolution import SuperTokens, check_graph_neighbors
from .heads import (
    EncoderHeadMixin,
    FirstTokenPooler,
    RobertaMaskedLMHead,
    classifier_dropout,
    init_heads,
    linear_classifier,
)
from .relative_positions import RelativePositions, init_relative_positions
from .rich_attention import RichAttention, init_rich_attention
from .seeded_dropout import Dropout
from .token_inputs import check_float_bbox, check_token_inputs, embed_types
from .viterbi import TagGrammar, viterbi_decode
from .warm_start import WarmStartModelMixin

LARGEST_COORDINATE = 1000


class FormNetEmbeddings(nn.Module):
    """Word and token type embeddings, LayerNorm and dropout; no positions."""

    def __init__(self, config: FormNetConfig):
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
        """`[batch, length]` each, or `inputs_embeds` `[batch, length, hidden]` -> `[batch, length, hidden]`."""
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        embedding = words + embed_types(self.token_type_embeddings, token_type_ids, words.device)
        return self.dropout(self.LayerNorm(embedding))


class FormNetLayer(EncoderLayer):
    """A layer of ETC: global-local attention with Rich Attention or relative positions, feed-forward network."""

    def __init__(self, config: FormNetConfig):
        size, heads = config.hidden_size, config.num_attention_heads
        positions: nn.Module | None = None
        if config.use_rich_attention:
            positions = RichAttention(num_axes(config), heads, size // heads)
        elif config.relative_position_clip:
            positions = RelativePositions(config.relative_position_clip, heads, size // heads)
        super().__init__(
            EtcSelfAttention(size, heads, config.attention_probs_dropout_prob, positions),
            attention_size=size,
            hidden_size=size,
            intermediate_size=config.feed_forward_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )
        self.recompute_length += config.num_global_tokens  # which are counted with a document's tokens

    def forward(  # type: ignore[override]
        self, hidden_states: torch.Tensor, global_states: torch.Tensor, *pattern: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`[batch, length, hidden]`, `[batch, globals, hidden]`, the fields of an `EtcPattern` -> the same two."""
        joined = super().forward(torch.cat([hidden_states, global_states], 1), *pattern)
        length = hidden_states.shape[1]
        return joined[:, :length], joined[:, length:]


class FormNetEncoder(nn.Module):
    """The ETC layers, and the global tokens that they start from."""

    def __init__(self, config: FormNetConfig):
        super().__init__()
        self.global_tokens = nn.Parameter(torch.zeros(config.num_global_tokens, config.hidden_size))
        self.layer = nn.ModuleList([FormNetLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states: torch.Tensor, *pattern: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """`[batch, length, hidden]` -> the same, and `[batch, globals, hidden]`."""
        global_states = self.global_tokens.to(hidden_states.dtype).expand(hidden_states.shape[0], -1, -1)
        for layer in self.layer:
            hidden_states, global_states = layer(hidden_states, global_states, *pattern)
        return hidden_states, global_states


def num_axes(config: FormNetConfig) -> int:
    """Axes of Rich Attention: x and y, and the sequence where it is wanted."""
    return 3 if config.use_sequence_axis else 2


class FormNetPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all FormNets share: config, initialisation, what can be recorded."""

    config: FormNetConfig
    config_class = FormNetConfig
    base_model_prefix = "formnet"
    supports_gradient_checkpointing = True
    _no_split_modules = ["FormNetLayer", "GraphConvolution"]
    _supports_sdpa = True
    _supports_flex_attn = True  # in inference; training takes the form of sdpa
    _can_record_outputs = {"hidden_states": FormNetLayer, "attentions": EtcSelfAttention}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)
        std = self.config.initializer_range
        init_rich_attention(module, std, self.config.initial_theta)
        init_relative_positions(module, std)
        if isinstance(module, FormNetEncoder):
            init.normal_(module.global_tokens, std=std)


class FormNetModel(FormNetPreTrainedModel):
    """
    The FormNet encoder.

    `pooler_output` is made from the first global token, which stands for the document.

    Args:
        config: the configuration.
        add_pooling_layer: whether `pooler_output` is computed.
    """

    def __init__(self, config: FormNetConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = FormNetEmbeddings(config)
        self.super_tokens = None
        if config.use_super_tokens:
            self.super_tokens = SuperTokens(
                config.hidden_size,
                config.num_graph_layers,
                config.hidden_act,
                config.layer_norm_eps,
                config.hidden_dropout_prob,
            )
        self.encoder = FormNetEncoder(config)
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
        graph_neighbors: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        """
        Args:
            input_ids: int `[batch, length]`; any length.
            bbox: float32 `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000, as `FormNetProcessor` makes them.
            graph_neighbors: int `[batch, length, 10]`, places of tokens, -1 for none, as `FormNetProcessor` makes
                them; not needed without super-tokens.
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            kwargs: `output_attentions` (one `[batch, heads, length, length + globals]` per layer: what the tokens
                attend to, the global tokens last; computed in the plain form), `output_hidden_states`,
                `return_dict`.

        Returns:
            `last_hidden_state` `[batch, length, hidden]`, `pooler_output` `[batch, hidden]`.
        """
        config, embeddings = self.config, self.embeddings
        input_shape = check_token_inputs(
            input_ids,
            inputs_embeds,
            attention_mask,
            token_type_ids,
            embeddings.word_embeddings.num_embeddings,
            embeddings.token_type_embeddings.num_embeddings,
        )
        bbox = check_float_bbox(bbox, input_shape, "FormNetProcessor", LARGEST_COORDINATE, "thousandths of the page")
        if self.super_tokens is not None:
            graph_neighbors = check_graph_neighbors(graph_neighbors, input_shape, "FormNetProcessor")
        hidden_states = embeddings(input_ids, token_type_ids, inputs_embeds)
        if self.super_tokens is not None:
            hidden_states = self.super_tokens(hidden_states, bbox, graph_neighbors, attention_mask)
        plain = config._attn_implementation == "eager"
        pattern = etc_pattern(
            attention_mask,
            input_shape,
            self._places(bbox) if config.use_rich_attention else None,
            config.local_radius,
            config.num_global_tokens,
            plain or bool(kwargs.get("output_attentions", config.output_attentions)),
            bbox.device,
            takes_flex(config, self.training, bbox.device),
        )
        hidden_states, global_states = self.encoder(hidden_states, *pattern)
        pooled = None if self.pooler is None else self.pooler(global_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=pooled)

    def _places(self, bbox: torch.Tensor) -> torch.Tensor:
        """The place of each token on the axes of Rich Attention: the centre of its box, its place in the sequence."""
        places = (bbox[..., :2] + bbox[..., 2:]) / 2
        if self.config.use_sequence_axis:
            sequence = torch.arange(bbox.shape[1], dtype=bbox.dtype, device=bbox.device)
            places = torch.cat([places, sequence[None, :, None].expand(bbox.shape[0], -1, -1)], -1)
        return places


class FormNetForMaskedLM(FormNetPreTrainedModel):
    """FormNet with RoBERTa's masked LM head."""

    _tied_weights_keys = {
        "lm_head.decoder.weight": "formnet.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def __init__(self, config: FormNetConfig):
        super().__init__(config)
        self.formnet = FormNetModel(config, add_pooling_layer=False)
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
        graph_neighbors: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Inputs as `FormNetModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        inputs = (input_ids, bbox, graph_neighbors, attention_mask, token_type_ids, inputs_embeds)
        outputs = self.formnet(*inputs, **kwargs)
        return self.masked_lm_output(outputs, self.lm_head(outputs.last_hidden_state), labels, **kwargs)


class FormNetForTokenClassification(FormNetPreTrainedModel):
    """FormNet with a linear classifier over the tokens, whose labels `decode` makes legal."""

    def __init__(self, config: FormNetConfig):
        super().__init__(config)
        self.formnet = FormNetModel(config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = linear_classifier(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        graph_neighbors: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Inputs as `FormNetModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        inputs = (input_ids, bbox, graph_neighbors, attention_mask, token_type_ids, inputs_embeds)
        outputs = self.formnet(*inputs, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        return self.token_classification_output(outputs, logits, labels, **kwargs)

    def decode(
        self, logits: torch.Tensor, mask: torch.Tensor | None = None, transitions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """
        The best legal sequence of labels by Viterbi, labels as in `config.id2label` (BIOES, BILOU or IOB2; plain
        labels are chosen token by token).

        Args:
            logits: `[batch, length, labels]`.
            mask: `[batch, length]`, 1 for the tokens that have a label, as the first sub-words (in a batch with word
                ids `batch["token_subword_ids"] == 0`); others are passed over. None for all.
            transitions: `[labels, labels]`, added for each label after another; None for nothing.

        Returns:
            int64 `[batch, length]`, -1 where `mask` is 0.

        Raises:
            ValueError: logits of a token that has a label are not finite; they are no scores, yet would give labels.
        """
        names: dict = self.config.id2label or {}
        path = viterbi_decode(logits, TagGrammar([names[index] for index in range(len(names))]), mask, transitions)
        # After the decoding, which has checked the shapes.
        broken = ~logits.isfinite().all(-1)
        if mask is not None:
            broken &= mask.bool()
        if broken.any():
            sequence, token = broken.nonzero()[0].tolist()
            raise ValueError(
                f"The logits of token {token} of sequence {sequence} are not finite; check the checkpoint, or run the "
                "model in float32."
            )
        return path


class FormNetForSequenceClassification(FormNetPreTrainedModel):
    """FormNet with a linear classifier over the pooled global token."""

    def __init__(self, config: FormNetConfig):
        super().__init__(config)
        self.formnet = FormNetModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = linear_classifier(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        graph_neighbors: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Inputs as `FormNetModel`; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        inputs = (input_ids, bbox, graph_neighbors, attention_mask, token_type_ids, inputs_embeds)
        outputs = self.formnet(*inputs, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class FormNetForQuestionAnswering(FormNetPreTrainedModel):
    """FormNet with start and end scores of an extracted answer."""

    def __init__(self, config: FormNetConfig):
        super().__init__(config)
        self.formnet = FormNetModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        graph_neighbors: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Inputs as `FormNetModel`; `start_positions` and `end_positions` int `[batch]`."""
        inputs = (input_ids, bbox, graph_neighbors, attention_mask, token_type_ids, inputs_embeds)
        outputs = self.formnet(*inputs, **kwargs)
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "FormNetForMaskedLM",
    "FormNetForQuestionAnswering",
    "FormNetForSequenceClassification",
    "FormNetForTokenClassification",
    "FormNetModel",
    "FormNetPreTrainedModel",
]
