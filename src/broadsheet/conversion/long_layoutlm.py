"""
`broadsheet convert long-layoutlm CHECKPOINT OUT`: a LayoutLM, BERT or RoBERTa as a LongLayoutLM.

The position table is repeated until it reaches `--positions` tokens, and the global tokens' projections start as
copies of the others, as Longformer's authors made theirs of RoBERTa (Longformer, section 5). On inputs that the parent
could read, with a window around all of them, the result gives the parent's outputs, its head included. It keeps a
LayoutLM's 2-D tables, and its processor the boxes that go with them: 0..1000 of each page. Tables that a BERT or
RoBERTa lacks start at zero. Longformer's and BigBird's checkpoints need no conversion to be
loaded (`LongLayoutLMModel.from_pretrained`).
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    LayoutLMForQuestionAnswering,
    PreTrainedModel,
)

from broadsheet.conversion.lambert import SAME_FIELDS, read_tokenizer
from broadsheet.conversion.reading import check_output, find_config, other_labels, read_config, renew_outputs
from broadsheet.modeling.configuration_long_layoutlm import LongLayoutLMConfig
from broadsheet.modeling.modeling_long_layoutlm import (
    LongLayoutLMForMaskedLM,
    LongLayoutLMForQuestionAnswering,
    LongLayoutLMForSequenceClassification,
    LongLayoutLMForTokenClassification,
    LongLayoutLMModel,
)
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_long_layoutlm import LongLayoutLMProcessor
from broadsheet.training.arguments import parse_settings

SOURCES = ("layoutlm", "bert", "roberta")
POSITIONS = 4096

# Our classes whose heads the parents have too, with theirs; of other heads only the encoder is taken.
HEADS: dict[Any, Any] = {
    LongLayoutLMForMaskedLM: AutoModelForMaskedLM,
    LongLayoutLMForSequenceClassification: AutoModelForSequenceClassification,
    LongLayoutLMForTokenClassification: AutoModelForTokenClassification,
    LongLayoutLMForQuestionAnswering: AutoModelForQuestionAnswering,
}
# Ends of architecture names, and what they become. Nothing matches: no head.
ENDINGS: dict[str, Any] = {
    "ForMaskedLM": LongLayoutLMForMaskedLM,
    "ForPreTraining": LongLayoutLMForMaskedLM,
    "ForSequenceClassification": LongLayoutLMForSequenceClassification,
    "ForTokenClassification": LongLayoutLMForTokenClassification,
    "ForQuestionAnswering": LongLayoutLMForQuestionAnswering,
    "": LongLayoutLMModel,
}
LABELLED = (LongLayoutLMForSequenceClassification, LongLayoutLMForTokenClassification)
# Names of the heads' parameters in BERT and LayoutLM, and ours; RoBERTa's are ours.
HEAD_NAMES: dict[Any, dict[str, str]] = {
    LongLayoutLMForMaskedLM: {
        r"^cls\.predictions\.transform\.dense\.": "lm_head.dense.",
        r"^cls\.predictions\.transform\.LayerNorm\.": "lm_head.layer_norm.",
        r"^cls\.predictions\.": "lm_head.",
    },
    LongLayoutLMForSequenceClassification: {
        r"^(bert|layoutlm)\.pooler\.dense\.": "classifier.dense.",
        r"^classifier\.(?=weight|bias)": "classifier.out_proj.",
    },
    LongLayoutLMForTokenClassification: {r"^classifier\.": "classifier.out_proj."},
}
LAYOUT_TABLES = r"embeddings\.[xyhw]_position_embeddings\."


def convert_long_layoutlm(
    checkpoint: str | Path, output: str | Path, positions: int = POSITIONS, **settings: Any
) -> PreTrainedModel:
    """
    Convert a checkpoint with its tokenizer and save model and processor.

    Args:
        checkpoint: a folder of a LayoutLM, BERT or RoBERTa.
        output: the folder to write to. The Auto classes load it.
        positions: so many tokens fit into the saved model.
        settings: of `LongLayoutLMConfig`, such as `attention_pattern="distance"`.

    Returns:
        The model, in evaluation mode.

    Raises:
        InputError: the folder is incomplete, damaged or of another model type; it has no tokenizer; the settings do
            not fit it.
    """
    folder, target = Path(checkpoint), Path(output)
    check_output(folder, target)
    architectures = read_config(folder).get("architectures") or [""]
    model_class = next(ours for ending, ours in ENDINGS.items() if architectures[0].endswith(ending))
    model = load_long_layoutlm(folder, model_class, positions, **settings).eval()
    tokenizer = read_tokenizer(folder)
    tokenizer.model_max_length = positions
    processor = long_layoutlm_processor(tokenizer, read_config(folder)["model_type"])
    processor.id2label = model.config.id2label if model_class in LABELLED else None
    processor.configure(model.config)
    model.save_pretrained(target)
    processor.save_pretrained(target)
    return model


def long_layoutlm_processor(tokenizer: Any, parent: str) -> LongLayoutLMProcessor:
    """The processor of a model that starts from the model type `parent`: a LayoutLM's tables know single pages."""
    if parent == "layoutlm":
        return LongLayoutLMProcessor(tokenizer, page_stacking="page", largest_coordinate=1000)
    return LongLayoutLMProcessor(tokenizer)


