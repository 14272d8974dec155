from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members import MEMBERS
from tests.family.members import pyramidion as seq2seq
from tests.family.spec import Case
from tests.hub.models import save, tiny
from tests.pdfs import make_letter

from broadsheet import cli
from broadsheet.documents import read_pdf
from broadsheet.export import ExportedEncoder, export_model
from broadsheet.extraction import FieldExtractor
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError

TOKENS = "ForTokenClassification"
ENCODERS = [spec.model_type for spec in MEMBERS]
SIZES = ((5,), (9, 14, 3), (17, 2))


def batches(processor: Any) -> list[Any]:
    """Batches of other sizes and lengths than any that is traced with."""
    words = ["Total", "amount", "due", "78.90", "EUR", "name"]
    made = []
    for sizes in SIZES:
        features = []
        for size in sizes:
            boxes = [[5 * i, 7 * (i % 4), 5 * i + 4, 7 * (i % 4) + 6] for i in range(size)]
            texts = [words[i % 6] for i in range(size)]
            row = processor(text=texts, boxes=boxes, page_sizes=[[100, 50]], truncation=True, max_length=18)
            features.append(dict(row))
        made.append(LayoutDataCollator(processor)(features))
    return made


def check_equal(folder: Path, model: Any, processor: Any, tolerance: float) -> None:
    exported = ExportedEncoder(folder)
    for batch in batches(processor):
        with torch.no_grad():
            expected = model(**batch).logits
        found = exported(**batch).logits
        assert found.shape == expected.shape
        mask = batch["attention_mask"].bool()
        scale = max(1.0, float(expected[mask].abs().max()))
        torch.testing.assert_close(found[mask], expected[mask], rtol=0, atol=tolerance * scale)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ENCODERS)
