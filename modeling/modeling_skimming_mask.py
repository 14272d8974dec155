"""SkimmingMask: top-k skim-attention as the attention pattern of any text encoder (Skim-Attention, section 4.3)."""

import inspect
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForDocumentQuestionAnswering,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import can_return_tuple

from .configuration_skimming_mask import SkimmingMaskConfig
from .heads import (
    BertMaskedLMHead,
    EncoderHeadMixin,
    FirstTokenPooler,
    RobertaMaskedLMHead,
    classifier_dropout,
    init_heads,
    linear_classifier,
)
from .layout_embeddings import check_bbox, is_traced
from .position_limits import check_positions
from .skim_module import SkimModule
from .skimming_assembly import assemble
from .skimming_attention import SKIMMING, SkimmingPattern, dense_pattern
from .skimming_pattern import morton_order, pattern_tables, table_products
from .token_inputs import check_token_inputs
from .warm_start import WarmStartModelMixin

# The sparse form is taken where it computes at most this share of all products of queries with keys. On a CPU core at
# 2,048 tokens a product of it costs 1.3 times one of torch's masked kernel. On a GPU, where it starts a kernel for
# every few blocks, it is meant for lengths at which a mask over all keys is too much; that was not measured.
CPU_SHARE, GPU_SHARE = 0.7, 0.1


class NoPooler(nn.Module):
    """In place of a backbone's pooler that nothing reads."""

    def forward(self, hidden_states: torch.Tensor) -> None:
        """Nothing."""
        return


class SkimmingMaskPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all SkimmingMasks share: config, initialisation, how one is put together from two checkpoints."""

    config: SkimmingMaskConfig
    config_class = SkimmingMaskConfig
    base_model_prefix = "skimming_mask"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    # The Auto classes that load a backbone with the same head.
    backbone_classes: ClassVar[tuple[Any, ...]] = ()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        init_heads(module)

    @classmethod
    def from_skimformer_and_backbone(cls, skimformer: Any, backbone: Any, top_k: int, **kwargs: Any) -> Any:
        """
        Put a model together from two trained ones.

        Args:
            skimformer: a Skimformer of any head, or its checkpoint (a folder or a repository of the Hub).
            backbone: a text encoder (BERT, LayoutLM, RoBERTa, ...) of any head, or its checkpoint. Where it has the
                head that this class has, the head's weights are taken too.
            top_k: how many tokens each token attends to.
            kwargs: further fields of the config, the backbone's among them; `num_labels` for example.

        Returns:
            The model in evaluation mode, its skim module frozen.

        Raises:
            ValueError: the Skimformer has another number of heads than the backbone, or one of them is of a type
                that cannot take its part.
        """
        return assemble(cls, skimformer, backbone, top_k, **kwargs)

    def set_attn_implementation(self, attn_implementation: str | dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """As in transformers, for the skim module too, which is no model of its own."""
        if isinstance(attn_implementation, str):
            self.config.skim_config._attn_implementation_internal = attn_implementation  # type: ignore[union-attr]
        super().set_attn_implementation(attn_implementation, *args, **kwargs)
        self.config.backbone_config._attn_implementation_internal = SKIMMING  # type: ignore[union-attr]


class SkimmingMaskModel(SkimmingMaskPreTrainedModel):
    """
    A text encoder with the attention pattern of a Skimformer.

    Args:
        config: the configuration.
        add_pooling_layer: whether `pooler_output` is computed; by the backbone's pooler if it has one.
    """

    def __init__(self, config: SkimmingMaskConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        # The class itself, not AutoModel.from_config: the config object is to be shared.
        backbone_config: Any = config.backbone_config
        skim_config: Any = config.skim_config
        backbone_class: Any = AutoModel._model_mapping.get(type(backbone_config), None)
        if backbone_class is None:
            name = backbone_config.model_type
            raise ValueError(f"transformers has no model for the backbone '{name}'; name a text encoder, as BERT.")
        # The name of our attention stands for none that a backbone would have to support.
        backbone_config._attn_implementation_internal = None
        self.backbone = backbone_class(backbone_config)
        if not (self.backbone._supports_sdpa or self.backbone._supports_attention_backend):
            raise ValueError(
                f"{backbone_class.__name__} has an attention of its own, in which no pattern can be put; wrap BERT, "
                "LayoutLM, RoBERTa or another encoder that supports sdpa."
            )
        if any(getattr(module, "is_causal", False) for module in self.backbone.modules()):
            raise ValueError(f"{backbone_class.__name__} is causal; wrap an encoder, as BERT, LayoutLM or RoBERTa.")
        self.skim = SkimModule(skim_config)
        self.backbone_inputs = set(inspect.signature(self.backbone.forward).parameters)
        self.pooler = None
        if not add_pooling_layer and getattr(self.backbone, "pooler", None) is not None:
            self.backbone.pooler = NoPooler()
        elif add_pooling_layer and getattr(self.backbone, "pooler", None) is None:
            self.pooler = FirstTokenPooler(config.hidden_size)
        self.post_init()
        self._attend_by_the_pattern()

    def _attend_by_the_pattern(self) -> None:
        config = self.backbone.config
        if config._attn_implementation != SKIMMING:
            config._attn_implementation_internal = SKIMMING

    def get_input_embeddings(self) -> nn.Module:
        """The backbone's word embeddings."""
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:  # type: ignore[override]
        """Replace the backbone's word embeddings."""
        self.backbone.set_input_embeddings(value)

    @can_return_tuple
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
            bbox: int `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000, as `SkimformerProcessor` makes them. A
                backbone that takes boxes is given the same.
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            token_type_ids: int `[batch, length]`, for backbones that take them; all zero when None.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            kwargs: `output_attentions` (one `[batch, heads, length, length]` per layer, computed in the plain form),
                `output_hidden_states`, `return_dict`.

        Returns:
            `last_hidden_state` `[batch, length, hidden]`, `pooler_output` `[batch, hidden]`.
        """
        input_shape = self._check_inputs(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds)
        flags = {
            name: bool(getattr(self.config, name) if kwargs.get(name) is None else kwargs[name])
            for name in ("output_attentions", "output_hidden_states")
        }
        pattern = self.skimming_pattern(bbox, attention_mask, input_shape, dense=flags["output_attentions"])
        inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask, "bbox": bbox}
        inputs |= {"token_type_ids": token_type_ids, "inputs_embeds": inputs_embeds}
        known = {name: value for name, value in inputs.items() if name in self.backbone_inputs}
        self._attend_by_the_pattern()  # again, where somebody set the backbone's attention
        outputs = self.backbone(**{**kwargs, **flags, **known}, skimming_pattern=pattern, return_dict=True)
        pooled = outputs.get("pooler_output")
        if self.pooler is not None:
            pooled = self.pooler(outputs.last_hidden_state)
        return BaseModelOutputWithPooling(
            last_hidden_state=outputs.last_hidden_state,
            pooler_output=pooled,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def _check_inputs(
        self,
        input_ids: torch.Tensor | None,
        bbox: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ) -> torch.Size:
        words: Any = self.get_input_embeddings()
        types = _embedding(self.backbone, "token_type_embeddings")
        input_shape = check_token_inputs(
            input_ids,
            inputs_embeds,
            attention_mask,
            token_type_ids,
            words.num_embeddings,
            1 if types is None else types.num_embeddings,
        )
        positions = _embedding(self.backbone, "position_embeddings")
        if positions is not None:
            # RoBERTa's positions begin after the padding token's number.
            unused = 0 if positions.padding_idx is None else positions.padding_idx + 1
            check_positions(input_shape, positions.num_embeddings - unused)
        limit = self.skim.position_limit
        if limit is not None:
            check_positions(input_shape, limit)
        if self.skim.reads_boxes or "bbox" in self.backbone_inputs:
            tables = [self.skim.num_coordinates] if self.skim.reads_boxes else []
            if "bbox" in self.backbone_inputs:
                tables.append(getattr(self.config.backbone_config, "max_2d_position_embeddings", 1024))
            check_bbox(bbox, input_shape, min(tables), "SkimformerProcessor")
        return input_shape

    @torch.no_grad()
    def attended_tokens(
        self, bbox: torch.Tensor | None, attention_mask: torch.Tensor | None, input_shape: torch.Size
    ) -> torch.Tensor:
        """
        The `top_k` most attended tokens of each token and head: bool `[batch, heads, length, length]`.

        Args:
            bbox: int `[batch, length, 4]`; None where the Skimformer reads no boxes.
            attention_mask: `[batch, length]`, or None.
            input_shape: (batch, length).
        """
        precision = getattr(torch, self.config.skim_precision)
        return self.skim.most_attended(bbox, attention_mask, input_shape, self.config.top_k, precision)

    @torch.no_grad()
    def skimming_pattern(
        self,
        bbox: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        input_shape: torch.Size,
        dense: bool = False,
    ) -> SkimmingPattern:
        """
        What all layers attend by. Arguments as in `attended_tokens`, and:

        Args:
            dense: take the plain form, which gives the probabilities.
        """
        mask = self.attended_tokens(bbox, attention_mask, input_shape)
        backend, form = self.config._attn_implementation or "sdpa", self.config.attention_form
        eager = backend == "eager" or dense
        if not eager and not is_traced() and form != "dense":
            share = CPU_SHARE if mask.device.type == "cpu" else GPU_SHARE
            if form == "sparse" or self.config.top_k <= share * input_shape[1]:
                tables = pattern_tables(mask, self._order(bbox, mask))
                if form == "sparse" or table_products(tables) <= share * mask.numel():
                    return SkimmingPattern(tables=tables)
        return dense_pattern(mask, eager, backend)

    def _order(self, bbox: torch.Tensor | None, mask: torch.Tensor) -> torch.Tensor:
        if bbox is None:
            return torch.arange(mask.shape[-1], device=mask.device).expand(mask.shape[0], -1)
        return morton_order(bbox[..., :2] + bbox[..., 2:])


def _embedding(backbone: nn.Module, name: str) -> nn.Embedding | None:
    """The backbone's embedding table of that name, None if there is none."""
    for path, module in backbone.named_modules():
        if path.rsplit(".", 1)[-1] == name and isinstance(module, nn.Embedding):
            return module
    return None


class SkimmingMaskForMaskedLM(SkimmingMaskPreTrainedModel):
    """SkimmingMask with its backbone's masked LM head: RoBERTa's under `lm_head`, BERT's under `cls`."""

    backbone_classes = (AutoModelForMaskedLM,)

    def __init__(self, config: SkimmingMaskConfig):
        super().__init__(config)
        self.skimming_mask = SkimmingMaskModel(config, add_pooling_layer=False)
        backbone_config: Any = config.backbone_config
        head = "lm_head" if "roberta" in backbone_config.model_type else "cls.predictions"
        if head == "lm_head":
            self.lm_head = RobertaMaskedLMHead(config)
        else:
            self.cls = BertMaskedLMHead(config)
        words = self.get_input_embeddings()
        path = next(path for path, module in self.named_modules() if module is words)
        self._tied_weights_keys = {f"{head}.decoder.weight": f"{path}.weight", f"{head}.decoder.bias": f"{head}.bias"}
        self.post_init()

    @property
    def _head(self) -> Any:
        return self.lm_head if hasattr(self, "lm_head") else self.cls.predictions

    def get_output_embeddings(self) -> nn.Linear:
        """The decoder over the vocabulary."""
        return self._head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder over the vocabulary."""
        self._head.decoder = new_embeddings
        self._head.bias = new_embeddings.bias

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
        """Inputs as `SkimmingMaskModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.skimming_mask(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        return self.masked_lm_output(outputs, self._head(outputs.last_hidden_state), labels, **kwargs)


class SkimmingMaskForTokenClassification(SkimmingMaskPreTrainedModel):
    """SkimmingMask with a linear classifier over the tokens."""

    backbone_classes = (AutoModelForTokenClassification,)

    def __init__(self, config: SkimmingMaskConfig):
        super().__init__(config)
        self.skimming_mask = SkimmingMaskModel(config, add_pooling_layer=False)
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
        """Inputs as `SkimmingMaskModel`; `labels` int `[batch, length]`, -100 where nothing is predicted."""
        outputs = self.skimming_mask(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        return self.token_classification_output(outputs, logits, labels, **kwargs)


class SkimmingMaskForSequenceClassification(SkimmingMaskPreTrainedModel):
    """SkimmingMask with a linear classifier over the pooled first token."""

    backbone_classes = (AutoModelForSequenceClassification,)

    def __init__(self, config: SkimmingMaskConfig):
        super().__init__(config)
        self.skimming_mask = SkimmingMaskModel(config)
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
        """Inputs as `SkimmingMaskModel`; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        outputs = self.skimming_mask(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        return self.sequence_classification_output(outputs, logits, labels, **kwargs)


class SkimmingMaskForQuestionAnswering(SkimmingMaskPreTrainedModel):
    """SkimmingMask with start and end scores of an extracted answer."""

    backbone_classes = (AutoModelForQuestionAnswering, AutoModelForDocumentQuestionAnswering)

    def __init__(self, config: SkimmingMaskConfig):
        super().__init__(config)
        self.skimming_mask = SkimmingMaskModel(config, add_pooling_layer=False)
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
        """Inputs as `SkimmingMaskModel`; `start_positions` and `end_positions` int `[batch]`."""
        outputs = self.skimming_mask(input_ids, bbox, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        logits = self.qa_outputs(outputs.last_hidden_state)
        return self.question_answering_output(
            outputs, logits, attention_mask, start_positions, end_positions, **kwargs
        )


__all__ = [
    "SkimmingMaskForMaskedLM",
    "SkimmingMaskForQuestionAnswering",
    "SkimmingMaskForSequenceClassification",
    "SkimmingMaskForTokenClassification",
    "SkimmingMaskModel",
    "SkimmingMaskPreTrainedModel",
]
