"""The baselines from a BERT's checkpoint, so that they are compared with the family from one start."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from transformers import AutoConfig, LayoutLMConfig, LongformerConfig, PreTrainedModel

from broadsheet.conversion.long_layoutlm import LAYOUT_TABLES, POSITIONS, load_long_layoutlm
from broadsheet.conversion.reading import check_sizes, renew_outputs
from broadsheet.modeling.modeling_long_layoutlm import LongLayoutLMModel
from broadsheet.tokenization.input_checks import InputError

STARTS = {"layoutlm": ("bert",), "longformer": ("bert",)}
"""The types that each of these baselines starts from."""

# What the two configurations say of themselves, not of the model.
DROPPED = ("model_type", "architectures", "torch_dtype", "dtype", "transformers_version", "_name_or_path")


def start_baseline(
    wanted: str, path: str, model_class: Any, max_length: int | None = None, **settings: Any
) -> PreTrainedModel:
    """
    A baseline around a BERT's encoder, whose outputs it has at first.

    A Longformer's head is new; a LayoutLM's is BERT's where both have one of the same parameters and sizes.

    Args:
        wanted: "layoutlm" or "longformer". LayoutLM's 2-D tables start at zero. A Longformer's positions repeat BERT's
            and its global projections are copies, as its authors made theirs of RoBERTa.
        path: folder of the BERT, or its name on the Hub.
        model_class: the baseline's class.
        max_length: tokens that a Longformer reads; 4,096 when None.
        settings: of the baseline's configuration.

    Raises:
        InputError: where the checkpoint cannot be read, lacks weights, or has other sizes than the settings say.
    """
    fields = {name: value for name, value in AutoConfig.from_pretrained(path).to_dict().items() if name not in DROPPED}
    if wanted == "layoutlm":
        config: Any = LayoutLMConfig(**{**fields, **settings})
        loaded, report = model_class.from_pretrained(
            path,
            config=config,
            key_mapping={r"^bert\.": "layoutlm."},
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
        check_sizes(path, model_class, report)
        _check_complete(path, wanted, {name for name in report["missing_keys"] if name.startswith("layoutlm.")})
        # transformers would write BERT's names back.
        loaded._weight_conversions = None
        embeddings = loaded.base_model.embeddings
        for axis in "xyhw":
            torch.nn.init.zeros_(getattr(embeddings, f"{axis}_position_embeddings").weight)
        renew_outputs(loaded, fields, settings)
        return loaded
    positions = max_length or POSITIONS
    encoder = load_long_layoutlm(path, LongLayoutLMModel, positions)
    offset = (fields.get("pad_token_id") or 0) + 1
    config = LongformerConfig(**{**fields, "max_position_embeddings": positions + offset, **settings})
    model: PreTrainedModel = model_class._from_config(config)
    weights = encoder.state_dict()  # by Longformer's names, and the 2-D tables, which it has no place for
    name = "embeddings.position_embeddings.weight"
    weights[name] = weights[name][[0] * offset + list(range(positions))]
    missing, _ = model.base_model.load_state_dict(weights, strict=False)
    _check_complete(path, wanted, missing)
    return model


def _check_complete(path: str, wanted: str, missing: Iterable[str]) -> None:
    lacking = sorted(name for name in missing if not re.search(f"{LAYOUT_TABLES}|pooler", name))
    if lacking:
        raise InputError(f"{path} lacks {lacking[0]}, without which no {wanted} starts; name another BERT.")
