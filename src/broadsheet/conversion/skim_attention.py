"""
`broadsheet convert skim-attention CHECKPOINT OUT`: the released checkpoints of the Skim-Attention paper, of all four
model types, as checkpoints of the family that behave as the authors' code does.
"""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    BertTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
)

from broadsheet.conversion.reading import check_output, read_config, read_weights
from broadsheet.modeling.configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.configuration_skimming_mask import SkimmingMaskConfig
from broadsheet.modeling.modeling_bert_with_skim_embeddings import (
    BertWithSkimEmbeddingsForTokenClassification,
    BertWithSkimEmbeddingsModel,
)
from broadsheet.modeling.modeling_long_skimformer import (
    LongSkimformerForMaskedLM,
    LongSkimformerForTokenClassification,
    LongSkimformerModel,
)
from broadsheet.modeling.modeling_skimformer import (
    SkimformerForMaskedLM,
    SkimformerForTokenClassification,
    SkimformerModel,
)
from broadsheet.modeling.modeling_skimming_mask import SkimmingMaskForTokenClassification, SkimmingMaskModel
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

Weights = dict[str, torch.Tensor]

# Fields that mean the same under the same name.
BERT_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size",
    "initializer_range", "layer_norm_eps", "pad_token_id",
)  # fmt: skip
LAYOUT_FIELDS = ("hidden_layout_size", "max_2d_position_embeddings")
CONTEXTUALIZER_FIELDS = ("num_hidden_layers_layout_encoder", "num_attention_heads_layout_encoder")
SHARED_FIELDS = ("id2label", "label2id", "problem_type", "tie_word_embeddings")


@dataclass(frozen=True)
class Format:
    """
    One model type of the authors.

    Attributes:
        prefix: of the encoder's parameters.
        names: patterns of their names without it, and ours; what none matches keeps its name.
        config: (their fields, their weights) -> our config.
        classes: the parameter that only a model with this head has -> our class; the last one without a head.
        left_out: patterns of their parameters and buffers that have no part in the computation.
    """

    prefix: str
    names: dict[str, str]
    config: Callable[[dict[str, Any], Weights], Any]
    classes: dict[str, Any]
    left_out: tuple[str, ...] = (r"\.position_ids$",)


def convert_skim_attention(checkpoint: str | Path, output: str | Path) -> PreTrainedModel:
    """
    Convert a released folder and save it.

    Args:
        checkpoint: a folder with config.json and pytorch_model.bin or model.safetensors; with its tokenizer's files,
            a processor is saved too.
        output: the folder to write to. The Auto classes load it.

    Returns:
        The model, in evaluation mode.

    Raises:
        InputError: the folder is incomplete or damaged, of another model type, or its parameters are not those that
            its config asks for; the error lists them.
    """
    folder, target = Path(checkpoint), Path(output)
    check_output(folder, target)
    fields = read_config(folder)
    found = fields.get("model_type")
    if found not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError(f"{folder} is a checkpoint of the model type '{found}'; Skim-Attention released {known}.")
    model = _build(folder, FORMATS[found], fields, read_weights(folder))
    model.save_pretrained(target)
    tokenizer = _read_tokenizer(folder)
    if tokenizer is not None:
        SkimformerProcessor(tokenizer).save_pretrained(target)
    return model


