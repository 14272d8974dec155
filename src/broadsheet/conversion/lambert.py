"""
`broadsheet convert lambert CHECKPOINT OUT`: a BERT or RoBERTa as a LAMBERT, which gives the same outputs until it is
trained; and checkpoints with more positions than they were trained with.

RoBERTa's checkpoints need no conversion to be loaded (`LambertModel.from_pretrained`). BERT's do: it counts positions
from 0 where RoBERTa and LAMBERT count from `pad_token_id + 1`, so that its table moves by as many rows, and its heads
have other names.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoTokenizer,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from broadsheet.conversion.reading import check_output, find_config, read_config, renew_outputs
from broadsheet.modeling.configuration_lambert import LambertConfig
from broadsheet.modeling.modeling_lambert import (
    LambertForMaskedLM,
    LambertForQuestionAnswering,
    LambertForSequenceClassification,
    LambertForTokenClassification,
    LambertModel,
)
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_lambert import LambertProcessor
from broadsheet.training.arguments import parse_settings

SOURCES = ("bert", "roberta", "lambert")

# Ends of architecture names, and the models with these heads: BERT's, ours. Nothing matches: no head.
HEADS: dict[str, tuple[Any, Any]] = {
    "ForMaskedLM": (BertForMaskedLM, LambertForMaskedLM),
    "ForPreTraining": (BertForMaskedLM, LambertForMaskedLM),
    "ForTokenClassification": (BertForTokenClassification, LambertForTokenClassification),
    "ForSequenceClassification": (BertForSequenceClassification, LambertForSequenceClassification),
    "ForQuestionAnswering": (BertForQuestionAnswering, LambertForQuestionAnswering),
    "": (BertModel, LambertModel),
}
# Fields of BERT's config that mean the same under the same name.
SAME_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "type_vocab_size", "initializer_range", "layer_norm_eps",
    "pad_token_id", "classifier_dropout", "tie_word_embeddings", "id2label", "label2id", "problem_type",
)  # fmt: skip
# BERT's names of the heads' parameters, and ours. Its pooler is the hidden layer of our head for documents.
HEAD_NAMES: dict[Any, dict[str, str]] = {
    LambertForMaskedLM: {
        "cls.predictions.transform.dense.": "lm_head.dense.",
        "cls.predictions.transform.LayerNorm.": "lm_head.layer_norm.",
        "cls.predictions.decoder.": "lm_head.decoder.",
        "cls.predictions.bias": "lm_head.bias",
    },
    LambertForSequenceClassification: {
        "bert.pooler.dense.": "classifier.dense.",
        "classifier.": "classifier.out_proj.",
    },
}
LABELLED = (LambertForTokenClassification, LambertForSequenceClassification)
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "sentencepiece.bpe.model")
POSITIONS = "embeddings.position_embeddings.weight"


def convert_lambert(
    checkpoint: str | Path, output: str | Path, extend_positions: int | None = None, **settings: Any
) -> PreTrainedModel:
    """
    Convert a checkpoint with its tokenizer and save model and processor.

    Args:
        checkpoint: a folder of a BERT or RoBERTa, or of a LAMBERT to be extended.
        output: the folder to write to. The Auto classes load it.
        extend_positions: so many tokens fit into the saved model, see `extend_positions_of`.
        settings: of `LambertConfig`, such as `relative_bias="log_buckets"`.

    Returns:
        The model, in evaluation mode.

    Raises:
        InputError: the folder is incomplete, damaged or of another model type; it has no tokenizer; the settings do
            not fit it.
    """
    folder, target = Path(checkpoint), Path(output)
    check_output(folder, target)
    architectures = read_config(folder).get("architectures") or [""]
    head = next(ours for ending, (_, ours) in HEADS.items() if architectures[0].endswith(ending))
    model = load_lambert(folder, head, **settings).eval()
    tokenizer = read_tokenizer(folder)
    if extend_positions is not None:
        extend_positions_of(model, extend_positions)
    if model.config.use_sequential_embeddings:
        tokenizer.model_max_length = capacity(model.config)
    processor = LambertProcessor(tokenizer, id2label=model.config.id2label if head in LABELLED else None)
    model.save_pretrained(target)
    processor.save_pretrained(target)
    return model


def load_lambert(folder: str | Path, model_class: Any, **settings: Any) -> PreTrainedModel:
    """
    A BERT's, RoBERTa's or LAMBERT's checkpoint as a model of the given class; a head that it lacks is new.

    Args:
        folder: of the checkpoint, or its name on the Hub.
        model_class: `LambertForTokenClassification` or another class of LAMBERT's.
        settings: of `LambertConfig`; `id2label` and `label2id` replace a head for other labels by a new one.

    Raises:
        InputError: as `convert_lambert`.
    """
    fields = find_config(folder)
    found = fields.get("model_type")
    if found not in SOURCES:
        raise InputError(
            f"{folder} is a checkpoint of the model type '{found}'; LAMBERT starts from {', '.join(SOURCES)}."
        )
    unknown = sorted(set(settings) - set(LambertConfig().to_dict()))
    if unknown:
        raise InputError(f"LAMBERT's configuration has no setting {unknown[0]!r}; see LambertConfig.")
    replaced = {"ignore_mismatched_sizes": True} if "id2label" in settings else {}
    try:
        if found == "bert":
            model = _from_bert(str(folder), fields, model_class, settings, replaced)
        else:
            model = model_class.from_pretrained(str(folder), **settings, **replaced)
    except (OSError, ValueError, TypeError, SafetensorError, StrictDataclassError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"{folder} holds no checkpoint that LAMBERT can start from: {reason}") from error
    renew_outputs(model, fields, settings)
    return model


def extend_positions_of(model: Any, length: int) -> None:
    """
    Give a LAMBERT positions for `length` tokens, in place: its table is repeated, as Longformer's authors did.

    Raises:
        InputError: it has as many already, or needs none.
    """
    config = model.config
    if not config.use_sequential_embeddings:
        raise InputError(
            "A LAMBERT with use_sequential_embeddings=False reads inputs of any length; leave the extension out."
        )
    unused, old = config.pad_token_id + 1, capacity(config)
    if length <= old:
        raise InputError(f"The checkpoint has positions for {old} tokens already; extend it to more than {old}.")
    embeddings = model.base_model.embeddings
    table = embeddings.position_embeddings.weight.data
    rows = table[unused:].repeat(-(-length // old), 1)[:length]
    embeddings.position_embeddings = torch.nn.Embedding.from_pretrained(
        torch.cat([table[:unused], rows]), freeze=False, padding_idx=config.pad_token_id
    )
    config.max_position_embeddings = length + unused


def capacity(config: Any) -> int:
    """The most tokens that the position table serves."""
    return config.max_position_embeddings - (config.pad_token_id or 0) - 1


def read_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint folder. Raises `InputError` where there is none."""
    # transformers makes an empty tokenizer of a folder that has none of its files.
    if Path(folder).is_dir() and not any(Path(folder, name).is_file() for name in TOKENIZER_FILES):
        raise InputError(f"{folder} has no tokenizer; put the checkpoint's {' or '.join(TOKENIZER_FILES)} there.")
    try:
        return AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{folder} has no tokenizer that can be read ({reason}); put the checkpoint's tokenizer files there."
        ) from None


