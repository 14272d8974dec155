"""Against transformers' LayoutLMv3 tokenizer, whose habits the processors follow: the same content."""

import json
import os
import random

import numpy as np
import pytest
from tests.tokenization.examples import make_document
from tests.tokenizers import SENTENCES, tiny_tokenizer
from transformers import LayoutLMv3Tokenizer

import broadsheet
from broadsheet.documents import Document
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

OPTIONS = {"truncation": True, "max_length": 512, "padding": True, "return_overflowing_tokens": True}
OPTIONS |= {"return_tensors": "np"}
GRID = [(1000, 1000)]


def layoutlmv3_tokenizer(**kwargs) -> LayoutLMv3Tokenizer:
    backend = tiny_tokenizer("bpe", vocab_size=600).backend_tokenizer
    merges = [tuple(merge) for merge in json.loads(backend.to_str())["model"]["merges"]]
    return LayoutLMv3Tokenizer(vocab=backend.get_vocab(), merges=merges, **kwargs)


def pages(num_documents: int, num_words: int) -> list[dict]:
    chance = random.Random(0)
    vocabulary = [word for sentence in SENTENCES for word in sentence.split() if word.isascii()]
    vocabulary += [f"{chance.randrange(10**6)}-{chance.choice(vocabulary)}" for _ in range(2000)]
    documents = [make_document(chance.choices(vocabulary, k=num_words)) for _ in range(num_documents)]
    return [{**document, "page_sizes": GRID} for document in documents]


def columns(documents: list[dict]) -> dict[str, list]:
    return {key: [document[key] for document in documents] for key in ("words", "boxes", "page_ids", "page_sizes")}


@pytest.mark.parametrize("stride", [0, 100])
def test_windows_are_those_of_layoutlmv3(stride):
    documents = columns(pages(3, 400))
    labels = [[index % 7 for index in range(400)]] * 3
    theirs = layoutlmv3_tokenizer()(
        documents["words"], boxes=documents["boxes"], word_labels=labels, stride=stride, **OPTIONS
    )
    ours = SkimformerProcessor(layoutlmv3_tokenizer())(
        documents=documents, word_labels=labels, stride=stride, return_word_ids=True, **OPTIONS
    )
    assert len(ours["input_ids"]) > 6
    for key in ("input_ids", "attention_mask", "bbox"):
        assert np.array_equal(ours[key], theirs[key]), key
    assert np.array_equal(ours["overflow_to_sample_mapping"], theirs["overflow_to_sample_mapping"])
    # A word that a window cuts keeps its label on its first sub-word; LayoutLMv3 labels it a second time.
    again = ours["labels"] != theirs["labels"]
    assert (ours["token_subword_ids"][again] > 0).all()
    assert again.sum() <= len(again)


def test_a_question_is_that_of_layoutlmv3():
    document = pages(1, 50)[0]
    options = {"boxes": document["boxes"]}
    theirs = layoutlmv3_tokenizer()("What is the total?", document["words"], **options)
    ours = SkimformerProcessor(layoutlmv3_tokenizer())("What is the total?", document["words"], **options)
    # LayoutLMv3 gives the question no leading space unless asked; everything from the separator on is equal.
    start = theirs["input_ids"].index(2)
    assert ours["input_ids"][-len(theirs["input_ids"]) + start :] == theirs["input_ids"][start:]
    assert ours["bbox"][-len(theirs["input_ids"]) + start :] == theirs["bbox"][start:]


def test_documents_and_dataset_rows_go_through(tmp_path):
    import datasets

    processor = SkimformerProcessor(tiny_tokenizer(), id2label={0: "O", 1: "X"})
    rows = pages(3, 40)
    documents = [Document(**row) for row in rows]
    expected = processor(documents=rows, **OPTIONS)
    assert all(
        np.array_equal(value, expected[key]) for key, value in processor(documents=documents, **OPTIONS).items()
    )
    dataset = datasets.Dataset.from_list([{**row, "labels": [0, 1] * 20} for row in rows])
    encoded = dataset.map(
        lambda batch: (
            processor(
                documents=batch,
                word_labels=batch["labels"],
                truncation=True,
                max_length=32,
                return_overflowing_tokens=True,
            ).data
        ),
        batched=True,
        remove_columns=dataset.column_names,
    )
    assert len(encoded) > 6
    assert set(encoded.column_names) == {"input_ids", "attention_mask", "token_type_ids", "bbox", "labels"}


@pytest.mark.data
def test_real_forms_are_those_of_layoutlmv3():
    root = os.environ.get("BROADSHEET_DATA")
    if not root or not os.path.isdir(os.path.join(root, "funsd")):
        pytest.skip("BROADSHEET_DATA names no folder with funsd")
    forms = broadsheet.load_dataset("funsd", data_dir=os.path.join(root, "funsd"), split="test")
    processor = SkimformerProcessor(layoutlmv3_tokenizer())
    ours = processor(documents=list(forms), return_word_ids=True)
    tokenizer = layoutlmv3_tokenizer()
    for index, form in enumerate(forms):
        assert ours["token_word_ids"][index][-2] == len(form["words"]) - 1
        theirs = tokenizer(form["words"], boxes=[[0, 0, 0, 0]] * len(form["words"]))
        assert ours["input_ids"][index] == theirs["input_ids"]
