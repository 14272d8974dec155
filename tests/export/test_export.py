from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members import MEMBERS
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
    with pytest.raises(InputError, match="token by token"):
        export_model(*tiny("pyramidion", "ForConditionalGeneration"), tmp_path)
    spec = next(spec for spec in MEMBERS if spec.model_type == "long_layoutlm")
    random = next(each for each in spec.variants if each.name == "sliding-window-random")
    with pytest.raises(InputError, match="random blocks"):
        export_model(Case(spec, random, TOKENS).model(torch.float32), spec.processor(), tmp_path)  # type: ignore[misc]
    with pytest.raises(InputError, match="neither model.onnx"):
        ExportedEncoder(tmp_path)
