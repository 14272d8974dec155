"""LongLayoutLM: LayoutLM with sparse attention in the text, on the page, or both (Position-aware attention)."""

from typing import Any

import torch
from torch import nn
from transformers import LayoutLMModel
from transformers import initialization as init
from transformers.activations import ACT2FN
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

from .attention_pattern import AttentionPattern
from .configuration_long_layoutlm import LongLayoutLMConfig
from .encoder_layer import EncoderLayer
from .flex_kernel import takes_flex
from .global_tokens import default_global_mask
from .heads import (
    EncoderHeadMixin,
    FirstTokenPooler,
    RobertaMaskedLMHead,
    classifier_dropout,
    init_heads,
    linear_classifier,
)
from .layout_embeddings import check_bbox
from .long_layoutlm_attention import LongLayoutLMSelfAttention
from .long_layoutlm_embeddings import LongLayoutLMEmbeddings, LongLayoutLMLayoutTable
from .long_layoutlm_patterns import make_patterns
from .matrix_products import Linear
from .position_limits import check_positions
from .token_inputs import check_token_inputs
from .tracing import is_traced
from .warm_start import WarmStartModelMixin


class LongLayoutLMLayer(EncoderLayer):
    """A layer of LayoutLM with the sparse attention."""

    recompute_length = 4096  # the sparse attention keeps little, so that longer documents are kept whole

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__(
            LongLayoutLMSelfAttention(config),
            attention_size=config.hidden_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )


class LongLayoutLMEncoder(nn.Module):
    """The layers."""

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__()
        self.layer = nn.ModuleList([LongLayoutLMLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states: torch.Tensor, patterns: list[AttentionPattern], plain: bool) -> torch.Tensor:
        """`[batch, length, hidden]` and a pattern for each layer -> `[batch, length, hidden]`."""
        for layer, pattern in zip(self.layer, patterns, strict=True):
            hidden_states = layer(hidden_states, pattern, plain)
        return hidden_states


class LongLayoutLMClassifier(nn.Module):
    """Two dense layers with dropout between them, `[..., hidden]` -> `[..., num_labels]`."""

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.classifier_act]
        self.dropout = classifier_dropout(config)
        self.out_proj = linear_classifier(config)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[..., hidden]` -> `[..., num_labels]`."""
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(hidden_states)))))


class LongLayoutLMMaskedLMHead(RobertaMaskedLMHead):
    """RoBERTa's head, its activation that of the parent."""

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__(config)
        self.activation = ACT2FN[config.lm_head_act]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, vocab]`."""
        return self.decoder(self.layer_norm(self.activation(self.dense(hidden_states))))


class LongLayoutLMPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all LongLayoutLMs share: config, initialisation, parents, what can be recorded."""

    config: LongLayoutLMConfig
    config_class = LongLayoutLMConfig
    base_model_prefix = "long_layoutlm"
    parent_weights = {
        "longformer": {r"^longformer\.": "long_layoutlm."},
        "big_bird": {
            r"^bert\.pooler\.": "long_layoutlm.pooler.dense.",
            r"^pooler\.(?=weight|bias)": "pooler.dense.",
            r"^bert\.": "long_layoutlm.",
            r"^cls\.predictions\.transform\.dense\.": "lm_head.dense.",
            r"^cls\.predictions\.transform\.LayerNorm\.": "lm_head.layer_norm.",
            r"^cls\.predictions\.": "lm_head.",
        },
    }
    supports_gradient_checkpointing = True
    _no_split_modules = ["LongLayoutLMEmbeddings", "LongLayoutLMLayer"]
    _supports_sdpa = True
    _supports_flex_attn = True  # in inference; training takes the form of sdpa, as DISTANCE+SW always does
    _can_record_outputs = {
        "hidden_states": LongLayoutLMLayer,
        "attentions": OutputRecorder(LongLayoutLMSelfAttention, index=1),
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)
        if isinstance(module, LongLayoutLMLayoutTable) and self.config.layout_init == "zeros":
            init.zeros_(module.weight)

    def default_global_mask(
        self, bbox: torch.Tensor | None, given: torch.Tensor | None, question: bool
    ) -> torch.Tensor | None:
        """As the function of that name; None, if not given, where SW+RAND has global blocks anyway."""
        has_blocks = self.config.attention_pattern == "sliding_window_random" and self.config.global_blocks
        return given if has_blocks else default_global_mask(bbox, given, question)

    @torch.no_grad()
    def load_layout_tables(self, checkpoint: str, **kwargs: Any) -> None:
        """
        Take the 2-D tables of a LayoutLM checkpoint, as the start of pre-training on layout.

        Args:
            checkpoint: a folder, or a repository of the Hub.
            kwargs: further arguments of `LayoutLMModel.from_pretrained`.

        Raises:
            ValueError: where the checkpoint has no such tables, or the sizes differ.
        """
        found: Any = LayoutLMModel.from_pretrained(checkpoint, output_loading_info=True, **kwargs)
        loaded, report = found
        theirs, ours = loaded.embeddings, self.base_model.embeddings
        # Of a BERT, say: transformers draws at random what a checkpoint lacks.
        lacking = sorted(name for name in report["missing_keys"] if name.startswith("embeddings."))
        if lacking:
            raise ValueError(f"{checkpoint} has no {lacking[0]}; name a LayoutLM, whose 2-D tables are to be taken.")
        for axis in "xyhw":
            source, target = (getattr(tables, f"{axis}_position_embeddings").weight for tables in (theirs, ours))
            if source.shape != target.shape:
                raise ValueError(
                    f"The 2-D tables of {checkpoint} have the shape {list(source.shape)}, this model's "
                    f"{list(target.shape)}; name a LayoutLM of the same hidden_size and max_2d_position_embeddings."
                )
            target.copy_(source)