def _build(folder: Path, form: Format, fields: dict[str, Any], weights: Weights) -> PreTrainedModel:
    weights = {name: value for name, value in weights.items() if not _matches(form.left_out, name)}
    if not any(name.startswith(form.prefix) for name in weights):
        # The encoder alone is saved without its prefix.
        weights = {form.prefix + name: value for name, value in weights.items()}
    try:
        config = form.config(fields, weights)
    except (ValueError, TypeError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder}/config.json describes no model that can be built: {reason}") from error
    if getattr(config, "skim_input", None) == "degraded":
        # Their embeddings of sizes are there but not read.
        weights = {name: value for name, value in weights.items() if not _matches((UNREAD_IF_DEGRADED,), name)}
    _untie_if_different(config, form, weights)
    model_class = next(each for name, each in form.classes.items() if name == "" or name in weights)
    model = model_class(config)
    renamed = {_our_name(form, model, name): (name, value) for name, value in weights.items()}
    own = model.state_dict()
    # A pooler without a reader, and one that the checkpoint of an encoder alone lacks, are no loss.
    spare = {name for name in own if ".pooler." in f".{name}"} if form.classes[""] is model_class else set()
    unknown = [old for new, (old, _) in renamed.items() if new not in own and ".pooler." not in old]
    tied = model.all_tied_weights_keys
    given = set(renamed) | set(tied) | {source for target, source in tied.items() if target in renamed}
    missing = sorted(set(own) - given - spare)
    shapes = [
        f"{old} {list(value.shape)} instead of {list(own[new].shape)}"
        for new, (old, value) in renamed.items()
        if new in own and own[new].shape != value.shape
    ]
    faults = {"unknown": unknown, "missing (our names)": missing, "of another shape": shapes}
    if any(faults.values()):
        told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names)
        raise InputError(f"The parameters of {folder} are not those of its config.json; {told}.")
    with torch.no_grad():
        for new, (_, value) in renamed.items():
            if new in own:
                own[new].copy_(value)
    return model.eval()


def _our_name(form: Format, model: PreTrainedModel, name: str) -> str:
    base = "" if model.base_model is model else f"{model.base_model_prefix}."
    if not name.startswith(form.prefix):
        return name
    inner = name.removeprefix(form.prefix)
    for pattern, ours in form.names.items():
        inner, changed = re.subn(pattern, ours, inner)
        if changed:
            break
    return base + inner


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _untie_if_different(config: Any, form: Format, weights: Weights) -> None:
    decoders = [
        weights[name] for name in ("cls.predictions.decoder.weight", "lm_head.decoder.weight") if name in weights
    ]
    words = weights.get(f"{form.prefix}text_embeddings.word_embeddings.weight")
    if decoders and words is not None and not torch.equal(decoders[0], words):
        config.tie_word_embeddings = False


def _taken(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) is not None}


def _skimformer_fields(fields: dict[str, Any]) -> dict[str, Any]:
    own = _taken(fields, *BERT_FIELDS, *LAYOUT_FIELDS, *CONTEXTUALIZER_FIELDS, *SHARED_FIELDS)
    own |= _taken(fields, "skim_attention_head_size", "attention_head_size")
    own["contextualize_layout"] = bool(fields.get("contextualize_2d_positions"))
    if fields.get("use_1d_positions"):
        own |= {"skim_input": "position", "contextualize_layout": False}
    elif fields.get("degrade_2d_positions"):
        own["skim_input"] = "degraded"
    return own


def _skimformer(fields: dict[str, Any], _weights: Weights) -> SkimformerConfig:
    return SkimformerConfig(mask_layout_contextualizer=False, **_skimformer_fields(fields))  # type: ignore[call-arg]


def _long_skimformer(fields: dict[str, Any], _weights: Weights) -> LongSkimformerConfig:
    window = fields.get("attention_window", 512)
    if isinstance(window, list):
        if len(set(window)) != 1:
            raise ValueError(f"attention_window={window} differs from layer to layer, but attention is computed once.")
        window = window[0]
    if fields.get("ignore_attention_mask"):
        raise ValueError("ignore_attention_mask=true reads padding as text; set it to false.")
    own = {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5, **_skimformer_fields(fields)}
    return LongSkimformerConfig(attention_window=window, **own)  # type: ignore[call-arg]


def _skimming_mask(fields: dict[str, Any], weights: Weights) -> SkimmingMaskConfig:
    tables = weights.get("skimming_mask_model.two_dim_pos_embeddings.x_position_embeddings.weight")
    layers = {
        name.split("layout_encoder.layer.")[1].split(".")[0] for name in weights if "layout_encoder.layer." in name
    }
    heads = fields.get("num_attention_heads", 12)
    skim: dict[str, Any] = {
        "num_attention_heads": heads,
        "num_attention_heads_layout_encoder": heads,
        "num_hidden_layers_layout_encoder": len(layers) or 2,
        **_taken(fields, "intermediate_size", "hidden_act", "initializer_range", "layer_norm_eps"),
        **_taken(fields, *LAYOUT_FIELDS, *CONTEXTUALIZER_FIELDS, "skim_attention_head_size"),
        "contextualize_layout": bool(fields.get("contextualize_2d_positions")),
        "mask_layout_contextualizer": False,
    }
    backbone = _taken(fields, *BERT_FIELDS)
    if tables is not None:
        skim["max_2d_position_embeddings"], skim["hidden_layout_size"] = tables.shape
    backbone["model_type"] = "bert" if fields.get("core_model_type", "bert") == "bert" else "layoutlm"
    own = weights.get("skimming_mask_model.embeddings.x_position_embeddings.weight")
    if own is not None and backbone["model_type"] == "layoutlm":
        backbone["max_2d_position_embeddings"] = len(own)
    return SkimmingMaskConfig(  # type: ignore[call-arg]
        backbone_config=backbone, skim_config=skim, **_taken(fields, "top_k", *SHARED_FIELDS)
    )


