"""A LayoutLM, BERT or RoBERTa converted to a LongLayoutLM gives its parent's outputs, per head, and reads further."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conversion.test_lambert import TINY
from tests.family.spec import disturb
from tests.tokenizers import tiny_tokenizer
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoProcessor,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    LayoutLMConfig,
    LayoutLMForMaskedLM,
    LayoutLMForQuestionAnswering,
    LayoutLMForSequenceClassification,
    LayoutLMForTokenClassification,
    LayoutLMModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
)

from broadsheet.conversion.long_layoutlm import (
    convert_long_layoutlm,
    load_long_layoutlm,
    long_layoutlm_processor,
    main,
)
from broadsheet.modeling.modeling_long_layoutlm import (
    LongLayoutLMForSequenceClassification,
    LongLayoutLMForTokenClassification,
    LongLayoutLMModel,
)
from broadsheet.tokenization.input_checks import InputError

LENGTH = 20
LABELS = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2}}
# A window around every token of the inputs below.
WIDE = {"attention_window": 2 * LENGTH}
CONFIGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bert": (BertConfig, {}),
    "layoutlm": (LayoutLMConfig, {"max_2d_position_embeddings": 64}),
    "roberta": (RobertaConfig, {"max_position_embeddings": LENGTH + 2, "pad_token_id": 1, "type_vocab_size": 1}),
}
PAIRS = [
    (BertModel, AutoModel, "last_hidden_state pooler_output"),
    (BertForMaskedLM, AutoModelForMaskedLM, "logits"),
    (BertForPreTraining, AutoModelForMaskedLM, ""),
    (BertForSequenceClassification, AutoModelForSequenceClassification, "logits"),
    (BertForTokenClassification, AutoModelForTokenClassification, "logits"),
    (BertForQuestionAnswering, AutoModelForQuestionAnswering, "start_logits end_logits"),
    (LayoutLMModel, AutoModel, "last_hidden_state pooler_output"),
    (LayoutLMForMaskedLM, AutoModelForMaskedLM, "logits"),
    (LayoutLMForSequenceClassification, AutoModelForSequenceClassification, "logits"),
    (LayoutLMForTokenClassification, AutoModelForTokenClassification, "logits"),
    (LayoutLMForQuestionAnswering, AutoModelForQuestionAnswering, "start_logits end_logits"),
    (RobertaModel, AutoModel, "last_hidden_state pooler_output"),
    (RobertaForMaskedLM, AutoModelForMaskedLM, "logits"),
    (RobertaForSequenceClassification, AutoModelForSequenceClassification, "logits"),
    (RobertaForTokenClassification, AutoModelForTokenClassification, "logits"),
    (RobertaForQuestionAnswering, AutoModelForQuestionAnswering, "start_logits end_logits"),
]


def write_parent(folder: Path, head: Any) -> Any:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer("wordpiece", model_max_length=LENGTH)
    config_class, settings = CONFIGS[head.config_class.model_type]
    labels = {} if "QuestionAnswering" in head.__name__ else LABELS
    config = config_class(**{**TINY, "vocab_size": len(tokenizer), **labels, **settings})
    model = disturb(head(config)).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def batch(model: Any, length: int = LENGTH) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(5, model.config.vocab_size, (2, length), generator=generator)
    mask = torch.ones_like(input_ids)
    mask[1, 13:] = 0
    boxes = torch.randint(0, 64, (2, length, 2, 2), generator=generator).sort(2).values.flatten(2)
    types = torch.randint(0, model.config.type_vocab_size, (2, length), generator=generator)
    pad = model.config.pad_token_id
    return {
        "input_ids": input_ids * mask + pad * (1 - mask),
        "attention_mask": mask,
        "bbox": boxes,
        "token_type_ids": types,
    }


@pytest.mark.parametrize(("head", "auto", "outputs"), PAIRS, ids=lambda value: getattr(value, "__name__", ""))
def test_outputs_are_the_parents(head: Any, auto: Any, outputs: str, tmp_path: Path) -> None:
    parent = write_parent(tmp_path / "parent", head)
    convert_long_layoutlm(tmp_path / "parent", tmp_path / "long", positions=50, **WIDE)
    converted = auto.from_pretrained(tmp_path / "long").eval()
    inputs = batch(parent)
    theirs = {name: value for name, value in inputs.items() if name != "bbox" or "LayoutLM" in head.__name__}
    kept = inputs["attention_mask"].bool()
    with torch.no_grad():
        found, wanted = converted(**inputs), parent(**theirs)
    for name in outputs.split():
        ours, reference = found[name], wanted[name]
        if ours.shape[:2] == kept.shape:
            ours, reference = ours[kept], reference[kept]
        assert torch.allclose(ours, reference, atol=1e-5), name


def test_twice_the_tokens_are_read_and_positions_repeat(tmp_path: Path) -> None:
    parent = write_parent(tmp_path / "parent", LayoutLMModel)
    converted = convert_long_layoutlm(tmp_path / "parent", tmp_path / "long", positions=45, **WIDE)
    table = converted.embeddings.position_embeddings.weight
    theirs = parent.embeddings.position_embeddings.weight
    assert torch.equal(table, torch.cat([theirs, theirs, theirs[:5]]))
    inputs = batch(parent, 40)
    assert converted(**inputs).last_hidden_state.shape == (2, 40, 24)
    processor = AutoProcessor.from_pretrained(tmp_path / "long")
    assert processor.tokenizer.model_max_length == 45


def test_robertas_first_rows_stay_before_the_first_position(tmp_path: Path) -> None:
    parent = write_parent(tmp_path / "parent", RobertaModel)
    converted = load_long_layoutlm(tmp_path / "parent", LongLayoutLMModel, 33)
    theirs = parent.embeddings.position_embeddings.weight
    table = converted.embeddings.position_embeddings.weight
    assert converted.config.position_offset == 2
    assert torch.equal(table, torch.cat([theirs, theirs[2:15]]))


@pytest.mark.parametrize("head", [BertForTokenClassification, LayoutLMForTokenClassification])
def test_a_head_of_one_layer_is_replaced(head: Any, tmp_path: Path) -> None:
    parent = write_parent(tmp_path / "parent", head)
    converted = convert_long_layoutlm(tmp_path / "parent", tmp_path / "long", **WIDE)
    reloaded = AutoModelForTokenClassification.from_pretrained(tmp_path / "long")
    assert type(reloaded) is LongLayoutLMForTokenClassification
    assert reloaded.config.id2label == LABELS["id2label"]
    inputs = batch(parent)
    theirs = {
        name: value for name, value in inputs.items() if name != "bbox" or head is LayoutLMForTokenClassification
    }
    kept = inputs["attention_mask"].bool()
    with torch.no_grad():
        found = converted.base_model(**inputs).last_hidden_state
        wanted = parent.base_model(**theirs).last_hidden_state
    assert torch.allclose(found[kept], wanted[kept], atol=1e-5)


def test_other_labels_get_a_new_head(tmp_path: Path) -> None:
    write_parent(tmp_path, LayoutLMForSequenceClassification)
    names = ["letter", "form", "memo", "email"]
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}
    model = load_long_layoutlm(tmp_path, LongLayoutLMForSequenceClassification, **labels)
    assert model.classifier.out_proj.weight.shape == (4, 24)


def test_a_token_head_for_other_labels_is_new_and_has_two_layers(tmp_path: Path) -> None:
    parent = write_parent(tmp_path, LayoutLMForTokenClassification)
    names = {0: "O", 1: "B-Y", 2: "I-Y"}
    new = load_long_layoutlm(tmp_path, LongLayoutLMForTokenClassification, id2label=names)
    assert new.config.classifier_act == "tanh"
    assert not torch.equal(new.classifier.dense.weight, torch.eye(24))
    assert not torch.equal(new.classifier.out_proj.weight, parent.classifier.weight)
    labelled = {"id2label": parent.config.id2label, "label2id": parent.config.label2id}
    kept = load_long_layoutlm(tmp_path, LongLayoutLMForTokenClassification, **labelled)
    assert torch.equal(kept.classifier.out_proj.weight, parent.classifier.weight)
    write_parent(tmp_path / "headless", LayoutLMModel)
    headless = load_long_layoutlm(tmp_path / "headless", LongLayoutLMForTokenClassification)
    assert headless.config.classifier_act == "tanh"
    assert not torch.equal(headless.classifier.dense.weight, torch.eye(24))


def test_a_layoutlms_boxes_stay_its_own(tmp_path: Path) -> None:
    """In whole thousandths of each page, as it was trained; a BERT has none to keep."""
    write_parent(tmp_path / "layoutlm", LayoutLMModel)
    convert_long_layoutlm(tmp_path / "layoutlm", tmp_path / "long", 40)
    processor = AutoProcessor.from_pretrained(tmp_path / "long")
    assert (processor.largest_coordinate, processor.page_stacking) == (63, "page")  # its tables have 64 rows
    write_parent(tmp_path / "bert", BertModel)
    convert_long_layoutlm(tmp_path / "bert", tmp_path / "longer", 40)
    processor = AutoProcessor.from_pretrained(tmp_path / "longer")
    assert (processor.largest_coordinate, processor.page_stacking) == (1023, "stack")

    document = {
        "words": ["a", "b"], "boxes": [[50, 100, 100, 110]] * 2, "page_ids": [0, 1], "page_sizes": [[100, 200]] * 2,
    }  # fmt: skip
    made = long_layoutlm_processor(tiny_tokenizer("wordpiece"), "layoutlm")
    found = made(documents=document, return_tensors="np")["bbox"][0]
    assert found[found.any(-1)].tolist() == [[500, 500, 1000, 550]] * 2


def test_as_many_labels_of_other_names_get_a_new_head_too(tmp_path: Path) -> None:
    parent = write_parent(tmp_path, LayoutLMForSequenceClassification)
    kept = load_long_layoutlm(tmp_path, LongLayoutLMForSequenceClassification, **LABELS)
    assert torch.equal(kept.classifier.out_proj.weight, parent.classifier.weight)
    new = load_long_layoutlm(
        tmp_path, LongLayoutLMForSequenceClassification, id2label={0: "letter", 1: "form", 2: "memo"}
    )
    assert not torch.equal(new.classifier.out_proj.weight, parent.classifier.weight)
    assert torch.equal(new.classifier.dense.weight, parent.layoutlm.pooler.dense.weight)
    assert new.config.label2id == {"letter": 0, "form": 1, "memo": 2}


def test_patterns_and_settings(tmp_path: Path) -> None:
    write_parent(tmp_path, LayoutLMModel)
    model = load_long_layoutlm(tmp_path, LongLayoutLMModel, 60, attention_pattern="distance", num_neighbors=4)
    assert model.config.attention_pattern == "distance"
    assert model.config.max_position_embeddings == 60
    assert model.embeddings.x_position_embeddings.weight.abs().sum() > 0


def test_a_berts_2d_tables_start_at_zero(tmp_path: Path) -> None:
    write_parent(tmp_path, BertModel)
    model = load_long_layoutlm(tmp_path, LongLayoutLMModel, 60)
    assert not model.embeddings.x_position_embeddings.weight.any()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"num_neighbours": 3}, "no setting 'num_neighbours'"),
        ({"max_position_embeddings": 9}, "set positions instead"),
        ({"positions": 0}, "at least 1"),
        ({"num_hidden_layers": 1}, "does not know, or lacks some"),
        ({"hidden_size": 48}, "size mismatch"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    write_parent(tmp_path, BertModel)
    with pytest.raises(InputError, match=complaint):
        load_long_layoutlm(tmp_path, LongLayoutLMModel, **settings)


@pytest.mark.parametrize(("model_type", "complaint"), [("longformer", "loads as it is"), ("t5", "converted from")])
def test_other_parents_are_named(model_type: str, complaint: str, tmp_path: Path) -> None:
    write_parent(tmp_path, BertModel)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
    with pytest.raises(InputError, match=complaint):
        load_long_layoutlm(tmp_path, LongLayoutLMModel)


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    write_parent(tmp_path, BertModel)
    with pytest.raises(InputError, match="is the checkpoint itself"):
        convert_long_layoutlm(tmp_path, tmp_path)
    with pytest.raises(InputError, match="is a file; name a folder"):
        convert_long_layoutlm(tmp_path, tmp_path / "config.json")
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(InputError, match="can start from"):
        load_long_layoutlm(tmp_path, LongLayoutLMModel)
    with pytest.raises(InputError, match="no configuration that can be read"):
        load_long_layoutlm(tmp_path / "absent", LongLayoutLMModel)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parent(tmp_path / "layoutlm", LayoutLMModel)
    overrides = "attention_pattern=union,attention_window=8,num_neighbors=4"
    arguments = [
        str(tmp_path / "layoutlm"),
        str(tmp_path / "long"),
        "--positions",
        "64",
        "--config_overrides",
        overrides,
    ]
    assert main(arguments) == 0
    assert "reads up to 64 tokens" in capsys.readouterr().out
    config = AutoModel.from_pretrained(tmp_path / "long").config
    assert (config.attention_pattern, config.num_neighbors, config.max_position_embeddings) == ("union", 4, 64)
