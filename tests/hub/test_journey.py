"""The same lines of user code for every member: load, read a PDF, fine-tune ten steps, push, pull."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi
from tests.hub.models import TYPES, save
from tests.pdfs import make_letter
from transformers import AutoProcessor, Trainer, TrainingArguments, pipeline

from broadsheet.documents import read_pdf
from broadsheet.hub import push
from broadsheet.pipelines import PIPELINES
from broadsheet.tokenization.collation import LayoutDataCollator

CUT = {"max_length": 16, "stride": 4}


def journey(task: str, start: str, pdf: Path, output: Path, repo: str, api: HfApi, **options: Any) -> tuple[Any, ...]:
    model = PIPELINES[task][1][0].from_pretrained(start)
    processor = AutoProcessor.from_pretrained(start)
    reader = pipeline(task, model=model, processor=processor, device="cpu", **options)
    before = reader(pdf)

    page = read_pdf(pdf)
    batch = processor(documents=[page], truncation=True, max_length=CUT["max_length"], **answers(task, page.words))
    windows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    settings = TrainingArguments(str(output), max_steps=10, learning_rate=3e-3, logging_steps=1, use_cpu=True)
    trainer = Trainer(model, settings, LayoutDataCollator(processor), windows, processing_class=processor)
    trainer.train()
    trainer.save_model()
    push(output, repo, api=api)
    pulled = pipeline(task, model=repo, device="cpu", **options)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return before, reader(pdf), pulled(pdf), losses


def answers(task: str, words: list[str]) -> dict[str, Any]:
    """What a model is to learn of a document."""
    if task == "document-summarization":
        return {"text_target": ["The total is due in May."]}
    labels = [1 if any(letter.isdigit() for letter in word) else 0 for word in words]
    return {"word_labels": [labels], "return_overflowing_tokens": True, "stride": CUT["stride"]}


@pytest.mark.parametrize("model_type", TYPES)
def test_journey(model_type: str, tmp_path: Path, api: HfApi) -> None:
    writes = model_type == "pyramidion"
    save(model_type, "ForConditionalGeneration" if writes else "ForTokenClassification", tmp_path / "start")
    pdf = make_letter(tmp_path / "letter.pdf", num_pages=2)
    task = "document-summarization" if writes else "document-token-classification"
    options = {"max_new_tokens": 6} if writes else CUT
    before, trained, pulled, losses = journey(
        task, str(tmp_path / "start"), pdf, tmp_path / "out", f"jane/{model_type}", api, **options
    )
    assert len(losses) == 10
    assert sum(losses[-3:]) < sum(losses[:3])
    if writes:
        assert pulled == trained
        assert pulled["summary_text"] != before["summary_text"]
        return
    assert isinstance(before, list)
    assert [entity["words"] for entity in pulled] == [entity["words"] for entity in trained]
    assert [entity["score"] for entity in pulled] == pytest.approx([entity["score"] for entity in trained], abs=1e-5)
