"""Pyramidion's processor: text with and without boxes, summaries as labels, generated tokens as texts."""

import pytest
import torch
from tests.tokenizers import tiny_tokenizer

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor

WORDS, BOXES = ["Total", "amount", "due"], [[10, 10, 30, 20], [40, 10, 70, 20], [80, 10, 90, 20]]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_texts_and_summaries(kind):
    processor = PyramidionProcessor(tiny_tokenizer(kind))
    one = processor(text="Total  amount\ndue", text_target="Total amount", return_tensors="pt")
    listed = processor(text=WORDS, text_target="Total   amount\n", return_tensors="pt")
    assert all(torch.equal(one[name], listed[name]) for name in one)
    assert "bbox" not in one
    end = processor.tokenizer.eos_token_id
    end = processor.tokenizer.sep_token_id if end is None else end
    assert one["labels"][0, -1] == end
    assert processor.post_process_summaries(one["labels"])[0].lower() == "total amount"
    cut = processor(text=WORDS, text_target="Total amount due", max_target_length=2)
    assert len(cut["labels"]) == 2
    assert cut["labels"][-1] == end


def test_batches():
    processor = PyramidionProcessor(tiny_tokenizer("bpe"))
    batch = processor(
        text=[WORDS, WORDS[:1]], text_target=["due", "Total amount due"], padding=True, return_tensors="pt"
    )
    assert batch["input_ids"].shape == batch["attention_mask"].shape
    assert (batch["labels"][0] == -100).any()
    assert not (batch["labels"][1] == -100).any()
    lists = processor(text=[WORDS, WORDS[:1]], text_target=["due", "Total amount due"])
    assert [len(row) for row in lists["labels"]] == [int(count) for count in (batch["labels"] != -100).sum(1)]
    assert processor.post_process_summaries(batch["labels"]) == ["due", "Total amount due"]


def test_boxes():
    processor = PyramidionProcessor(tiny_tokenizer("bpe"))
    batch = processor(text=WORDS, boxes=BOXES, page_sizes=[[100, 200]], return_tensors="pt")
    assert batch["bbox"].dtype == torch.int64
    assert batch["bbox"][0, 0].tolist() == [0, 0, 0, 0]
    assert batch["bbox"][0, 1].tolist() == [100, 50, 300, 100]
    documents = {"words": [WORDS, WORDS], "boxes": [BOXES, BOXES], "page_ids": [[0] * 3] * 2}
    documents["page_sizes"] = [[[100, 200]]] * 2
    again = processor(documents=documents, text_target=["a due", "b"], padding=True, return_tensors="pt")
    assert torch.equal(again["bbox"][1], batch["bbox"][0])


def test_bad_input():
    processor = PyramidionProcessor(tiny_tokenizer("bpe"))
    with pytest.raises(InputError, match="The summary of document 1 is ' '"):
        processor(text=[WORDS, WORDS], text_target=["a", " "])
    with pytest.raises(InputError, match="2 documents but 1 summaries"):
        processor(text=[WORDS, WORDS], text_target=["a"])
    with pytest.raises(InputError, match="differ in length"):
        processor(text=[WORDS, WORDS[:1]], text_target=["a", "b"], return_tensors="pt")
    for target in (5, [], ""):
        with pytest.raises(InputError, match=r"text_target is .*; pass a summary, or a list"):
            processor(text=WORDS, text_target=target)
    with pytest.raises(InputError, match="max_target_length=0 leaves no room"):
        processor(text=WORDS, text_target="due", max_target_length=0)
    with pytest.raises(InputError, match="has no words"):
        processor(text="  ")


def test_saving(tmp_path):
    processor = PyramidionProcessor(tiny_tokenizer("unigram"))
    processor.save_pretrained(tmp_path)
    reloaded = PyramidionProcessor.from_pretrained(tmp_path)
    assert reloaded(text=WORDS, text_target="due") == processor(text=WORDS, text_target="due")
