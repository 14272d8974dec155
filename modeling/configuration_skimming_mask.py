"""Configuration of SkimmingMask."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig, SubConfigSpec
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig

from .configuration_skimformer import SkimformerConfig
from .warm_start import WarmStartConfigMixin


def _of_the_backbone(*names: str, default: Any = None) -> property:
    """A property that is the backbone's field of the first name, or of the first of the others that it has."""

    def read(self: Any) -> Any:
        found = (name for name in names if hasattr(self.backbone_config, name))
        return getattr(self.backbone_config, next(found, names[0]), default)

    def write(self: Any, value: Any) -> None:
        found = (name for name in names if hasattr(self.backbone_config, name))
        setattr(self.backbone_config, next(found, names[0]), value)

    return property(read, write)


@strict
class SkimmingMaskConfig(WarmStartConfigMixin, PreTrainedConfig):
    r"""
    Configuration of a SkimmingMask (Skim-Attention, section 4.3): a text encoder whose tokens attend to the `top_k`
    tokens alone that a trained Skimformer attends to most.

    `vocab_size`, `hidden_size`, `num_hidden_layers`, `num_attention_heads`, the dropouts and so on are the
    backbone's: they may be read and set here.

    Args:
        backbone_config: the text encoder's config (BERT, LayoutLM, RoBERTa, ...) or its fields with `model_type`.
        skim_config: the config of the Skimformer that the skim module is of. Its text layers play no part.
        top_k: how many tokens each token attends to, per head.
        attention_form: how the pattern is computed. `"dense"`: a mask over all keys; `"sparse"`: the products that the
            mask leaves out are skipped; `"auto"`: the cheaper by the number of products. The results are the same;
            with eager attention the mask is always dense.
        skim_precision: what the choice of the k tokens is computed in. In `"float64"` padding, batching and the dtype
            of the weights do not change it. `"float32"` is faster, by half with a contextualizer; where two tokens
            are attended to almost equally, rounding may then choose.
        tie_word_embeddings: share the word embeddings with the masked LM head.
    """

    model_type = "skimming_mask"
    sub_configs_defaults = {
        "backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="bert"),
        "skim_config": SubConfigSpec(config_class=SkimformerConfig),
    }

    backbone_config: PreTrainedConfig | dict[str, Any] | None = None
    skim_config: PreTrainedConfig | dict[str, Any] | None = None
    top_k: int = 128
    attention_form: Literal["auto", "dense", "sparse"] = "auto"
    skim_precision: Literal["float64", "float32"] = "float64"
    tie_word_embeddings: bool = True

    vocab_size = _of_the_backbone("vocab_size")
    hidden_size = _of_the_backbone("hidden_size")
    num_hidden_layers = _of_the_backbone("num_hidden_layers")
    num_attention_heads = _of_the_backbone("num_attention_heads")
    intermediate_size = _of_the_backbone("intermediate_size")
    hidden_act = _of_the_backbone("hidden_act", "activation", default="gelu")
    hidden_dropout_prob = _of_the_backbone("hidden_dropout_prob", "dropout", default=0.1)
    attention_probs_dropout_prob = _of_the_backbone("attention_probs_dropout_prob", "attention_dropout", default=0.1)
    classifier_dropout = _of_the_backbone("classifier_dropout")
    max_position_embeddings = _of_the_backbone("max_position_embeddings")
    type_vocab_size = _of_the_backbone("type_vocab_size", default=1)
    initializer_range = _of_the_backbone("initializer_range", default=0.02)
    layer_norm_eps = _of_the_backbone("layer_norm_eps", default=1e-12)
    pad_token_id = _of_the_backbone("pad_token_id")

    def __post_init__(self, **kwargs: Any) -> None:
        # Before the fields of the backbone among the kwargs are set.
        backbone = {} if self.backbone_config is None else self.backbone_config
        if isinstance(backbone, dict):
            model_type = backbone.get("model_type", "bert")
            if model_type not in CONFIG_MAPPING:
                raise ValueError(
                    f"backbone_config has the model_type '{model_type}', which transformers does not know; name that "
                    "of a text encoder, as in {'model_type': 'bert'}."
                )
            self.backbone_config = CONFIG_MAPPING[model_type](**backbone)
        super().__post_init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        """As in transformers; one dtype, the model's, is written for all parts."""
        fields = super().to_dict()
        for name in self.sub_configs_defaults:
            fields[name].pop("dtype", None)
        return fields

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        if isinstance(self.backbone_config, PreTrainedConfig) and isinstance(self.skim_config, PreTrainedConfig):
            check_parts(self.backbone_config, self.skim_config, self.top_k)


def check_parts(backbone: Any, skim: Any, top_k: int) -> None:
    """Raise ValueError where a backbone's and a Skimformer's config do not fit, or k is no number of tokens."""
    if skim.model_type != SkimformerConfig.model_type:
        raise ValueError(
            f"skim_config is of the model type '{skim.model_type}'; pass that of a skimformer, whose attention is "
            "over all tokens."
        )
    if skim.num_attention_heads != backbone.num_attention_heads:
        raise ValueError(
            f"The Skimformer has {skim.num_attention_heads} heads but the backbone has "
            f"{backbone.num_attention_heads}; take one with as many, since each head reads the pattern of its own."
        )
    if top_k < 1:
        raise ValueError(f"top_k={top_k} leaves no token to attend to; set it to 1 or more.")
    if getattr(backbone, "is_decoder", False):
        raise ValueError("backbone_config.is_decoder is True; SkimmingMask wraps encoders, set it to False.")


__all__ = ["SkimmingMaskConfig", "check_parts"]
