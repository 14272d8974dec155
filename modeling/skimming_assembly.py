"""A SkimmingMask out of two trained models: the skim module of a Skimformer, a text encoder as its backbone."""

import copy
import logging
from typing import Any

import torch
from transformers import AutoConfig, AutoModel
from transformers.modeling_utils import PreTrainedModel

from .configuration_skimformer import SkimformerConfig
from .configuration_skimming_mask import check_parts
from .modeling_skimformer import SkimformerModel
from .skim_module import SKIM_PARTS

logger = logging.getLogger(__name__)

# RoBERTa's classifier of sequences is a pooler and a classifier under one name.
ROBERTA_CLASSIFIER = {
    "classifier.dense.": "{base}.pooler.dense.",
    "classifier.out_proj.": "classifier.",
}


def assemble(cls: Any, skimformer: Any, backbone: Any, top_k: int, **kwargs: Any) -> Any:
    """`from_skimformer_and_backbone` of the SkimmingMask classes, which see."""
    skimformer = load_skimformer(skimformer)
    backbone, fresh = _load_backbone(cls, backbone)
    check_parts(backbone.config, skimformer.config, top_k)
    head_config = copy.deepcopy(backbone.config)
    own = {name: getattr(head_config, name) for name in ("id2label", "label2id", "problem_type")}
    if "num_labels" in kwargs or "id2label" in kwargs:
        own = {}
    fields = {"tie_word_embeddings": getattr(head_config, "tie_word_embeddings", True), **own, **kwargs}
    config = cls.config_class(
        backbone_config=head_config, skim_config=copy.deepcopy(skimformer.config), top_k=top_k, **fields
    )
    model = cls(config).to(backbone.dtype)
    weights = {**_renamed(cls, backbone), **_skim_weights(skimformer, cls)}
    _copy_weights(model, {name: value for name, value in weights.items() if name not in fresh})
    return model.eval()


def load_skimformer(skimformer: Any) -> Any:
    """The base model of a Skimformer of any head, or of its checkpoint. Raises ValueError for other model types."""
    if not isinstance(skimformer, PreTrainedModel):
        return SkimformerModel.from_pretrained(skimformer, add_pooling_layer=False)
    if skimformer.config.model_type != SkimformerConfig.model_type:
        raise ValueError(
            f"A '{skimformer.config.model_type}' was passed as the Skimformer; pass a skimformer, whose attention is "
            "over all tokens."
        )
    return skimformer.base_model


def _load_backbone(cls: Any, backbone: Any) -> tuple[Any, set[str]]:
    """The text encoder with the head of `cls` if it has one, and the names of what its checkpoint lacks."""
    if isinstance(backbone, PreTrainedModel):
        return backbone, set()
    config = AutoConfig.from_pretrained(backbone)
    with_head = [each for each in cls.backbone_classes if each._model_mapping.get(type(config), None) is not None]
    auto_class = with_head[0] if with_head else AutoModel
    loaded, info = auto_class.from_pretrained(backbone, output_loading_info=True)
    missing = set(info["missing_keys"])
    return loaded, {new for name in missing for new in _new_names(cls, loaded, name)}


def _new_names(cls: Any, backbone: Any, name: str) -> list[str]:
    """Our name for a weight of the backbone, or of a model whose base the backbone is."""
    prefix = backbone.base_model_prefix + "."
    base = "" if cls.base_model_prefix == "" or not _has_head(cls) else cls.base_model_prefix + "."
    is_base = backbone.base_model is backbone
    if is_base or name.startswith(prefix):
        return [f"{base}backbone.{name if is_base else name.removeprefix(prefix)}"]
    if not _has_head(cls):
        return []
    for old, new in ROBERTA_CLASSIFIER.items():
        if name.startswith(old):
            return [new.format(base=f"{base}backbone") + name.removeprefix(old)]
    return [name]


def _has_head(cls: Any) -> bool:
    return not cls.__name__.endswith("Model")


def _renamed(cls: Any, backbone: Any) -> dict[str, torch.Tensor]:
    weights = backbone.state_dict()
    return {new: value for name, value in weights.items() for new in _new_names(cls, backbone, name)}


def _skim_weights(skimformer: SkimformerModel, cls: Any) -> dict[str, torch.Tensor]:
    base = cls.base_model_prefix + "." if _has_head(cls) else ""
    weights = skimformer.state_dict()
    return {f"{base}skim.{name}": value for name, value in weights.items() if name.split(".")[0] in SKIM_PARTS}


@torch.no_grad()
def _copy_weights(model: Any, weights: dict[str, torch.Tensor]) -> None:
    """Copy what the model has under the same name in the same shape; say what the backbone had no weights for."""
    own = model.state_dict()
    fresh = []
    for name, value in own.items():
        if name in weights and weights[name].shape == value.shape:
            value.copy_(weights[name])
        else:
            fresh.append(name)
    if fresh:
        logger.warning("Neither checkpoint has weights for %s: they are new and want training.", ", ".join(fresh))


__all__ = ["assemble", "load_skimformer"]