class LongLayoutLMModel(LongLayoutLMPreTrainedModel):
    """
    The LongLayoutLM encoder.

    With zero 2-D tables, as after loading a Longformer or BigBird, it equals its parent under the parent's pattern.

    Args:
        config: the configuration.
        add_pooling_layer: whether `pooler_output` is computed.
    """

    def __init__(self, config: LongLayoutLMConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = LongLayoutLMEmbeddings(config)
        self.encoder = LongLayoutLMEncoder(config)
        self.pooler = FirstTokenPooler(config.hidden_size) if add_pooling_layer else None
        self.random_blocks: list[torch.Tensor] | None = None
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word embeddings."""
        self.embeddings.word_embeddings = value

    def set_random_blocks(self, random_blocks: list[torch.Tensor] | None) -> None:
        """
        Attend to given random blocks under SW+RAND instead of drawing them, to compare with another model.

        Args:
            random_blocks: for each layer int64 `[heads, blocks, count]`, -1 for none; batches must then be padded to
                that many blocks. None to draw them again.
        """
        self.random_blocks = random_blocks

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
        neighbors: torch.Tensor | None = None,
        spatial_order: torch.Tensor | None = None,
        block_queries: torch.Tensor | None = None,
        block_keys: torch.Tensor | None = None,
        block_members: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        """
        Args:
            input_ids: int `[batch, length]`.
            bbox: int `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1023, as `LongLayoutLMProcessor` makes them.
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            global_attention_mask: `[batch, length]`, 1 for tokens that attend to all and that all attend to; none
                when None.
            neighbors: int `[batch, length, M]`, the tokens nearest to each on the page, -1 for none; from the
                processor, for the patterns that need them.
            spatial_order: int `[batch, length]`; only the collator reads it, which makes the tables.
            block_queries: int `[batch, blocks, block]`, block_keys int `[batch, blocks, K]` and block_members bool
                `[batch, blocks, block, K]`: the pattern in blocks, from the collator, for "distance" and "union".
            kwargs: `output_attentions` (one `[batch, heads, length, length]` per layer, in the plain form; under
                DISTANCE+SW what is read of each value), `output_hidden_states`, `return_dict`.

        Returns:
            `last_hidden_state` `[batch, length, hidden]`, `pooler_output` `[batch, hidden]`.
        """
        embeddings, config = self.embeddings, self.config
        input_shape = check_token_inputs(
            input_ids,
            inputs_embeds,
            attention_mask,
            token_type_ids,
            embeddings.word_embeddings.num_embeddings,
            embeddings.token_type_embeddings.num_embeddings,
        )
        if not is_traced():
            check_positions(input_shape, config.max_position_embeddings - config.position_offset)
        check_bbox(bbox, input_shape, config.max_2d_position_embeddings, "LongLayoutLMProcessor")
        assert bbox is not None
        plain = config._attn_implementation == "eager" or is_traced()
        plain = plain or bool(kwargs.get("output_attentions", config.output_attentions))
        patterns = make_patterns(
            config,
            input_shape,
            attention_mask,
            global_attention_mask,
            neighbors,
            (block_queries, block_keys, block_members),
            bbox.device,
            plain,
            self.random_blocks,
            takes_flex(config, self.training, bbox.device),
        )
        hidden_states = embeddings(input_ids, bbox, token_type_ids, inputs_embeds)
        hidden_states = self.encoder(hidden_states, patterns, plain)
        pooled = None if self.pooler is None else self.pooler(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=pooled)


class LongLayoutLMForMaskedLM(LongLayoutLMPreTrainedModel):
    """LongLayoutLM with RoBERTa's masked LM head."""

    _tied_weights_keys = {
        "lm_head.decoder.weight": "long_layoutlm.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__(config)
        self.long_layoutlm = LongLayoutLMModel(config, add_pooling_layer=False)
        self.lm_head = LongLayoutLMMaskedLMHead(config)
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
        neighbors: torch.Tensor | None = None,
        spatial_order: torch.Tensor | None = None,
        block_queries: torch.Tensor | None = None,
        block_keys: torch.Tensor | None = None,
        block_members: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Inputs as `LongLayoutLMModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.long_layoutlm(
            input_ids,
            bbox,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            global_attention_mask,
            neighbors,
            spatial_order,
            block_queries,
            block_keys,
            block_members,
            **kwargs,
        )
        return self.masked_lm_output(outputs, self.lm_head(outputs.last_hidden_state), labels, **kwargs)


class LongLayoutLMForTokenClassification(LongLayoutLMPreTrainedModel):
    """LongLayoutLM with a classifier of two layers over the tokens."""

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__(config)
        self.long_layoutlm = LongLayoutLMModel(config, add_pooling_layer=False)
        self.classifier = LongLayoutLMClassifier(config)
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
        neighbors: torch.Tensor | None = None,
        spatial_order: torch.Tensor | None = None,
        block_queries: torch.Tensor | None = None,
        block_keys: torch.Tensor | None = None,
        block_members: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Inputs as `LongLayoutLMModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.long_layoutlm(
            input_ids,
            bbox,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            global_attention_mask,
            neighbors,
            spatial_order,
            block_queries,
            block_keys,
            block_members,
            **kwargs,
        )
        logits = self.classifier(outputs.last_hidden_state)
        return self.token_classification_output(outputs, logits, labels, **kwargs)


class LongLayoutLMForSequenceClassification(LongLayoutLMPreTrainedModel):
    """
    LongLayoutLM with a classifier of two layers over the first token.

    It is global unless told otherwise, or where SW+RAND's first block is global anyway.
    """

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__(config)
        self.long_layoutlm = LongLayoutLMModel(config, add_pooling_layer=False)
        self.classifier = LongLayoutLMClassifier(config)
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
        neighbors: torch.Tensor | None = None,
        spatial_order: torch.Tensor | None = None,
        block_queries: torch.Tensor | None = None,
        block_keys: torch.Tensor | None = None,
        block_members: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Inputs as `LongLayoutLMModel`; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        global_attention_mask = self.default_global_mask(bbox, global_attention_mask, question=False)
        outputs = self.long_layoutlm(
            input_ids,
            bbox,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            global_attention_mask,
            neighbors,
            spatial_order,
            block_queries,
            block_keys,
            block_members,
            **kwargs,
        )
        logits = self.classifier(outputs.last_hidden_state[:, 0])
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class LongLayoutLMForQuestionAnswering(LongLayoutLMPreTrainedModel):
    """
    LongLayoutLM with start and end scores of an extracted answer.

    The question's tokens, those before the first that stands on a page, are global unless told otherwise.
    """

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__(config)
        self.long_layoutlm = LongLayoutLMModel(config, add_pooling_layer=False)
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
        neighbors: torch.Tensor | None = None,
        spatial_order: torch.Tensor | None = None,
        block_queries: torch.Tensor | None = None,
        block_keys: torch.Tensor | None = None,
        block_members: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Inputs as `LongLayoutLMModel`; `start_positions` and `end_positions` int `[batch]`."""
        global_attention_mask = self.default_global_mask(bbox, global_attention_mask, question=True)
        outputs = self.long_layoutlm(
            input_ids,
            bbox,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            global_attention_mask,
            neighbors,
            spatial_order,
            block_queries,
            block_keys,
            block_members,
            **kwargs,
        )
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "LongLayoutLMForMaskedLM",
    "LongLayoutLMForQuestionAnswering",
    "LongLayoutLMForSequenceClassification",
    "LongLayoutLMForTokenClassification",
    "LongLayoutLMModel",
    "LongLayoutLMPreTrainedModel",
]