def load_long_layoutlm(
    folder: str | Path, model_class: Any, positions: int = POSITIONS, **settings: Any
) -> PreTrainedModel:
    """
    A LayoutLM's, BERT's or RoBERTa's checkpoint as a model of the given class; a head that it lacks is new.

    Args:
        folder: of the checkpoint, or its name on the Hub.
        model_class: `LongLayoutLMForTokenClassification` or another class of LongLayoutLM's. Where the parent labels
            tokens, with one layer, that stands behind a first layer that changes nothing.
        positions: how many tokens the model reads.
        settings: of `LongLayoutLMConfig`; `id2label` replaces a head for other labels by a new one.

    Raises:
        InputError: as `convert_long_layoutlm`.
    """
    fields = find_config(folder)
    _check(str(folder), fields, positions, settings)
    if "id2label" in settings:
        settings = {"label2id": {name: index for index, name in settings["id2label"].items()}, **settings}
    try:
        model = _from_parent(str(folder), fields, model_class, positions, settings)
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError, StrictDataclassError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"{folder} holds no checkpoint that LongLayoutLM can start from: {reason}") from error
    renew_outputs(model, fields, settings)
    return model


def _check(folder: str, fields: dict[str, Any], positions: int, settings: dict[str, Any]) -> None:
    found = fields.get("model_type")
    if found in LongLayoutLMConfig.parents:
        raise InputError(
            f"{folder} is a {found} checkpoint, which LongLayoutLM loads as it is; call from_pretrained with it."
        )
    if found not in SOURCES:
        raise InputError(
            f"{folder} is a checkpoint of the model type '{found}'; LongLayoutLM is converted from "
            f"{', '.join(SOURCES)}."
        )
    kind = fields.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise InputError(
            f"{folder} has {kind} positions, which LongLayoutLM has no place for; name a {found} of absolute ones."
        )
    if positions < 1:
        raise InputError(f"{positions} positions leave no token to read; ask for at least 1.")
    unknown = sorted(set(settings) - set(LongLayoutLMConfig().to_dict()))
    if unknown:
        raise InputError(f"LongLayoutLM's configuration has no setting {unknown[0]!r}; see LongLayoutLMConfig.")
    for name in ("max_position_embeddings", "position_offset"):
        if name in settings:
            raise InputError(f"{name} follows from the checkpoint and the number of positions; set positions instead.")


