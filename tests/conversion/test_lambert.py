"""A BERT converted to a LAMBERT gives the BERT's outputs, per head; positions extended; a RoBERTa likewise."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
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
    RobertaConfig,
    RobertaForTokenClassification,
)

from broadsheet.conversion.lambert import convert_lambert, load_lambert, main
from broadsheet.modeling.modeling_lambert import LambertForMaskedLM, LambertForTokenClassification, LambertModel
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_lambert import LambertProcessor

TINY: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
    "layer_norm_eps": 1e-3,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LABELS = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2}}
HEADS = [
    (BertModel, AutoModel, "last_hidden_state pooler_output"),
    (BertForMaskedLM, AutoModelForMaskedLM, "logits"),
    (BertForPreTraining, AutoModelForMaskedLM, ""),
    (BertForTokenClassification, AutoModelForTokenClassification, "logits"),
    (BertForSequenceClassification, AutoModelForSequenceClassification, "logits"),
    (BertForQuestionAnswering, AutoModelForQuestionAnswering, "start_logits end_logits"),
]


def write_bert(folder: Path, head: Any = BertModel, **changes: Any) -> Any:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer("wordpiece", model_max_length=20)
    labels = LABELS if head is BertForTokenClassification else {}
    config = BertConfig(**{**TINY, "vocab_size": len(tokenizer), **labels, **changes})
    model = disturb(head(config)).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def batch(vocab_size: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(5, vocab_size, (2, 20), generator=generator)
    mask = torch.ones_like(input_ids)
    mask[1, 13:] = 0
    return {
        "input_ids": input_ids * mask,
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 2, (2, 20), generator=generator),
    }


def boxes() -> torch.Tensor:
    return torch.rand(2, 20, 2, 2, generator=torch.Generator().manual_seed(2)).sort(2).values.flatten(2)


@pytest.mark.parametrize(("head", "auto", "outputs"), HEADS, ids=[head.__name__ for head, _, _ in HEADS])
@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_a_bert_with_each_head(head, auto, outputs, backend, tmp_path):
    source = write_bert(tmp_path / "bert", head)
    convert_lambert(tmp_path / "bert", tmp_path / "ours")
    model, report = auto.from_pretrained(tmp_path / "ours", attn_implementation=backend, output_loading_info=True)
    assert not any(report.values())
    inputs = batch(source.config.vocab_size)
    with torch.no_grad():
        ours, theirs = model.double().eval()(bbox=boxes(), **inputs), source.double()(**inputs)
    tokens = inputs["attention_mask"].bool()
    for name in outputs.split() or ["logits"]:
        expected = getattr(theirs, name if outputs else "prediction_logits")
        found = getattr(ours, name)
        if found.shape[:2] == tokens.shape:
            found, expected = found[tokens], expected[tokens]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert model.config.model_type == "lambert"
    assert model.config.layer_norm_eps == 1e-3


def test_what_is_written(tmp_path):
    source = write_bert(tmp_path / "bert", BertForTokenClassification)
    model = convert_lambert(tmp_path / "bert", tmp_path / "ours", relative_bias="log_buckets")
    assert isinstance(model, LambertForTokenClassification)
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config["relative_bias"] == "log_buckets"
    assert config["max_position_embeddings"] == 21
    assert config["type_vocab_size"] == 2
    weights = load_file(tmp_path / "ours" / "model.safetensors")
    table = weights["lambert.embeddings.position_embeddings.weight"]
    assert torch.equal(table[1:], source.bert.embeddings.position_embeddings.weight)
    assert not table[0].any()
    assert not weights["lambert.embeddings.layout_adapter.weight"].any()
    processor = AutoProcessor.from_pretrained(tmp_path / "ours")
    assert isinstance(processor, LambertProcessor)
    assert processor.tokenizer.model_max_length == 20
    assert processor.id2label == LABELS["id2label"]
    read = processor(
        text=["Total", "due"], boxes=[[1, 2, 3, 4]] * 2, page_sizes=[(10, 10)], page_ids=[0, 0], return_tensors="pt"
    )
    assert model(**read).logits.isfinite().all()


def test_extended_positions_repeat_the_table(tmp_path, capsys):
    source = write_bert(tmp_path / "bert")
    main([str(tmp_path / "bert"), str(tmp_path / "ours"), "--extend-positions", "50"])
    assert "LambertModel" in capsys.readouterr().out
    model = LambertModel.from_pretrained(tmp_path / "ours").eval()
    assert model.config.max_position_embeddings == 51
    table, old = model.embeddings.position_embeddings.weight, source.embeddings.position_embeddings.weight
    for start, end in ((0, 20), (20, 40), (40, 50)):
        assert torch.equal(table[1 + start : 1 + end], old[: end - start])
    assert AutoProcessor.from_pretrained(tmp_path / "ours").tokenizer.model_max_length == 50
    inputs = batch(source.config.vocab_size)
    with torch.no_grad():
        ours, theirs = model.double()(bbox=boxes(), **inputs), source.double()(**inputs)
    tokens = inputs["attention_mask"].bool()
    torch.testing.assert_close(ours.last_hidden_state[tokens], theirs.last_hidden_state[tokens], rtol=0, atol=1e-6)
    assert model(torch.full((1, 50), 7), torch.zeros(1, 50, 4)).last_hidden_state.isfinite().all()


def test_a_roberta_extended(tmp_path):
    tokenizer = tiny_tokenizer("bpe", model_max_length=20)
    config = RobertaConfig(
        **{
            **TINY,
            "max_position_embeddings": 22,
            "vocab_size": len(tokenizer),
            "type_vocab_size": 1,
            "pad_token_id": 1,
        }
    )
    source = disturb(RobertaForTokenClassification(config)).eval()
    source.save_pretrained(tmp_path / "roberta")
    tokenizer.save_pretrained(tmp_path / "roberta")
    model = convert_lambert(tmp_path / "roberta", tmp_path / "ours", extend_positions=64)
    reloaded = LambertForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    assert reloaded.config.max_position_embeddings == 66
    table = source.roberta.embeddings.position_embeddings.weight
    found = reloaded.lambert.embeddings.position_embeddings.weight
    assert torch.equal(found[:22], table)
    assert torch.equal(found[22:42], table[2:])
    assert torch.equal(model.lambert.embeddings.position_embeddings.weight, found)
    input_ids = torch.randint(5, 60, (1, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            reloaded.double()(input_ids, boxes()[:1]).logits, source.double()(input_ids).logits, rtol=0, atol=1e-6
        )


def test_a_lambert_extended(tmp_path):
    write_bert(tmp_path / "bert")
    convert_lambert(tmp_path / "bert", tmp_path / "short")
    model = convert_lambert(tmp_path / "short", tmp_path / "long", extend_positions=30)
    assert model.config.max_position_embeddings == 31


def test_without_sequential_embeddings_nothing_is_to_extend(tmp_path):
    write_bert(tmp_path / "bert")
    model = convert_lambert(tmp_path / "bert", tmp_path / "ours", use_sequential_embeddings=False)
    assert "embeddings.position_embeddings.weight" not in model.state_dict()
    with pytest.raises(InputError, match="reads inputs of any length; leave the extension out"):
        convert_lambert(tmp_path / "bert", tmp_path / "more", 40, use_sequential_embeddings=False)


def test_a_new_head_for_other_labels(tmp_path):
    source = write_bert(tmp_path, BertForTokenClassification)
    five = {"id2label": {index: str(index) for index in range(5)}, "label2id": {str(i): i for i in range(5)}}
    model = load_lambert(tmp_path, LambertForTokenClassification, **five)
    assert model.classifier.weight.shape == (5, 24)
    assert torch.equal(
        model.lambert.encoder.layer[1].output.dense.weight, source.bert.encoder.layer[1].output.dense.weight
    )


def test_refused(tmp_path):
    write_bert(tmp_path / "bert", BertForMaskedLM, hidden_act="relu")
    with pytest.raises(InputError, match="has the activation relu, but LAMBERT's masked LM head has gelu"):
        convert_lambert(tmp_path / "bert", tmp_path / "ours")
    assert isinstance(load_lambert(tmp_path / "bert", LambertModel), LambertModel)
    with pytest.raises(InputError, match="is the checkpoint itself"):
        convert_lambert(tmp_path / "bert", tmp_path / "bert")
    with pytest.raises(InputError, match="no setting 'relativ_bias'"):
        load_lambert(tmp_path / "bert", LambertModel, relativ_bias="grid")
    with pytest.raises(InputError, match=r"can start from: .*relative_bias"):
        load_lambert(tmp_path / "bert", LambertModel, relative_bias="t5")
    write_bert(tmp_path / "base")
    with pytest.raises(InputError, match="positions for 20 tokens already; extend it to more than 20"):
        convert_lambert(tmp_path / "base", tmp_path / "ours", extend_positions=20)
    (tmp_path / "base" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer; put the checkpoint's tokenizer\.json or vocab\.txt"):
        convert_lambert(tmp_path / "base", tmp_path / "ours")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(InputError, match=r"model type 'gpt2'; LAMBERT starts from bert, roberta, lambert"):
        convert_lambert(other, tmp_path / "ours")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    (tmp_path / "bert" / "config.json").write_text(json.dumps({**config, "position_embedding_type": "relative_key"}))
    with pytest.raises(InputError, match="has relative_key positions"):
        load_lambert(tmp_path / "bert", LambertForMaskedLM)
    with pytest.raises(InputError, match=r"has no configuration that can be read"):
        load_lambert(tmp_path / "nothing", LambertModel)


def test_half_of_the_weights(tmp_path):
    write_bert(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lack encoder\.layer\.1"):
        load_lambert(tmp_path, LambertModel)
