"""Pyramidion's encoder: blocks of tokens, pooled between layers (Pyramidion, section 3); what its models share."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .blockwise_attention import BlockwiseSelfAttention, block_length, make_blocks
from .configuration_pyramidion import PyramidionConfig
from .global_tokens import with_idle_projections
from .heads import EncoderHeadMixin
from .layout_embeddings import check_bbox
from .pyramidion_layers import PyramidionDecoderAttention, PyramidionEmbeddings, PyramidionEncoderLayer
from .representation_pooling import LinearScorer, RepresentationPooling, make_scorer
from .successive_halving import padded_length
from .token_inputs import check_token_inputs
from .topk_operators import OPERATORS
from .tracing import is_traced
from .warm_start import WarmStartModelMixin


@dataclass
class PyramidionEncoderOutput(BaseModelOutput):
    """
    What the encoder leaves.

    Attributes:
        last_hidden_state: `[batch, pooled length, hidden]`, zero in padding.
        attention_mask: bool `[batch, pooled length]`, False for padding; None where there is none.
        hidden_states: of each layer, at the length that it runs at.
        attentions: of each layer, `[batch, heads, length, block]`, over the keys of the token's block.
    """

    attention_mask: torch.Tensor | None = None

    @classmethod
    def of(cls, outputs: Any) -> Any:
        """The encoder's output, given as such or as its tuple, which leaves out what is None."""
        if isinstance(outputs, BaseModelOutput):
            return outputs
        states, *others = outputs
        recorded = {each[0].dim(): each for each in others if isinstance(each, tuple)}
        mask = next((each for each in others if isinstance(each, torch.Tensor)), None)
        return cls(states, hidden_states=recorded.get(3), attentions=recorded.get(4), attention_mask=mask)


class PyramidionPreTrainedModel(WarmStartModelMixin, EncoderHeadMixin, PreTrainedModel):
    """What all Pyramidions share: config, initialisation, what can be recorded."""

    config: PyramidionConfig
    config_class = PyramidionConfig
    base_model_prefix = "pyramidion"
    supports_gradient_checkpointing = True
    _no_split_modules = ["PyramidionEncoderLayer", "PyramidionDecoderLayer", "PyramidionEmbeddings"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_sdpa = True
    _can_compile_fullgraph = True

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """As in transformers, but encoder and decoder share a table even where the output has one of its own."""
        tied = super().get_expanded_tied_weights_keys(all_submodels)
        if all_submodels or tied:
            return tied
        keys: Any = self._tied_weights_keys or {}
        return {name: source for name, source in keys.items() if name.endswith("word_embeddings.weight")}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """As fairseq does."""
        super()._init_weights(module)
        size = self.config.hidden_size
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=size**-0.5)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, LinearScorer):
            # Nearly equal scores mix nearly all tokens, so that at first all of them learn.
            init.normal_(module.weight, std=0.02)
        elif isinstance(module, (BlockwiseSelfAttention, PyramidionDecoderAttention)):
            for projection in (module.query, module.key, module.value):
                init.xavier_uniform_(projection.weight, gain=2**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)