def _from_parent(
    folder: str, fields: dict[str, Any], model_class: Any, positions: int, settings: dict[str, Any]
) -> PreTrainedModel:
    found = fields["model_type"]
    labels = {name: value for name, value in settings.items() if name in ("id2label", "label2id")}
    # With its own labels, transformers refuses a head of another size: ours is new then too.
    other = {"ignore_mismatched_sizes": True} if labels else {}
    their_class = HEADS.get(model_class, AutoModel)
    if their_class is AutoModelForQuestionAnswering and found == "layoutlm":
        their_class = LayoutLMForQuestionAnswering  # which that Auto class does not know
    source, report = their_class.from_pretrained(folder, output_loading_info=True, **labels, **other)
    lacking = sorted(name for name in report["missing_keys"] if "embeddings." in name or "encoder." in name)
    if lacking:
        raise InputError(f"The weights of {folder} lack {', '.join(lacking[:3])}, ...; copy the checkpoint again.")
    theirs = source.config
    # RoBERTa counts positions from the one after the padding token's id.
    offset = theirs.pad_token_id + 1 if found == "roberta" else 0
    own = {name: getattr(theirs, name) for name in SAME_FIELDS if getattr(theirs, name, None) is not None}
    own |= {name: getattr(theirs, name, None) for name in ("bos_token_id", "eos_token_id")}
    own |= {"max_position_embeddings": offset + positions, "position_offset": offset}
    if found == "layoutlm":
        own["max_2d_position_embeddings"] = theirs.max_2d_position_embeddings
    if found != "roberta":
        own["lm_head_act"] = theirs.hidden_act
    labels_tokens = model_class is LongLayoutLMForTokenClassification
    keeps_head = labels_tokens and _has_head(fields, model_class) and not other_labels(fields, settings)
    if keeps_head:
        own["classifier_act"] = "linear"
    model = model_class(LongLayoutLMConfig(**{**own, **settings}))
    weights = _our_weights(model, source, offset, positions)
    if keeps_head:
        size = model.config.hidden_size
        weights |= {"classifier.dense.weight": torch.eye(size), "classifier.dense.bias": torch.zeros(size)}
    elif labels_tokens:
        weights = {name: value for name, value in weights.items() if not name.startswith("classifier.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    new = [name for name in missing if not re.search(LAYOUT_TABLES, name) and not _is_head(model, name)]
    unread = [name for name in unexpected if not re.search(r"position_ids|pooler\.|^cls\.seq_relationship", name)]
    if new or unread:
        raise InputError(f"{folder} has parameters that LongLayoutLM does not know, or lacks some: {new + unread}.")
    model.tie_weights()
    return model


def _our_weights(
    model: PreTrainedModel, source: PreTrainedModel, offset: int, positions: int
) -> dict[str, torch.Tensor]:
    """The parent's weights by our names, its position table repeated, its projections once more for global tokens."""
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    names = {**HEAD_NAMES.get(type(model), {}), r"^(bert|layoutlm|roberta)\.": prefix}
    weights = {}
    for name, value in source.state_dict().items():
        ours = next((re.sub(theirs, new, name) for theirs, new in names.items() if re.search(theirs, name)), name)
        weights[prefix + ours if source.base_model is source else ours] = value
    table_name = f"{prefix}embeddings.position_embeddings.weight"
    table = weights[table_name]
    rows = table[offset:]
    weights[table_name] = torch.cat([table[:offset], rows.repeat(-(-positions // len(rows)), 1)[:positions]])
    for name in [name for name in model.state_dict() if re.search(r"_global\.(weight|bias)$", name)]:
        weights[name] = weights[name.replace("_global.", ".")]
    return weights


def _has_head(fields: dict[str, Any], model_class: Any) -> bool:
    ending = next(ending for ending, ours in ENDINGS.items() if ours is model_class)
    return str((fields.get("architectures") or [""])[0]).endswith(ending)


def _is_head(model: PreTrainedModel, name: str) -> bool:
    return ".encoder." not in f".{name}" and ".embeddings." not in f".{name}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command `broadsheet convert long-layoutlm`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="broadsheet convert long-layoutlm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, help="folder of a LayoutLM, BERT or RoBERTa, with its tokenizer")
    parser.add_argument("output", type=Path, help="folder to write the LongLayoutLM and its processor to")
    parser.add_argument(
        "--positions", type=int, default=POSITIONS, metavar="TOKENS", help="tokens to read (default: %(default)s)"
    )
    parser.add_argument(
        "--config_overrides", help="settings of LongLayoutLM, as 'attention_pattern=distance,num_neighbors=256'"
    )
    arguments = parser.parse_args(argv)
    settings = parse_settings(arguments.config_overrides, "config_overrides")
    model = convert_long_layoutlm(arguments.checkpoint, arguments.output, arguments.positions, **settings)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{arguments.output}: {type(model).__name__}, {parameters:,} parameters, "
        f"reads up to {arguments.positions:,} tokens"
    )
    return 0
