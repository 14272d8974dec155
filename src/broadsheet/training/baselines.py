"""
Models of transformers that the family is compared with, built and trained by the same commands.

Text models get no boxes; LayoutLM gets those of Skimformer, whole numbers in 0..1000. All read the same windows of the
same tokenizer. BigBird turns to full attention where a batch has `(5 + 2 * num_random_blocks) * block_size` tokens or
fewer (704 at its defaults), and says so: below that a table has no sparse BigBird.
"""

from typing import Any

import numpy as np
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BigBirdConfig,
    BigBirdForMaskedLM,
    BigBirdForSequenceClassification,
    BigBirdForTokenClassification,
    LayoutLMConfig,
    LayoutLMForMaskedLM,
    LayoutLMForQuestionAnswering,
    LayoutLMForSequenceClassification,
    LayoutLMForTokenClassification,
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerForSequenceClassification,
    LongformerForTokenClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)

from broadsheet.registration import MODELS, FamilyMember
from broadsheet.tokenization.layout_window import Window
from broadsheet.tokenization.processing_layout import LayoutProcessor
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor


class TextProcessor(LayoutProcessor):
    """The family's processor for models that read no boxes: words in, windows of tokens out."""

    boxes_required = False

    def layout_tensors(self, window: Window) -> dict[str, np.ndarray]:
        """Nothing."""
        return {}


def _baseline(
    config: Any, processor: Any, masked_lm: Any, tokens: Any, sequence: Any, questions: Any = None
) -> FamilyMember:
    # Longformer's and BigBird's own heads look for the question by separators that only their tokenizers have.
    heads: dict[Any, Any] = {
        AutoModelForMaskedLM: masked_lm,
        AutoModelForTokenClassification: tokens,
        AutoModelForSequenceClassification: sequence,
        **({AutoModelForQuestionAnswering: questions} if questions else {}),
    }
    return FamilyMember(config, processor, heads)


BASELINES: dict[str, FamilyMember] = {
    "bert": _baseline(
        BertConfig,
        TextProcessor,
        BertForMaskedLM,
        BertForTokenClassification,
        BertForSequenceClassification,
        BertForQuestionAnswering,
    ),
    "roberta": _baseline(
        RobertaConfig,
        TextProcessor,
        RobertaForMaskedLM,
        RobertaForTokenClassification,
        RobertaForSequenceClassification,
        RobertaForQuestionAnswering,
    ),
    "layoutlm": _baseline(
        LayoutLMConfig,
        SkimformerProcessor,
        LayoutLMForMaskedLM,
        LayoutLMForTokenClassification,
        LayoutLMForSequenceClassification,
        LayoutLMForQuestionAnswering,
    ),
    "longformer": _baseline(
        LongformerConfig,
        TextProcessor,
        LongformerForMaskedLM,
        LongformerForTokenClassification,
        LongformerForSequenceClassification,
    ),
    "big_bird": _baseline(
        BigBirdConfig,
        TextProcessor,
        BigBirdForMaskedLM,
        BigBirdForTokenClassification,
        BigBirdForSequenceClassification,
    ),
}

TRAINABLE: dict[str, FamilyMember] = {**MODELS, **BASELINES}
"""Everything that the training commands build: the family, and what it is compared with."""

_POSITIONS_AFTER_PADDING = ("roberta", "longformer")


def position_settings(model_type: str, max_length: int, pad_token_id: int) -> dict[str, int]:
    """
    As many positions as windows of `max_length` tokens need, for a model that has learned positions.

    RoBERTa and Longformer count positions from the one after the padding token's id. Models of other positions, and
    the family but LongLayoutLM, get none; whoever wants another number overrides it.
    """
    if model_type == "long_layoutlm":
        return {"max_position_embeddings": max_length, "position_offset": 0}
    if model_type not in BASELINES:
        return {}
    offset = pad_token_id + 1 if model_type in _POSITIONS_AFTER_PADDING else 0
    return {"max_position_embeddings": max_length + offset}


def num_positions(config: Any) -> int | None:
    """How many tokens a baseline or LongLayoutLM of that config reads; None for the rest of the family."""
    if config.model_type == "long_layoutlm":
        return int(config.max_position_embeddings - config.position_offset)
    if config.model_type not in BASELINES:
        return None
    offset = config.pad_token_id + 1 if config.model_type in _POSITIONS_AFTER_PADDING else 0
    return int(config.max_position_embeddings - offset)


def remarks(network: Any) -> list[str]:
    """What a reader of a trained model's numbers should know about it; usually nothing."""
    if network.config.model_type == "big_bird" and network.base_model.attention_type == "original_full":
        return ["BigBird read its windows with full attention: they are too short for its sparse pattern."]
    return []


def loading_code(model_type: str, auto_model: str) -> tuple[str, str]:
    """For cards: the imports that loading a model takes, and its processor's class, which Auto knows of ours alone."""
    if model_type not in BASELINES:
        return f"import broadsheet\nfrom transformers import {auto_model}, AutoProcessor", "AutoProcessor"
    processor: Any = BASELINES[model_type].processor
    imports = f"from transformers import {auto_model}\n\nfrom {processor.__module__} import {processor.__name__}"
    return imports, processor.__name__
