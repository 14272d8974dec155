import numpy as np
import torch
from tests.family.boxes import integer_box_faults, integer_boxes
from tests.family.spec import (
    MASKED_LM,
    MODEL,
    QUESTIONS,
    SEQUENCE,
    TOKENS,
    BadInput,
    Batch,
    ModelSpec,
    Parent,
    Variant,
)
from tests.tokenizers import tiny_tokenizer
from transformers import (
    BigBirdConfig,
    BigBirdForMaskedLM,
    BigBirdForSequenceClassification,
    BigBirdModel,
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerForQuestionAnswering,
    LongformerForSequenceClassification,
    LongformerModel,
)

from broadsheet.modeling.configuration_long_layoutlm import LongLayoutLMConfig
from broadsheet.modeling.modeling_long_layoutlm import (
    LongLayoutLMForMaskedLM,
    LongLayoutLMForQuestionAnswering,
    LongLayoutLMForSequenceClassification,
    LongLayoutLMForTokenClassification,
    LongLayoutLMModel,
)
from broadsheet.tokenization.neighbor_blocks import neighbor_tables
from broadsheet.tokenization.processing_long_layoutlm import LongLayoutLMProcessor
from broadsheet.tokenization.spatial_neighbors import morton_order, nearest_tokens

KEY_BIAS = {r"\bkey(_global)?\.bias$": "a bias of the keys moves all scores of a query alike, which softmax takes out"}
ZERO_GRADIENTS = {
    **KEY_BIAS,
    r"^ForSequenceClassification .*\bencoder\.layer\.2\.attention\.self\.(query|key|value)\.": (
        "the class is read from the first token alone, which is global and has projections of its own"
    ),
}
TABLE_VARIANTS = ("distance", "union")


def make_document(config: LongLayoutLMConfig, length: int, generator: torch.Generator) -> Batch:
    """The first token is global, and about one in six others; every token stands on the page."""
    is_global = torch.rand(length, generator=generator) < 0.16
    is_global[0] = True
    document = {
        "input_ids": torch.randint(5, config.vocab_size, (length,), generator=generator),
        "token_type_ids": torch.randint(config.type_vocab_size, (length,), generator=generator),
        "bbox": integer_boxes(length, 1024, generator),
        "global_attention_mask": is_global.long(),
    }
    if config.neighbors_needed:
        centers = (document["bbox"][:, :2] + document["bbox"][:, 2:]).numpy()
        document["neighbors"] = torch.from_numpy(nearest_tokens(centers, config.neighbors_needed))
        document["spatial_order"] = torch.from_numpy(morton_order(centers))
    return document


def add_block_tables(config: LongLayoutLMConfig, batch: Batch) -> Batch:
    if config.attention_pattern not in TABLE_VARIANTS:
        return batch
    lengths = batch["attention_mask"].sum(1).numpy()
    window = config.attention_window if config.attention_pattern == "union" else None
    neighbors, order = batch["neighbors"].numpy(), batch["spatial_order"].numpy()
    tables = neighbor_tables(neighbors, order, np.asarray(lengths), window)
    return {**batch, **{name: torch.from_numpy(table) for name, table in tables.items()}}


def _cut(name: str, *index: slice) -> BadInput:
    def spoil(batch: Batch) -> None:
        batch[name] = batch[name][index]

    says = ("neighbors has the shape", "LongLayoutLMProcessor(tokenizer, attention_pattern=")
    return BadInput(f"{name} of another shape", spoil, says, ("distance", "distance-sliding-window", "union"))


