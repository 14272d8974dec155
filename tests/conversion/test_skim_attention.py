"""The authors' released folders: converted, loaded by the Auto classes, with the outputs of the reference."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.conversion.released_folders import (
    BERT,
    BERT_WITH_SKIM_EMBED,
    LONG_SKIMFORMER,
    SKIMFORMER,
    SKIMMING_MASK,
    make_model,
    released_weights,
    write_released,
)
from tests.family.boxes import integer_boxes
from tests.tokenizers import tiny_tokenizer
from torch.nn.functional import gelu, layer_norm, linear
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
    AutoProcessor,
)

from broadsheet.conversion.skim_attention import convert_skim_attention, main
from broadsheet.modeling.configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.configuration_skimming_mask import SkimmingMaskConfig
from broadsheet.modeling.modeling_bert_with_skim_embeddings import BertWithSkimEmbeddingsForTokenClassification
from broadsheet.modeling.modeling_long_skimformer import (
    LongSkimformerForMaskedLM,
    LongSkimformerForTokenClassification,
)
from broadsheet.modeling.modeling_skimformer import (
    SkimformerForMaskedLM,
    SkimformerForTokenClassification,
    SkimformerModel,
)
from broadsheet.modeling.modeling_skimming_mask import SkimmingMaskForTokenClassification
from broadsheet.tokenization.input_checks import InputError

SKIM = {
    "hidden_layout_size": 16,
    "num_attention_heads": 2,
    "skim_attention_head_size": 5,
    "num_attention_heads_layout_encoder": 2,
    "intermediate_size": 32,
    "contextualize_layout": True,
    "mask_layout_contextualizer": False,
}
SKIMFORMER_OURS = {
    **BERT,
    "hidden_layout_size": 16,
    "num_attention_heads_layout_encoder": 4,
    "skim_attention_head_size": 5,
    "attention_head_size": 12,
    "contextualize_layout": True,
    "mask_layout_contextualizer": False,
}
LONG_OURS = {
    **SKIMFORMER_OURS,
    "attention_window": 6,
    "mask_layout_contextualizer": True,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}


def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 8:] = 0
    boxes = torch.stack([integer_boxes(12, 1001, generator) for _ in range(2)]) * mask[..., None]
    return {"input_ids": torch.randint(5, 60, (2, 12), generator=generator), "bbox": boxes, "attention_mask": mask}


def cases() -> list[Any]:
    bert, layoutlm = ({**BERT, "model_type": name} for name in ("bert", "layoutlm"))
    ours: list[tuple[str, dict[str, Any], Any, Any, Any]] = [
        (
            "skimformer-lm",
            SKIMFORMER,
            SkimformerForMaskedLM,
            SkimformerConfig(**SKIMFORMER_OURS),
            AutoModelForMaskedLM,
        ),
        (
            "skimformer-tokens",
            SKIMFORMER,
            SkimformerForTokenClassification,
            SkimformerConfig(**SKIMFORMER_OURS, num_labels=13),
            AutoModelForTokenClassification,
        ),
        (
            "skimformer-plain",
            {**SKIMFORMER, "contextualize_2d_positions": False},
            SkimformerForTokenClassification,
            SkimformerConfig(**{**SKIMFORMER_OURS, "contextualize_layout": False}),
            AutoModelForTokenClassification,
        ),
        (
            "skimformer-positions",
            {**SKIMFORMER, "use_1d_positions": True, "contextualize_2d_positions": False},
            SkimformerForMaskedLM,
            SkimformerConfig(**{**SKIMFORMER_OURS, "contextualize_layout": False, "skim_input": "position"}),
            AutoModelForMaskedLM,
        ),
        (
            "skimformer-degraded",
            {**SKIMFORMER, "degrade_2d_positions": True},
            SkimformerForMaskedLM,
            SkimformerConfig(**SKIMFORMER_OURS, skim_input="degraded"),
            AutoModelForMaskedLM,
        ),
        (
            "long-lm",
            LONG_SKIMFORMER,
            LongSkimformerForMaskedLM,
            LongSkimformerConfig(**LONG_OURS),
            AutoModelForMaskedLM,
        ),
        (
            "long-tokens",
            LONG_SKIMFORMER,
            LongSkimformerForTokenClassification,
            LongSkimformerConfig(**LONG_OURS, num_labels=13),
            AutoModelForTokenClassification,
        ),
        (
            "mask-bert",
            SKIMMING_MASK,
            SkimmingMaskForTokenClassification,
            SkimmingMaskConfig(backbone_config=bert, skim_config=SKIM, top_k=3, num_labels=13),
            AutoModelForTokenClassification,
        ),
        (
            "mask-layoutlm",
            {**SKIMMING_MASK, "core_model_type": "layoutlm", "contextualize_2d_positions": False},
            SkimmingMaskForTokenClassification,
            SkimmingMaskConfig(
                backbone_config=layoutlm, skim_config={**SKIM, "contextualize_layout": False}, top_k=3, num_labels=13
            ),
            AutoModelForTokenClassification,
        ),
        (
            "embeddings",
            BERT_WITH_SKIM_EMBED,
            BertWithSkimEmbeddingsForTokenClassification,
            BertWithSkimEmbeddingsConfig(**BERT, hidden_layout_size=10, num_labels=13),
            AutoModelForTokenClassification,
        ),
    ]
    return [pytest.param(*case[1:], id=case[0]) for case in ours]


def label_fields(config: Any) -> dict[str, Any]:
    return {
        "id2label": {str(index): name for index, name in config.id2label.items()},
        "label2id": config.label2id,
    }


@pytest.mark.parametrize("written", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize(("fields", "model_class", "config", "auto_class"), cases())
def test_convert(
    fields: dict[str, Any], model_class: Any, config: Any, auto_class: Any, written: str, tmp_path: Path
) -> None:
    source = make_model(model_class, config)
    weights = released_weights(source, fields["model_type"])
    folder = write_released(tmp_path / "released", fields, weights, **label_fields(config))
    if written == "model.safetensors":
        (folder / "pytorch_model.bin").unlink()
        save_file({name: value.clone() for name, value in weights.items()}, folder / written)
    convert_skim_attention(folder, tmp_path / "ours")

    assert not (tmp_path / "ours" / "pytorch_model.bin").exists()
    model = auto_class.from_pretrained(tmp_path / "ours")
    assert type(model) is model_class
    assert model.state_dict().keys() == source.state_dict().keys()
    for name, value in source.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    with torch.no_grad():
        assert torch.equal(model(**batch()).logits, source(**batch()).logits)
    mine, theirs = model.config.to_dict(), config.to_dict()
    for ignored in ("_name_or_path", "architectures", "dtype", "transformers_version"):
        mine.pop(ignored, None)
        theirs.pop(ignored, None)
    assert mine == theirs


def test_encoder_alone_without_prefix(tmp_path: Path) -> None:
    source = make_model(SkimformerModel, SkimformerConfig(**SKIMFORMER_OURS))
    convert_skim_attention(
        write_released(tmp_path / "released", SKIMFORMER, released_weights(source, "skimformer")), tmp_path / "ours"
    )
    model = AutoModel.from_pretrained(tmp_path / "ours")
    for name, value in source.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def test_buffers_and_unread_tables_are_left_out(tmp_path: Path) -> None:
    source = make_model(SkimformerForMaskedLM, SkimformerConfig(**SKIMFORMER_OURS, skim_input="degraded"))
    weights = released_weights(source, "skimformer")
    weights["skimformer.two_dim_pos_embeddings.w_position_embeddings.weight"] = torch.zeros(1024, 16)
    weights["skimformer.text_embeddings.position_ids"] = torch.arange(40)[None]
    folder = write_released(tmp_path / "released", {**SKIMFORMER, "degrade_2d_positions": True}, weights)
    convert_skim_attention(folder, tmp_path / "ours")


def reference_token_logits(weights: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The authors' Skimformer in evaluation mode, written down again from the paper's equations and their names."""

    def at(name: str) -> torch.Tensor:
        return weights[name].double()

    def dense(name: str, value: torch.Tensor) -> torch.Tensor:
        return linear(value, at(f"{name}.weight"), at(f"{name}.bias"))

    def norm(name: str, value: torch.Tensor) -> torch.Tensor:
        return layer_norm(value, value.shape[-1:], at(f"{name}.weight"), at(f"{name}.bias"), 1e-12)

    def attention(query: torch.Tensor, key: torch.Tensor, heads: int, mask: torch.Tensor | None) -> torch.Tensor:
        query, key = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in (query, key))
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return (scores if mask is None else scores + (1 - mask[:, None, None].double()) * -10000).softmax(-1)

    def read(probabilities: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        heads = probabilities.shape[1]
        return (probabilities @ value.unflatten(-1, (heads, -1)).transpose(1, 2)).transpose(1, 2).flatten(2)

    def feed_forward(layer: str, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        hidden = norm(
            f"{layer}.attention.output.LayerNorm", dense(f"{layer}.attention.output.dense", attended) + residual
        )
        inner = dense(f"{layer}.output.dense", gelu(dense(f"{layer}.intermediate.dense", hidden)))
        return norm(f"{layer}.output.LayerNorm", inner + hidden)

    x0, y0, x1, y1 = inputs["bbox"].unbind(-1)
    x, y, w, h = (at(f"skimformer.two_dim_pos_embeddings.{name}_position_embeddings.weight") for name in "xywh")
    layout = norm(
        "skimformer.two_dim_pos_embeddings.LayerNorm", x[x0] + y[y0] + x[x1] + y[y1] + w[x1 - x0] + h[y1 - y0]
    )
    for number in range(2):  # the contextualizer, without a mask
        layer = f"skimformer.layout_encoder.layer.{number}"
        query, key, value = (dense(f"{layer}.attention.self.{name}", layout) for name in ("query", "key", "value"))
        layout = feed_forward(layer, read(attention(query, key, 4, None), value), layout)
    query, key = (dense(f"skimformer.skim_attention.{name}", layout) for name in ("query", "key"))
    skim = attention(query, key, 2, inputs["attention_mask"])
    words = at("skimformer.text_embeddings.word_embeddings.weight")[inputs["input_ids"]]
    types = at("skimformer.text_embeddings.token_type_embeddings.weight")[0]
    hidden = norm("skimformer.text_embeddings.LayerNorm", words + types)
    for number in range(2):
        layer = f"skimformer.encoder.layer.{number}"
        hidden = feed_forward(layer, read(skim, dense(f"{layer}.attention.self.value", hidden)), hidden)
    return dense("classifier", hidden)


def test_skimformer_computes_what_the_reference_computes(tmp_path: Path) -> None:
    """Padding leaks through the contextualizer there, and so it does here."""
    source = make_model(SkimformerForTokenClassification, SkimformerConfig(**SKIMFORMER_OURS, num_labels=13))
    weights = released_weights(source, "skimformer")
    fields = label_fields(source.config)
    convert_skim_attention(write_released(tmp_path / "released", SKIMFORMER, weights, **fields), tmp_path / "ours")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "ours").double()
    inputs = batch()
    with torch.no_grad():
        actual, expected = model(**inputs).logits, reference_token_logits(weights, inputs)
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(actual[real], expected[real], rtol=0, atol=1e-9)
    shorter = {name: value[1:, :8] for name, value in inputs.items()}
    with torch.no_grad():
        assert (model(**shorter).logits - actual[1:, :8]).abs().max() > 1e-3


def test_decoder_of_its_own_is_kept(tmp_path: Path) -> None:
    source = make_model(SkimformerForMaskedLM, SkimformerConfig(**SKIMFORMER_OURS, tie_word_embeddings=False))
    folder = write_released(tmp_path / "released", SKIMFORMER, released_weights(source, "skimformer"))
    model = convert_skim_attention(folder, tmp_path / "ours")
    assert not model.config.tie_word_embeddings
    with torch.no_grad():
        assert torch.equal(model(**batch()).logits, source(**batch()).logits)


def test_unknown_missing_and_misshapen_parameters_are_listed(tmp_path: Path) -> None:
    source = make_model(SkimformerForTokenClassification, SkimformerConfig(**SKIMFORMER_OURS))
    weights = released_weights(source, "skimformer")
    weights["skimformer.surprise.weight"] = torch.zeros(2)
    del weights["skimformer.skim_attention.key.bias"]
    del weights["classifier.bias"]
    weights["skimformer.skim_attention.query.bias"] = torch.zeros(3)
    folder = write_released(tmp_path / "released", SKIMFORMER, weights)
    with pytest.raises(InputError) as error:
        convert_skim_attention(folder, tmp_path / "ours")
    message = str(error.value)
    assert "unknown: skimformer.surprise.weight" in message
    assert "missing (our names): classifier.bias, skimformer.skim_attention.key.bias" in message
    assert "skimformer.skim_attention.query.bias [3] instead of [10]" in message
    assert not (tmp_path / "ours").exists()


class Intruder:
    def __reduce__(self) -> Any:
        return (print, ("this must not run",))


def write_config(**changes: Any) -> Any:
    return lambda folder: (folder / "config.json").write_text(json.dumps({**SKIMFORMER, **changes}))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "no valid JSON"),
        (write_config(model_type="bert"), "model type 'bert'"),
        (write_config(hidden_size=26), "not those of its config.json"),
        (write_config(hidden_size="big"), "describes no model that can be built"),
        (lambda folder: (folder / "pytorch_model.bin").unlink(), "has neither model.safetensors nor"),
        (lambda folder: (folder / "pytorch_model.bin").write_bytes(b"\x80\x04"), "is damaged"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x00" * 9), "damaged or cut short"),
        (lambda folder: torch.save({"a": Intruder()}, folder / "pytorch_model.bin"), "could run code"),
        (lambda folder: torch.save({"a": 1}, folder / "pytorch_model.bin"), "no state dict of tensors"),
    ],
    ids=[
        "no config",
        "broken config",
        "model type",
        "sizes",
        "types",
        "no weights",
        "cut pickle",
        "cut safetensors",
        "code",
        "numbers",
    ],
)
def test_refuses(spoil: Any, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_model(SkimformerForTokenClassification, SkimformerConfig(**SKIMFORMER_OURS))
    folder = write_released(tmp_path / "released", SKIMFORMER, released_weights(source, "skimformer"))
    spoil(folder)
    with pytest.raises(InputError, match=says):
        convert_skim_attention(folder, tmp_path / "ours")
    assert "must not run" not in capsys.readouterr().out
    with pytest.raises(InputError, match="is the checkpoint itself"):
        convert_skim_attention(folder, folder)


def test_command_saves_the_processor_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_model(SkimformerForTokenClassification, SkimformerConfig(**{**SKIMFORMER_OURS, "vocab_size": 400}))
    folder = write_released(
        tmp_path / "released", {**SKIMFORMER, "vocab_size": 400}, released_weights(source, "skimformer")
    )
    assert main([str(folder), str(tmp_path / "ours")]) == 0
    printed = capsys.readouterr().out
    assert "SkimformerForTokenClassification" in printed
    assert "has no tokenizer files" in printed
    vocabulary = tiny_tokenizer("wordpiece").get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    assert main([str(folder), str(tmp_path / "ours")]) == 0
    assert "tokenizer" not in capsys.readouterr().out
    processor = AutoProcessor.from_pretrained(tmp_path / "ours")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "ours")
    inputs = processor(text=["Total", "due"], boxes=[[1, 2, 30, 9], [40, 2, 60, 9]], return_tensors="pt")
    assert model(**inputs).logits.isfinite().all()
