"""Tiny models of every type with their processors, saved as users save them."""

from pathlib import Path
from typing import Any

import torch
from tests.family.members import MEMBERS
from tests.family.members import pyramidion as seq2seq
from tests.family.spec import Case
from tests.tokenizers import tiny_tokenizer

from broadsheet.registration import MODELS
from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor

TYPES = tuple(MODELS)
DOCUMENT: dict[str, Any] = {
    "text": ["Total", "amount", "due", "78.90", "EUR"],
    "boxes": [[9, 9, 30, 20], [32, 9, 60, 20], [62, 9, 70, 20], [9, 40, 40, 50], [42, 40, 60, 50]],
    "page_sizes": [[100, 200]],
}
LABELS = {0: "O", 1: "B-total", 2: "I-total"}


def tiny(model_type: str, head: str) -> tuple[Any, Any]:
    """A model, every parameter disturbed, float32, eval; and its processor."""
    if model_type == "pyramidion":
        processor = PyramidionProcessor(tiny_tokenizer("bpe"))
        case: Any = seq2seq.Case(seq2seq.VARIANTS[0], head)
        ids = {"pad_token_id": processor.tokenizer.pad_token_id, "eos_token_id": processor.tokenizer.eos_token_id}
        return case.model(torch.float32, vocab_size=len(processor.tokenizer), **ids), processor
    spec = next(spec for spec in MEMBERS if spec.model_type == model_type)
    assert spec.processor is not None
    processor = spec.processor()
    changes: dict[str, Any] = {"id2label": LABELS, "label2id": {label: i for i, label in LABELS.items()}}
    case = Case(spec, spec.variants[0], head)
    size = len(processor.tokenizer)
    if model_type == "skimming_mask":
        changes["backbone_config"] = {**spec.variants[0].config["backbone_config"], "vocab_size": size}
    else:
        changes["vocab_size"] = size
    return case.model(torch.float32, **changes), processor


def heads(model_type: str) -> dict[str, str]:
    """Auto class -> head."""
    prefix = len(MODELS[model_type].config.__name__.removesuffix("Config"))
    return {auto.__name__: model.__name__[prefix:] for auto, model in MODELS[model_type].models.items()}


def save(model_type: str, head: str, folder: Path) -> tuple[Any, Any]:
    """Save both; returns them."""
    model, processor = tiny(model_type, head)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model, processor