def test_onnx_equals_the_model_at_every_length(model_type: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, processor = tiny(model_type, TOKENS)
    export_model(model, processor, tmp_path)
    check_equal(tmp_path, model, processor, 1e-5)


@pytest.mark.parametrize("model_type", ["skimformer", "lambert"])
def test_torch_export_equals_the_model_at_every_length(model_type: str, tmp_path: Path) -> None:
    model, processor = tiny(model_type, TOKENS)
    export_model(model, processor, tmp_path, "torch")
    check_equal(tmp_path, model, processor, 1e-5)


class Elsewhere:
    """A tensor on another device: of no use before it is moved."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor

    def to(self, device: torch.device) -> torch.Tensor:
        return self.tensor.to(device)


def check_moved(folder: Path, model: Any, processor: Any) -> None:
    exported, batch = ExportedEncoder(folder), batches(processor)[1]
    found = exported(**{name: Elsewhere(tensor) for name, tensor in batch.items()})
    assert torch.equal(found.logits, exported(**batch).logits)


def test_inputs_on_another_device_are_moved_to_the_graphs(tmp_path: Path) -> None:
    model, processor = tiny("skimformer", TOKENS)
    export_model(model, processor, tmp_path, "torch")
    check_moved(tmp_path, model, processor)


@pytest.mark.slow
def test_inputs_on_another_device_are_moved_for_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, processor = tiny("skimformer", TOKENS)
    export_model(model, processor, tmp_path)
    check_moved(tmp_path, model, processor)


def check_pyramidion(folder: Path, model: Any, lengths: tuple[int, ...], seed: int = 0) -> None:
    case = seq2seq.Case(seq2seq.Variant("pyramidion", {"use_layout": model.config.use_layout}))
    encoder = model.base_model.encoder
    exported = ExportedEncoder(folder)
    batch = case.collate(case.documents(lengths, seed), labels=False)
    with torch.no_grad():
        expected = encoder(**batch)
    found = exported(**batch)
    mask = torch.ones_like(found.attention_mask) if expected.attention_mask is None else expected.attention_mask
    assert torch.equal(found.attention_mask, mask)
    torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state, rtol=0, atol=2e-5)


# Each operator's graph takes long to make: the paper's own, with words alone and with layout, and two others.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyramidion", "layout", "hard", "blockwise"])
def test_pyramidion_encoder_in_onnx(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, processor = tiny("pyramidion", "ForConditionalGeneration")
    variant = next(each for each in seq2seq.VARIANTS if each.name == name)
    model = seq2seq.Case(variant).model(torch.float32, vocab_size=model.config.vocab_size)
    export_model(model, processor, tmp_path)
    assert ExportedEncoder(tmp_path).length == model.config.max_source_length == 32
    # Alone, in batches, shorter and longer than every length of the encoder, and of the whole length.
    for seed, lengths in enumerate([(29, 4, 14, 1), (3,), (32, 31), (17,)]):
        check_pyramidion(tmp_path, model, lengths, seed)
    with pytest.raises(InputError, match="have 33 tokens, and the graph takes 32"):
        check_pyramidion(tmp_path, model, (33,))


@pytest.mark.slow
def test_positions_of_long_inputs_in_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    _, processor = tiny("pyramidion", "ForConditionalGeneration")
    sizes = {"max_source_length": 8192, "num_hidden_layers": 1, "block_size": 64}
    model = seq2seq.Case(seq2seq.Variant("blockwise", {"encoder_lengths": None, **sizes})).model(
        torch.float32, vocab_size=len(processor.tokenizer)
    )
    export_model(model, processor, tmp_path)
    check_pyramidion(tmp_path, model, (8192,))


@pytest.mark.slow
def test_pyramidion_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    model, _ = save("pyramidion", "ForConditionalGeneration", tmp_path / "model")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["export", str(tmp_path / "model"), str(tmp_path / "graph"), "--length", "16"])
    assert stopped.value.code in (0, None)
    assert "PyramidionEncoder written to" in capsys.readouterr().out
    assert ExportedEncoder(tmp_path / "graph").length == 16
    check_pyramidion(tmp_path / "graph", model, (16, 9, 2))
    check_pyramidion(tmp_path / "graph", model, (5,))


def test_pyramidion_by_torch_export(tmp_path: Path) -> None:
    model, processor = tiny("pyramidion", "ForConditionalGeneration")
    export_model(model, processor, tmp_path, "torch")
    check_pyramidion(tmp_path, model, (29, 4, 14, 1))
    check_pyramidion(tmp_path, model, (5,))


def test_pyramidion_classifier_by_torch_export(tmp_path: Path) -> None:
    model, processor = tiny("pyramidion", "ForSequenceClassification")
    export_model(model, processor, tmp_path, "torch")
    case = seq2seq.Case(seq2seq.VARIANTS[0])
    batch = case.collate(case.documents((29, 4, 14, 1)), labels=False)
    with torch.no_grad():
        expected = model(**batch).logits
    torch.testing.assert_close(ExportedEncoder(tmp_path)(**batch).logits, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_int8_is_near_and_smaller(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    spec = next(spec for spec in MEMBERS if spec.model_type == "lambert")
    _, processor = tiny("lambert", TOKENS)
    sizes = {"vocab_size": len(processor.tokenizer), "hidden_size": 128, "intermediate_size": 512}
    case = Case(spec, spec.variants[0], TOKENS)
    model = type(case.model(torch.float32))(case.config(**sizes)).eval()
    export_model(model, processor, tmp_path / "whole")
    export_model(model, processor, tmp_path / "int8", "int8")
    size = {name: sum(f.stat().st_size for f in (tmp_path / name).glob("model.onnx*")) for name in ("whole", "int8")}
    assert size["int8"] < 0.6 * size["whole"]
    check_equal(tmp_path / "int8", model, processor, 0.1)


def test_exported_models_extract_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, processor = save("skimformer", TOKENS, tmp_path / "model")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["export", str(tmp_path / "model"), str(tmp_path / "graph"), "--format", "torch"])
    assert stopped.value.code in (0, None)
    assert "model.pt2" in capsys.readouterr().out
    document = read_pdf(make_letter(tmp_path / "letter.pdf", num_pages=2))
    windows = {"max_length": 16, "stride": 4, "device": "cpu"}
    found = FieldExtractor.from_pretrained(tmp_path / "graph", **windows)(document)
    expected = FieldExtractor(model, processor, **windows)(document)
    assert found.labels == expected.labels
    assert found.scores == pytest.approx(expected.scores, abs=1e-5)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    model, processor = tiny("skimformer", TOKENS)
    with pytest.raises(InputError, match="no form 'coreml'"):
        export_model(model, processor, tmp_path, "coreml")
    with pytest.raises(InputError, match="length is 2"):
        export_model(model, processor, tmp_path, "torch", length=2)
    drawing = seq2seq.Case(seq2seq.Variant("random", {"operator": "random", "scorer": None})).model(torch.float32)
    with pytest.raises(InputError, match="draws its tokens anew"):
        export_model(drawing, tiny("pyramidion", "Model")[1], tmp_path)
    spec = next(spec for spec in MEMBERS if spec.model_type == "long_layoutlm")
    random = next(each for each in spec.variants if each.name == "sliding-window-random")
    with pytest.raises(InputError, match="random blocks"):
        export_model(Case(spec, random, TOKENS).model(torch.float32), spec.processor(), tmp_path)  # type: ignore[misc]
    with pytest.raises(InputError, match="neither model.onnx"):
        ExportedEncoder(tmp_path)
