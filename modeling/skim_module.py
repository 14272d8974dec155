"""The part of a Skimformer that skims: layout embeddings, contextualizer, query and key; frozen."""

from typing import Any

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask

from .configuration_skimformer import SkimformerConfig
from .encoder_layer import split_heads
from .layout_embeddings import LayoutEmbeddings, PositionEmbeddings
from .modeling_skimformer import SkimformerEncoder, SkimformerLayoutLayer
from .skim_attention import SkimAttention
from .skimming_pattern import first_of_equals, top_k_mask

# The names of a Skimformer's parameters that are the skim module's.
SKIM_PARTS = ("layout_embeddings", "position_embeddings", "layout_encoder", "skim_attention")


class SkimModule(nn.Module):
    """
    Which tokens a Skimformer attends to most. It is frozen: always in evaluation mode, without dropout or gradient.

    A choice of k tokens jumps where two scores are nearly equal, and rounding differs with padding and batch. So it is
    computed in a precision of its own, whatever the dtype of the weights, outside of autocast.
    """

    def __init__(self, config: SkimformerConfig):
        super().__init__()
        self.config = config
        if config._attn_implementation is None:
            config._attn_implementation_internal = "sdpa"  # without a name, no mask would be made
        eps = config.layer_norm_eps
        if config.skim_input == "position":
            self.position_embeddings = PositionEmbeddings(
                config.max_position_embeddings, config.hidden_layout_size, eps, 0.0
            )
        else:
            self.layout_embeddings = LayoutEmbeddings(
                config.max_2d_position_embeddings, config.hidden_layout_size, eps, 0.0, config.skim_input == "degraded"
            )
        if config.contextualize_layout:
            layers = [SkimformerLayoutLayer(config) for _ in range(config.num_hidden_layers_layout_encoder)]
            self.layout_encoder = SkimformerEncoder(layers)
        self.skim_attention = SkimAttention(
            config.hidden_layout_size, config.num_attention_heads, config.skim_attention_head_size, 0.0, 0
        )
        self.eval()

    def train(self, mode: bool = True) -> "SkimModule":
        """Stays in evaluation mode and frozen: `from_pretrained` gives a model new parameters, then calls this."""
        return super().train(False).requires_grad_(False)

    @property
    def reads_boxes(self) -> bool:
        """Whether the pattern depends on the boxes."""
        return self.config.skim_input in ("layout", "degraded")

    @property
    def num_coordinates(self) -> int:
        """Boxes are 0..num_coordinates-1."""
        return self.config.max_2d_position_embeddings

    @property
    def position_limit(self) -> int | None:
        """The most tokens that it takes; None for any number."""
        return self.config.max_position_embeddings if self.config.skim_input == "position" else None

    @torch.no_grad()
    def most_attended(
        self,
        bbox: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        input_shape: torch.Size,
        top_k: int,
        precision: torch.dtype = torch.float64,
    ) -> torch.Tensor:
        """
        Args:
            bbox: int `[batch, length, 4]`; None where no boxes are read.
            attention_mask: `[batch, length]`, 0 for padding; None for all ones.
            input_shape: (batch, length).
            top_k: how many tokens each token attends to.
            precision: what it is computed in; float32 on devices without float64.

        Returns:
            bool `[batch, heads, length, length]`.
        """
        module = self
        weights: dict[str, torch.Tensor] = dict(self.named_parameters())
        if not weights or any(each.is_meta for each in weights.values()):
            module, weights = self._with_weights_at_hand()
        device = next(iter(weights.values())).device
        exact = torch.float32 if device.type == "mps" else precision
        weights = {name: weight.to(exact) for name, weight in weights.items()}
        with torch.autocast(device.type, enabled=False):
            query, key = torch.func.functional_call(module, weights, (bbox, attention_mask, input_shape))
        keys = None if attention_mask is None else attention_mask.bool()
        return top_k_mask(query, key, keys, self._equals(bbox, input_shape, device), top_k)

    def _with_weights_at_hand(self) -> tuple["SkimModule", dict[str, torch.Tensor]]:
        """
        An empty module and the weights to call it with, where this one has none: in a replica of `nn.DataParallel`
        they are mere attributes, and with accelerate's offloading they come for each call of their module.
        """
        weights: dict[str, Any] = {}
        for path, module in self.named_modules():
            own = {**module._parameters, **getattr(module, "_former_parameters", {})}
            hook = getattr(module, "_hf_hook", None)
            if hook is not None and any(each is not None and each.is_meta for each in own.values()):
                hook.pre_forward(module)
                own = dict(module._parameters)
                hook.post_forward(module, None)
            weights |= {f"{path}.{name}": each for name, each in own.items() if each is not None}
        with torch.device("meta"):
            return SkimModule(self.config), weights

    def forward(
        self, bbox: torch.Tensor | None, attention_mask: torch.Tensor | None, input_shape: torch.Size
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Query and key of the skim-attention, `[batch, heads, length, head_size]` each; arguments as above."""
        config = self.config
        if config.skim_input == "position":
            layout = self.position_embeddings(input_shape, self.skim_attention.query.weight.device)
        else:
            if config.skim_input == "uniform":
                bbox = torch.zeros(*input_shape, 4, dtype=torch.long, device=self.skim_attention.query.weight.device)
            layout = self.layout_embeddings(bbox)
        if config.contextualize_layout:
            mask: Any = None
            if config.mask_layout_contextualizer:
                mask = create_bidirectional_mask(config, layout, attention_mask)
            layout = self.layout_encoder(layout, mask)
        size = config.skim_attention_head_size
        return split_heads(self.skim_attention.query(layout), size), split_heads(self.skim_attention.key(layout), size)

    def _equals(self, bbox: torch.Tensor | None, input_shape: torch.Size, device: torch.device) -> torch.Tensor | None:
        """For each token the first with the same layout embedding; None where none are equal."""
        if self.config.skim_input == "position":
            return None
        if self.config.skim_input == "uniform" or bbox is None:
            return torch.zeros(input_shape, dtype=torch.long, device=device)
        parts = bbox
        if self.config.skim_input == "degraded":
            parts = (bbox[..., :2] + bbox[..., 2:]) // 2
        code = torch.zeros(input_shape, dtype=torch.long, device=bbox.device)
        for part in parts.unbind(-1):
            code = code * self.num_coordinates + part
        return first_of_equals(code)
