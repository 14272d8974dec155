"""The same lines of user code for every member: load, tag a PDF, fine-tune ten steps, push, pull."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi
from tests.hub.models import TYPES, save
from tests.pdfs import make_letter
from transformers import AutoModelForTokenClassification, AutoProcessor, Trainer, TrainingArguments, pipeline

from broadsheet.documents import read_pdf
from broadsheet.hub import push
from broadsheet.tokenization.collation import LayoutDataCollator

TASK, CUT = "document-token-classification", {"max_length": 16, "stride": 4}


def journey(start: str, pdf: Path, output: Path, repo: str, api: HfApi) -> tuple[list[Any], list[Any], Any]:
    model = AutoModelForTokenClassification.from_pretrained(start)
    processor = AutoProcessor.from_pretrained(start)
    tagger = pipeline(TASK, model=model, processor=processor, device="cpu", **CUT)
    assert isinstance(tagger(pdf), list)

    page = read_pdf(pdf)
    labels = [1 if any(letter.isdigit() for letter in word) else 0 for word in page.words]
    document = {"text": page.words, "boxes": page.boxes, "page_ids": page.page_ids, "page_sizes": page.page_sizes}
    batch = processor(**document, word_labels=labels, truncation=True, return_overflowing_tokens=True, **CUT)
    windows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    settings = TrainingArguments(str(output), max_steps=10, learning_rate=3e-3, logging_steps=1, use_cpu=True)
    trainer = Trainer(model, settings, LayoutDataCollator(processor), windows, processing_class=processor)
    trainer.train()
    trainer.save_model()
    push(output, repo, api=api)
    pulled = pipeline(TASK, model=repo, device="cpu", **CUT)
    return tagger(pdf), pulled(pdf), [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [name for name in TYPES if name != "pyramidion"])
def test_journey(model_type: str, tmp_path: Path, api: HfApi) -> None:
    save(model_type, "ForTokenClassification", tmp_path / "start")
    pdf = make_letter(tmp_path / "letter.pdf", num_pages=2)
    trained, pulled, losses = journey(str(tmp_path / "start"), pdf, tmp_path / "out", f"jane/{model_type}", api)
    assert len(losses) == 10
    assert sum(losses[-3:]) < sum(losses[:3])
    assert [entity["words"] for entity in pulled] == [entity["words"] for entity in trained]
    assert [entity["score"] for entity in pulled] == pytest.approx([entity["score"] for entity in trained], abs=1e-5)
