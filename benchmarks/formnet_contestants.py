"""ETC's layers at FormNet-A1's width, with and without Rich Attention: what its terms cost."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel

from benchmarks.entry import Size
from broadsheet.modeling.configuration_formnet import FormNetConfig
from broadsheet.modeling.modeling_formnet import FormNetForTokenClassification

LABELS = 13
LAYERS = 4


class EtcLayersForTokenClassification(FormNetForTokenClassification):
    """Layers alone: a small vocabulary, no super-tokens; boxes of the common batch as floats."""

    def forward(self, input_ids: Any, bbox: Any, attention_mask: Any, labels: Any = None) -> Any:  # type: ignore[override]
        """As the model, without a graph."""
        return super().forward(input_ids, bbox.to(torch.float32), None, attention_mask, labels=labels)


def etc_layers(size: Size, rich: bool = False, clip: int = 0, compiled: bool = False) -> PreTrainedModel:
    """Four layers of 512 with 8 heads, radius 84."""
    tiny: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2} if size.tiny else {}
    settings: dict[str, Any] = {"vocab_size": 1000, "num_hidden_layers": LAYERS, "num_labels": LABELS, **tiny}
    config = FormNetConfig.from_preset(
        "A1",
        use_super_tokens=False,
        use_rich_attention=rich,
        relative_position_clip=clip,
        hidden_dropout_prob=size.dropout,
        attention_probs_dropout_prob=size.dropout,
        **settings,
    )
    model = EtcLayersForTokenClassification(config)
    if compiled and not size.tiny:
        model.compile(dynamic=False)
    return model


FORMNETS: dict[str, Callable[[Size], PreTrainedModel]] = {
    "etc-layers": etc_layers,
    "etc-layers+relative": partial(etc_layers, clip=12),
    "etc-layers+rich": partial(etc_layers, rich=True),
    "etc-layers-compiled": partial(etc_layers, compiled=True),
    "etc-layers-compiled+rich": partial(etc_layers, rich=True, compiled=True),
}