LONG_LAYOUTLM = ModelSpec(
    config_class=LongLayoutLMConfig,
    config={
        "vocab_size": 60,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 122,
        "type_vocab_size": 2,
        "attention_window": 6,
        "num_neighbors": 4,
        "random_block_size": 1,
        "num_random_blocks": 1,
        "layout_init": "normal",
        "num_labels": 3,
    },
    variants=(
        Variant("sliding-window", zero_gradients=ZERO_GRADIENTS),
        Variant(
            "sliding-window-random",
            {"attention_pattern": "sliding_window_random", "global_projections": False},
            zero_gradients=KEY_BIAS,
        ),
        Variant("distance", {"attention_pattern": "distance"}, zero_gradients=ZERO_GRADIENTS),
        Variant(
            "distance-sliding-window", {"attention_pattern": "distance_sliding_window"}, zero_gradients=ZERO_GRADIENTS
        ),
        Variant("union", {"attention_pattern": "union"}, zero_gradients=ZERO_GRADIENTS),
    ),
    heads={
        MODEL: LongLayoutLMModel,
        MASKED_LM: LongLayoutLMForMaskedLM,
        TOKENS: LongLayoutLMForTokenClassification,
        SEQUENCE: LongLayoutLMForSequenceClassification,
        QUESTIONS: LongLayoutLMForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={
        "input_ids": 1,
        "token_type_ids": 0,
        "bbox": 0,
        "global_attention_mask": 0,
        "neighbors": -1,
        "spatial_order": -1,
    },
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: (
        [(batch, config.num_attention_heads, length, length)] * config.num_hidden_layers
    ),
    processor=lambda: LongLayoutLMProcessor(tiny_tokenizer("bpe")),
    token_limit=lambda config: config.max_position_embeddings - config.position_offset,
    add_batch_tensors=add_block_tables,
    bad_inputs=(
        *integer_box_faults("LongLayoutLMProcessor", 1023),
        BadInput(
            "no neighbors",
            lambda batch: batch.pop("neighbors"),
            ("neighbors is missing", "LongLayoutLMProcessor", "attention_pattern"),
            ("distance", "distance-sliding-window", "union"),
        ),
        _cut("neighbors", slice(None), slice(None), slice(1, None)),
        BadInput(
            "no block tables",
            lambda batch: batch.pop("block_keys"),
            ("block_keys is missing", "LayoutDataCollator"),
            TABLE_VARIANTS,
        ),
        BadInput(
            "block tables of another batch",
            lambda batch: batch.update(block_keys=batch["block_keys"][:1]),
            ("block tables have the shapes", "LayoutDataCollator"),
            TABLE_VARIANTS,
        ),
    ),
    parents=(
        Parent(
            config_class=LongformerConfig,
            config={
                "vocab_size": 60,
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 32,
                "max_position_embeddings": 25,
                "attention_window": [4, 4],
                "type_vocab_size": 1,
                "hidden_act": "relu",
                "layer_norm_eps": 1e-3,
                "attention_probs_dropout_prob": 0.0,
                "hidden_dropout_prob": 0.0,
            },
            heads={
                MODEL: LongformerModel,
                MASKED_LM: LongformerForMaskedLM,
                SEQUENCE: LongformerForSequenceClassification,
                QUESTIONS: LongformerForQuestionAnswering,
            },
            additions=(r"embeddings\.[xywh]_position_embeddings\.weight$",),
            overrides={"attention_pattern": "union", "num_neighbors": 5},
            translated={
                "attention_window": 4,
                "attention_pattern": "sliding_window",
                "hidden_act": "relu",
                "lm_head_act": "gelu",
                "layer_norm_eps": 1e-3,
                "position_offset": 2,
                "max_position_embeddings": 25,
            },
            inputs=("input_ids", "attention_mask", "global_attention_mask"),
        ),
        Parent(
            config_class=BigBirdConfig,
            config={
                "vocab_size": 60,
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 32,
                "max_position_embeddings": 32,
                "block_size": 4,
                "num_random_blocks": 1,
                "type_vocab_size": 2,
                "attention_probs_dropout_prob": 0.0,
                "hidden_dropout_prob": 0.0,
            },
            heads={
                MODEL: BigBirdModel,
                MASKED_LM: BigBirdForMaskedLM,
                SEQUENCE: BigBirdForSequenceClassification,
            },
            additions=(r"embeddings\.[xywh]_position_embeddings\.weight$",),
            dropped=(r"pooler\.",),
            inputs=("input_ids", "attention_mask", "token_type_ids"),
            overrides={"attention_pattern": "sliding_window", "random_seed": 3},
            translated={
                "attention_pattern": "sliding_window_random",
                "random_block_size": 4,
                "global_projections": False,
                "position_offset": 0,
                "hidden_act": "gelu_new",
                "lm_head_act": "gelu_new",
                "classifier_act": "gelu_new",
                "layer_norm_eps": 1e-12,
            },
        ),
    ),
)
