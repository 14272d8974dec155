"""Folders in the format of the authors' releases, made from models of the family: names permuted back."""

import json
import re
from pathlib import Path
from typing import Any

import torch
from tests.family.spec import disturb

# Our names -> theirs, per model type of theirs.
NAMES: dict[str, dict[str, str]] = {
    "skimformer": {
        r"layout_embeddings\.": "two_dim_pos_embeddings.",
        r"position_embeddings\.pos": "one_dim_pos_embeddings.pos",
    },
    "longskimformer": {r"^long_skimformer\.": "longskimformer.", r"layout_embeddings\.": "two_dim_pos_embeddings."},
    "skimmingmask": {
        r"^skimming_mask\.skim\.layout_embeddings\.": "skimming_mask_model.two_dim_pos_embeddings.",
        r"^skimming_mask\.skim\.": "skimming_mask_model.",
        r"^skimming_mask\.backbone\.": "skimming_mask_model.",
    },
    "bertwithskimembed": {r"^bert_with_skim_embeddings\.": "bert_with_skim_embed."},
}

BERT: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
SKIMFORMER: dict[str, Any] = {
    **BERT,
    "model_type": "skimformer",
    "hidden_layout_size": 16,
    "max_2d_position_embeddings": 1024,
    "num_hidden_layers_layout_encoder": 2,
    "num_attention_heads_layout_encoder": 4,
    "skim_attention_head_size": 5,
    "attention_head_size": 12,
    "contextualize_2d_positions": True,
    "degrade_2d_positions": False,
    "use_1d_positions": False,
    "gradient_checkpointing": False,
    "top_k": 0,
}
LONG_SKIMFORMER: dict[str, Any] = {
    **SKIMFORMER,
    "model_type": "longskimformer",
    "attention_window": 6,
    "ignore_attention_mask": False,
    "pad_token_bbox_value": 0,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
SKIMMING_MASK: dict[str, Any] = {
    **BERT,
    "model_type": "skimmingmask",
    "core_model_type": "bert",
    "top_k": 3,
    "contextualize_2d_positions": True,
    "skim_attention_head_size": 5,
    "num_skim_attention_heads": 7,
    "max_2d_position_embeddings": 1024,
    "hidden_layout_size": 16,
}
BERT_WITH_SKIM_EMBED: dict[str, Any] = {
    **BERT,
    "model_type": "bertwithskimembed",
    "hidden_layout_size": 10,
    "max_2d_position_embeddings": 1024,
}


def make_model(model_class: Any, config: Any) -> Any:
    """A model with every parameter away from its initial value, in float64 as its tests compare outputs."""
    torch.manual_seed(0)
    return disturb(model_class(config)).eval()


def released_weights(model: Any, model_type: str) -> dict[str, torch.Tensor]:
    """The model's tensors under the authors' names."""
    weights = {}
    for name, value in model.state_dict().items():
        theirs = name
        for pattern, replacement in NAMES[model_type].items():
            theirs = re.sub(pattern, replacement, theirs)
        weights[theirs] = value.clone()
    return weights


def write_released(folder: Path, fields: dict[str, Any], weights: dict[str, torch.Tensor], **extra: Any) -> Path:
    """config.json and pytorch_model.bin."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**fields, **extra, "architectures": ["AnyName"]}))
    torch.save(weights, folder / "pytorch_model.bin")
    return folder
