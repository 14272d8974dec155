import torch
from tests.family.boxes import float_box_faults
from tests.family.spec import (
    MASKED_LM,
    MODEL,
    QUESTIONS,
    SEQUENCE,
    TOKENS,
    BadInput,
    Batch,
    ModelSpec,
    Variant,
)
from tests.tokenizers import tiny_tokenizer

from broadsheet.modeling.configuration_formnet import FormNetConfig
from broadsheet.modeling.modeling_formnet import (
    FormNetForMaskedLM,
    FormNetForQuestionAnswering,
    FormNetForSequenceClassification,
    FormNetForTokenClassification,
    FormNetModel,
)
from broadsheet.tokenization.processing_formnet import FormNetProcessor

# The class is read from the global token, whose attention in the last layer has no terms.
LAST_TERMS = {
    r"^ForSequenceClassification .*\.layer\.1\.attention\.self\.positions\.": "the class is read from the global token"
}
KEY_BIAS = {
    r"\bself\.key\.bias$": "a bias of the keys moves all scores of a query alike, which softmax takes out",
}
# In the last layer only queries of global tokens count then, whose keys have no terms.
LAST_KEY_BIAS = {
    r"^ForSequenceClassification .*\.layer\.1\.attention\.self\.key\.bias$": KEY_BIAS[r"\bself\.key\.bias$"]
}


def make_document(config: FormNetConfig, length: int, generator: torch.Generator) -> Batch:
    """Some boxes are equal, some tokens have no neighbours, some ten."""
    corners = (1000 * torch.rand(length, 2, 2, generator=generator, dtype=torch.float64)).sort(dim=1).values
    boxes = corners.flatten(1).float()
    if length > 3:
        boxes[2] = boxes[1]
        boxes[3, 2:] = boxes[3, :2]
    neighbors = torch.randint(length, (length, 10), generator=generator)
    count = torch.randint(11, (length, 1), generator=generator)
    return {
        "input_ids": torch.randint(5, config.vocab_size, (length,), generator=generator),
        "token_type_ids": torch.randint(config.type_vocab_size, (length,), generator=generator),
        "bbox": boxes,
        "graph_neighbors": neighbors.masked_fill(torch.arange(10) >= count, -1).int(),
    }


def _spoil_graph(change):
    def spoil(batch: Batch) -> None:
        batch["graph_neighbors"] = change(batch["graph_neighbors"].clone())

    return spoil


def _put(place: int):
    def change(neighbors: torch.Tensor) -> torch.Tensor:
        neighbors[1, 2, 3] = place
        return neighbors

    return _spoil_graph(change)


GRAPHS = ("both", "graph")
GRAPH_FAULTS = (
    BadInput("no graph", lambda batch: batch.pop("graph_neighbors"), ("is missing", "FormNetProcessor"), GRAPHS),
    BadInput("a short graph", _spoil_graph(lambda graph: graph[:, :-1]), ("shape", "pad it"), GRAPHS),
    BadInput("a float graph", _spoil_graph(lambda graph: graph.float()), ("float32", "whole numbers"), GRAPHS),
    BadInput("a neighbour too far", _put(13), ("13 for token 2 in row 1", "-1..12", "windows"), GRAPHS),
    BadInput("a negative neighbour", _put(-2), ("-2 for token 2 in row 1", "-1..12", "windows"), GRAPHS),
)


FORMNET = ModelSpec(
    config_class=FormNetConfig,
    config={
        "vocab_size": 60,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_graph_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "local_radius": 4,
        "relative_position_clip": 3,
        "num_labels": 3,
    },
    variants=(
        Variant("both", zero_gradients={**LAST_TERMS, **LAST_KEY_BIAS}),
        Variant("rich", {"use_super_tokens": False}, zero_gradients={**LAST_TERMS, **LAST_KEY_BIAS}),
        Variant("graph", {"use_rich_attention": False}, zero_gradients={**LAST_TERMS, **KEY_BIAS}),
        Variant(
            "etc",
            {"use_rich_attention": False, "use_super_tokens": False},
            zero_gradients={**LAST_TERMS, **KEY_BIAS},
        ),
        Variant(
            "three-globals",
            {"use_sequence_axis": True, "num_global_tokens": 3, "use_super_tokens": False},
            zero_gradients={**LAST_TERMS, **LAST_KEY_BIAS},
        ),
    ),
    heads={
        MODEL: FormNetModel,
        MASKED_LM: FormNetForMaskedLM,
        TOKENS: FormNetForTokenClassification,
        SEQUENCE: FormNetForSequenceClassification,
        QUESTIONS: FormNetForQuestionAnswering,
    },
    make_document=make_document,
    pad_values={"input_ids": 0, "token_type_ids": 0, "bbox": 0.0, "graph_neighbors": -1},
    hidden_states=lambda config: config.num_hidden_layers + 1,
    attentions=lambda config, batch, length: (
        [(batch, config.num_attention_heads, length, length + config.num_global_tokens)] * config.num_hidden_layers
    ),
    processor=lambda: FormNetProcessor(tiny_tokenizer("wordpiece")),
    costly_variants=("etc",),
    bad_inputs=(*float_box_faults("FormNetProcessor", 1000), *GRAPH_FAULTS),
)