def _from_bert(
    folder: str, fields: dict[str, Any], model_class: Any, settings: dict[str, Any], replaced: dict[str, Any]
) -> PreTrainedModel:
    kind = fields.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise InputError(
            f"{folder} has {kind} positions, which LAMBERT has no place for; name a BERT of absolute ones."
        )
    if model_class is LambertForMaskedLM and fields.get("hidden_act", "gelu") != "gelu":
        raise InputError(
            f"{folder} has the activation {fields['hidden_act']}, but LAMBERT's masked LM head has gelu (RoBERTa's); "
            "load another head."
        )
    their_class = next(theirs for theirs, ours in HEADS.values() if ours is model_class)
    labels = {name: value for name, value in settings.items() if name in ("id2label", "label2id")}
    source, report = their_class.from_pretrained(folder, output_loading_info=True, **labels, **replaced)
    lacking = sorted(name for name in report["missing_keys"] if "embeddings." in name or "encoder." in name)
    if lacking:
        raise InputError(f"The weights of {folder} lack {', '.join(lacking[:3])}, ...; copy the checkpoint again.")
    theirs = source.config
    unused = (theirs.pad_token_id or 0) + 1
    own = {name: getattr(theirs, name) for name in SAME_FIELDS if getattr(theirs, name, None) is not None}
    own |= {"pad_token_id": theirs.pad_token_id or 0, "bos_token_id": None, "eos_token_id": None}
    own["max_position_embeddings"] = theirs.max_position_embeddings + unused
    model = model_class(LambertConfig(**{**own, **settings}))  # type: ignore[arg-type]
    weights = {_our_name(model, name): value for name, value in source.state_dict().items()}
    positions = _prefix(model) + POSITIONS
    # The rows below the first position are not read for tokens; padding's must exist.
    table = weights.pop(positions)
    if model.config.use_sequential_embeddings:
        weights[positions] = torch.cat([table.new_zeros(unused, table.shape[1]), table])
    missing, unexpected = model.load_state_dict(weights, strict=False)
    additions = [name for name in missing if "layout_adapter" not in name and "relative_bias" not in name]
    unread = [name for name in unexpected if not name.endswith("position_ids") and "pooler" not in name]
    if additions or unread:
        raise InputError(f"{folder} has parameters that LAMBERT does not know, or lacks some: {additions + unread}.")
    model.tie_weights()
    return model


def _prefix(model: PreTrainedModel) -> str:
    return "" if model.base_model is model else f"{model.base_model_prefix}."


def _our_name(model: PreTrainedModel, name: str) -> str:
    for theirs, ours in HEAD_NAMES.get(type(model), {}).items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return _prefix(model) + name.removeprefix("bert.") if name.startswith("bert.") else name


def main(argv: Sequence[str] | None = None) -> int:
    """The command `broadsheet convert lambert`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="broadsheet convert lambert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, help="folder of a BERT or RoBERTa, with its tokenizer")
    parser.add_argument("output", type=Path, help="folder to write the LAMBERT and its processor to")
    parser.add_argument(
        "--extend-positions", type=int, metavar="TOKENS", help="repeat the position table, to read so many tokens"
    )
    parser.add_argument(
        "--config_overrides", help="settings of LAMBERT, as 'relative_bias=log_buckets,use_vertical_bias=false'"
    )
    arguments = parser.parse_args(argv)
    settings = parse_settings(arguments.config_overrides, "config_overrides")
    model = convert_lambert(arguments.checkpoint, arguments.output, arguments.extend_positions, **settings)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    length = f"up to {capacity(model.config):,}" if model.config.use_sequential_embeddings else "any number of"
    print(f"{arguments.output}: {type(model).__name__}, {parameters:,} parameters, reads {length} tokens")
    return 0