def _bert_with_skim_embeddings(fields: dict[str, Any], weights: Weights) -> BertWithSkimEmbeddingsConfig:
    own = _taken(fields, *BERT_FIELDS, *LAYOUT_FIELDS, *SHARED_FIELDS)
    tables = weights.get("bert_with_skim_embed.embeddings.x_position_embeddings.weight")
    if tables is not None:
        own["max_2d_position_embeddings"], own["hidden_layout_size"] = tables.shape
    return BertWithSkimEmbeddingsConfig(**own)  # type: ignore[call-arg]


UNREAD_IF_DEGRADED = r"two_dim_pos_embeddings\.[wh]_position_embeddings\."
SKIMFORMER_NAMES = {
    r"^two_dim_pos_embeddings\.": "layout_embeddings.",
    r"^one_dim_pos_embeddings\.": "position_embeddings.",
}
FORMATS: dict[str, Format] = {
    "skimformer": Format(
        "skimformer.",
        SKIMFORMER_NAMES,
        _skimformer,
        {
            "cls.predictions.transform.dense.weight": SkimformerForMaskedLM,
            "classifier.weight": SkimformerForTokenClassification,
            "": SkimformerModel,
        },
    ),
    "longskimformer": Format(
        "longskimformer.",
        SKIMFORMER_NAMES,
        _long_skimformer,
        {
            "lm_head.dense.weight": LongSkimformerForMaskedLM,
            "classifier.weight": LongSkimformerForTokenClassification,
            "": LongSkimformerModel,
        },
    ),
    "skimmingmask": Format(
        "skimming_mask_model.",
        {
            r"^two_dim_pos_embeddings\.": "skim.layout_embeddings.",
            r"^(layout_encoder|skim_attention)\.": r"skim.\1.",
            r"^(embeddings|encoder|pooler)\.": r"backbone.\1.",
        },
        _skimming_mask,
        {"classifier.weight": SkimmingMaskForTokenClassification, "": SkimmingMaskModel},
    ),
    "bertwithskimembed": Format(
        "bert_with_skim_embed.",
        {},
        _bert_with_skim_embeddings,
        {"classifier.weight": BertWithSkimEmbeddingsForTokenClassification, "": BertWithSkimEmbeddingsModel},
    ),
}


def _read_tokenizer(folder: Path) -> PreTrainedTokenizerBase | None:
    """The folder's tokenizer, whose class the model type of its config.json would hide from AutoTokenizer."""
    if (folder / "vocab.txt").is_file():
        return BertTokenizer.from_pretrained(folder)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return RobertaTokenizer.from_pretrained(folder, add_prefix_space=True)
    if (folder / "tokenizer.json").is_file():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    return None


def main(argv: list[str] | None = None) -> int:
    """The command `broadsheet convert skim-attention`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="broadsheet convert skim-attention", description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="folder with config.json and the weights, as released")
    parser.add_argument("output", type=Path, help="folder to write the converted model to")
    arguments = parser.parse_args(argv)
    model = convert_skim_attention(arguments.checkpoint, arguments.output)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{arguments.output}: {type(model).__name__}, {parameters:,} parameters")
    if not (arguments.output / "processor_config.json").is_file():
        print(
            f"{arguments.checkpoint} has no tokenizer files; save the processor beside the model with "
            "SkimformerProcessor(tokenizer).save_pretrained before you use it on documents."
        )
    return 0