class PyramidionEncoder(PyramidionPreTrainedModel):
    """Embeddings and encoder layers, with a pooling after each layer where the length falls."""

    _can_record_outputs = {
        "hidden_states": PyramidionEncoderLayer,
        "attentions": OutputRecorder(BlockwiseSelfAttention, index=1),
    }

    def __init__(self, config: PyramidionConfig):
        super().__init__(config)
        self.embeddings = PyramidionEmbeddings(config, use_positions=True, use_layout=config.use_layout)
        self.layer = nn.ModuleList([PyramidionEncoderLayer(config) for _ in range(config.num_hidden_layers)])
        lengths = config.encoder_lengths or []
        before = [config.max_source_length, *lengths]
        # The number of tokens after each layer that pools, None for the others. All have a scorer, as in the paper's
        # count of parameters.
        self.pooled = [after if after < length else None for length, after in zip(before, lengths, strict=False)]
        self.pooling = nn.ModuleList([_make_pooling(config) for _ in lengths])
        self.post_init()
        self.train(self.training)

    def train(self, mode: bool = True) -> "PyramidionEncoder":
        """As usual; scorers that no gradient reaches are frozen, else distributed training waits for them."""
        super().train(mode)
        operator = OPERATORS[self.config.operator]
        for pooling, k in zip(self.pooling, self.pooled, strict=True):
            if k is None or not (operator.reads_scores and operator.soft):
                pooling.requires_grad_(False)
        return self

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
        attention_mask: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> PyramidionEncoderOutput:
        """
        Args:
            input_ids: int `[batch, length]`.
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding, which is on the right.
            bbox: int `[batch, length, 4]` in 0..1000, with `config.use_layout`; else ignored.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            kwargs: `output_attentions` (with eager attention), `output_hidden_states`, `return_dict`.
        """
        config = self.config
        rows = self.embeddings.word_embeddings.num_embeddings
        shape = check_token_inputs(input_ids, inputs_embeds, attention_mask, None, rows, 0)
        if config.use_layout:
            check_bbox(bbox, shape, config.max_2d_position_embeddings, "PyramidionProcessor")
        mask = None if attention_mask is None else attention_mask.bool()
        if mask is not None and not is_traced() and bool(mask.all()):
            mask = None
        hidden_states = self.embeddings(input_ids, inputs_embeds, bbox)
        if not config.mask_padding and mask is not None:
            # From here on nobody knows what is padding. It has no position either in the authors' code.
            hidden_states, mask = hidden_states.masked_fill(~mask.unsqueeze(-1), 0.0), None
        length = shape[1]
        if is_traced() and (config.block_size is not None or config.encoder_lengths):
            # The number of blocks and of rounds is fixed in the graph; a longer document has a graph of its own.
            total = padded_length(length, config.max_source_length)
            if not config.mask_padding and length != total:
                raise ValueError(
                    f"With mask_padding=False the padding of a compiled or exported model would take part; pad "
                    f"{length} tokens to {total} before, with attention_mask."
                )
            hidden_states, mask = _pad(hidden_states, mask, total)
        hidden_states, mask, blocks = self._cut(hidden_states, mask)
        for place, layer in enumerate(self.layer):
            k = self.pooled[place] if self.pooled else None
            pools = k is not None and hidden_states.shape[1] > k
            received: list[torch.Tensor] | None = [] if pools and config.scorer == "attention" else None
            hidden_states = layer(hidden_states, blocks, received)
            if pools and k is not None:
                pooled = self.pooling[place](hidden_states, k, mask, received[0] if received else None)
                length = min(length, k) if not is_traced() else k
                hidden_states, mask, blocks = self._cut(pooled.hidden_states, pooled.mask)
            elif k is not None and any(each.requires_grad for each in self.pooling[place].parameters()):
                # A batch of short documents asks no scorer.
                scorer: Any = self.pooling[place].scorer
                hidden_states = with_idle_projections(hidden_states, hidden_states, scorer)
        if hidden_states.shape[1] != length and config.mask_padding:
            hidden_states, mask = hidden_states[:, :length], None if mask is None else mask[:, :length]
        if mask is not None:
            hidden_states = hidden_states.masked_fill(~mask.unsqueeze(-1), 0.0)
            if not is_traced() and bool(mask.all()):
                mask = None
        return PyramidionEncoderOutput(last_hidden_state=hidden_states, attention_mask=mask)

    def _cut(self, hidden_states: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, Any, Any]:
        """Padded to whole blocks; what the layers of this length need."""
        size, padded = block_length(hidden_states.shape[1], self.config.block_size)
        hidden_states, mask = _pad(hidden_states, mask, padded)
        if not self.config.mask_padding:
            mask = None
        return hidden_states, mask, make_blocks(hidden_states, mask, size)


def _make_pooling(config: PyramidionConfig) -> RepresentationPooling:
    options: dict[str, Any] = {"preserve_order": config.preserve_order}
    if config.operator == "successive_halving":
        options |= {"peak": config.peak, "base": float(config.peak_base), "sort": config.sort_scores}
    scorer = None if config.scorer is None else make_scorer(config.scorer, config.hidden_size)
    return RepresentationPooling(scorer, config.operator, config.score_activation, **options)


def _pad(
    hidden_states: torch.Tensor, mask: torch.Tensor | None, length: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    missing = length - hidden_states.shape[1]
    if not is_traced() and missing <= 0:
        return hidden_states, mask
    if mask is None:
        mask = torch.ones(hidden_states.shape[:2], dtype=torch.bool, device=hidden_states.device)
    return nn.functional.pad(hidden_states, (0, 0, 0, missing)), nn.functional.pad(mask, (0, missing))


__all__ = ["PyramidionEncoder", "PyramidionEncoderOutput", "PyramidionPreTrainedModel"]
