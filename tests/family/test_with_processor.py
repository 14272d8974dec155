"""A model takes what its processor makes: default output, padded batches, windows, Trainer's features."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members import heads, types
from tests.family.spec import MODEL, QUESTIONS, SEQUENCE, TOKENS, Case, assert_close
from transformers import AutoConfig, AutoModel, AutoProcessor, Trainer, TrainingArguments

from broadsheet.registration import MODELS
from broadsheet.tokenization.collation import LayoutDataCollator

TEXT = "Invoice number 2024-0117 of 14 March , payable within thirty days . Total amount due : $1,234.56"
WORDS = TEXT.split()
PAGE_SIZES = [(612.0, 792.0), (595.0, 842.0)]


def document(count: int) -> dict[str, Any]:
    """A document of `count` words, in lines of five, on two pages where they are many."""
    words = [WORDS[index % len(WORDS)] for index in range(count)]
    boxes = []
    for index in range(count):
        x, y = 40.0 + 100 * (index % 5), 30.0 + 14 * (index // 5)
        boxes.append([x, y, x + 9.5 * len(words[index]), y + 11])
    page_ids = [int(index >= 12) for index in range(count)]
    return {"words": words, "boxes": boxes, "page_ids": page_ids, "page_sizes": PAGE_SIZES[: max(page_ids) + 1]}


def processor_and_model(case: Case) -> tuple[Any, Any]:
    if case.spec.processor is None:
        pytest.skip("there is no processor yet")
    processor = case.spec.processor()
    return processor, case.model(torch.float32, vocab_size=len(processor.tokenizer))


@heads()
def test_default_output(case: Case) -> None:
    processor, model = processor_and_model(case)
    one = processor(documents=document(9), return_tensors="pt")
    assert "bbox" in one
    expected = model(**one)
    first = next(iter(expected.values()))
    assert first.isfinite().all()
    batch = processor(documents=[document(9), document(1), document(23)], padding=True, return_tensors="pt")
    together = next(iter(model(**batch).values()))
    per_token = first.dim() > 1 and together.shape[:2] == batch["input_ids"].shape
    row = together[:1, : batch["attention_mask"][0].sum()] if per_token else together[:1]
    assert_close(row, first, 1e-4)
    half = case.model(torch.bfloat16, vocab_size=len(processor.tokenizer))
    half(**batch.to(torch.bfloat16))


@types(TOKENS)
def test_one_prediction_for_each_word(case: Case) -> None:
    processor, model = processor_and_model(case)
    documents = [document(40), document(3)]
    batch = processor(
        documents=documents,
        truncation=True,
        max_length=24,
        stride=4,
        padding=True,
        return_overflowing_tokens=True,
        return_word_ids=True,
        return_tensors="pt",
    )
    outputs = model(**batch.model_inputs)
    id2label = {0: "O", 1: "B-DATE", 2: "I-DATE"}
    results = processor.post_process_token_classification(outputs, batch, documents, id2label=id2label)
    assert [len(result.labels) for result in results] == [40, 3]


@types(QUESTIONS)
def test_questions(case: Case) -> None:
    processor, model = processor_and_model(case)
    texts = ["When is it due ?", "How much ?"]
    batch = processor(text=texts, documents=[document(9), document(23)], padding=True, return_tensors="pt")
    assert model(**batch).start_logits.shape == batch["input_ids"].shape


@heads(MODEL, QUESTIONS)
def test_training_on_features(case: Case, tmp_path: Path) -> None:
    """Unpadded features of the processor, through the family's collator, into Trainer."""
    processor, model = processor_and_model(case)
    rows = []
    for count in (3, 9, 14, 20):
        labels = None if case.head == SEQUENCE else [index % 3 for index in range(count)]
        row = dict(processor(documents=document(count), word_labels=labels))
        if case.head == SEQUENCE:
            row["labels"] = count % 3
        rows.append(row)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=4,
            max_steps=8,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            use_cpu=True,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=rows,
        data_collator=LayoutDataCollator(processor),
        processing_class=processor,
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    predicted = trainer.predict(rows)
    assert predicted.predictions.shape[0] == 4
    trainer.save_model(str(tmp_path))
    assert type(AutoProcessor.from_pretrained(tmp_path)) is type(processor)


@heads()
def test_auto_classes(case: Case, tmp_path: Path) -> None:
    """`import broadsheet` makes the Auto classes find each head, the config and the processor."""
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    assert type(AutoConfig.from_pretrained(tmp_path)) is case.spec.config_class
    member = MODELS[case.spec.model_type]
    assert member.config is case.spec.config_class
    auto_classes = [auto for auto, model_class in member.models.items() if model_class is type(model)]
    assert auto_classes, f"no Auto class leads to {type(model).__name__}"
    for auto in auto_classes:
        assert type(auto.from_pretrained(tmp_path)) is type(model)
        assert type(auto.from_config(model.config)) is type(model)
    if case.head == MODEL:
        assert AutoModel in auto_classes


@types()
def test_auto_processor(case: Case, tmp_path: Path) -> None:
    processor, model = processor_and_model(case)
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    reloaded = AutoProcessor.from_pretrained(tmp_path)
    assert type(reloaded) is type(processor) is MODELS[case.spec.model_type].processor
    first, second = (each(documents=document(9), return_tensors="pt") for each in (processor, reloaded))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
