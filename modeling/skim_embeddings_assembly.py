"""A BertWithSkimEmbeddings out of two trained models: a BERT, and the layout tables of a Skimformer."""

import copy
from typing import Any

import torch
from transformers.modeling_utils import PreTrainedModel

from .skimming_assembly import load_skimformer

TABLES = tuple(f"{name}_position_embeddings" for name in "xywh")


@torch.no_grad()
def assemble(cls: Any, bert: Any, skimformer: Any, zero_projections: bool, **kwargs: Any) -> Any:
    """`from_bert_and_skimformer` of the BertWithSkimEmbeddings classes, which see."""
    skimformer = load_skimformer(skimformer)
    skim = skimformer.config
    if skim.skim_input != "layout":
        raise ValueError(
            f'This Skimformer has skim_input="{skim.skim_input}" and so no tables of positions and sizes that were '
            'trained; pass one with skim_input="layout".'
        )
    kwargs |= {
        "hidden_layout_size": skim.hidden_layout_size,
        "max_2d_position_embeddings": skim.max_2d_position_embeddings,
    }
    if isinstance(bert, PreTrainedModel):
        model = _from_model(cls, bert, kwargs)
    else:
        model = cls.from_pretrained(bert, **kwargs)
    embeddings = model.base_model.embeddings
    for name in TABLES:
        getattr(embeddings, name).weight.copy_(getattr(skimformer.layout_embeddings, name).weight)
        if not zero_projections:
            projection = getattr(embeddings, name.replace("embeddings", "projection"))
            projection.weight.normal_(std=model.config.initializer_range)
    return model.eval()


def _from_model(cls: Any, bert: Any, fields: dict[str, Any]) -> Any:
    if bert.config.model_type != "bert":
        raise ValueError(f"A '{bert.config.model_type}' was passed as the BERT; pass a bert, or its checkpoint.")
    config = cls.config_class.from_dict(copy.deepcopy(bert.config).to_dict(), **fields)
    model = cls(config).to(bert.dtype)
    own, prefix = model.state_dict(), f"{cls.base_model_prefix}."
    for name, value in bert.state_dict().items():
        encoder = name.removeprefix(f"{bert.base_model_prefix}.")
        is_head = bert.base_model is not bert and encoder == name
        for ours in (name,) if is_head else (encoder, prefix + encoder):
            if ours in own and own[ours].shape == value.shape:
                own[ours].copy_(value)
    return model


__all__ = ["assemble"]
