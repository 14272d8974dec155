"""The masked-LM collator."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokenization.examples import kinds, make_document, make_processor, shared_processor, words
from torch.utils.data import DataLoader

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.masking import MaskedLMCollator

WINDOWS = {"truncation": True, "return_overflowing_tokens": True, "return_word_ids": True}
TEXT = [
    "Invoice",
    "number",
    "2024-0117",
    "payable",
    "within",
    "thirty",
    "days",
    "agreement",
    "borrower",
    "Springfield",
]


def features_of(processor, texts, max_length=24):
    batch = processor(documents=[make_document(text) for text in texts], max_length=max_length, **WINDOWS)
    batch.pop("overflow_to_sample_mapping")
    return [{key: np.asarray(batch[key][index]) for key in batch} for index in range(len(batch["input_ids"]))]


def special_ids(processor):
    return torch.tensor(sorted(processor.tokenizer.all_special_ids))


documents = st.lists(st.lists(words, min_size=1, max_size=30), min_size=1, max_size=4)
with_mask_token = kinds.filter(lambda kind: kind != "unigram")


@settings(max_examples=60, deadline=None)
@given(with_mask_token, documents, st.booleans(), st.integers(0, 5), st.integers(0, 5))
def test_what_is_hidden_can_be_found_again_and_nothing_else_changes(kind, texts, whole_words, seed, epoch):
    processor = shared_processor(kind)
    features = features_of(processor, texts)
    batch = MaskedLMCollator(processor, whole_words=whole_words, seed=seed, epoch=epoch, keep_word_ids=True)(features)
    drawn = batch["labels"] != -100
    original = torch.where(drawn, batch["labels"], batch["input_ids"])
    specials = special_ids(processor)
    for row, feature in enumerate(features):
        length = len(feature["input_ids"])
        assert original[row, :length].tolist() == feature["input_ids"].tolist()
        assert (batch["bbox"][row, :length].numpy() == feature["bbox"]).all()
        assert not drawn[row, length:].any()
        candidates = ~torch.isin(torch.tensor(feature["input_ids"]), specials)
        assert bool(drawn[row].any()) == bool(candidates.any())
    # Special tokens, unknown words among them, are neither hidden nor put in; nothing but the mask is special.
    assert not torch.isin(batch["labels"][drawn], specials).any()
    hidden = batch["input_ids"][drawn]
    assert not torch.isin(hidden[hidden != processor.tokenizer.mask_token_id], specials).any()
    if whole_words:
        for row, feature in enumerate(features):
            candidates = ~np.isin(feature["input_ids"], specials)
            for word in np.unique(feature["token_word_ids"][candidates]):
                pieces = candidates & (feature["token_word_ids"] == word)
                assert len(set(drawn[row, : len(pieces)][torch.tensor(pieces)].tolist())) == 1


@settings(max_examples=40, deadline=None)
@given(documents, st.randoms(), st.sampled_from([None, 16]), st.booleans())
def test_masks_depend_on_the_window_alone(texts, random, multiple, whole_words):
    processor = shared_processor("wordpiece")
    features = features_of(processor, texts)
    collator = MaskedLMCollator(processor, whole_words=whole_words, seed=3)
    alone = [collator([feature]) for feature in features]
    order = random.sample(range(len(features)), len(features))
    batch = MaskedLMCollator(processor, whole_words=whole_words, seed=3, pad_to_multiple_of=multiple)(
        [features[index] for index in order]
    )
    for row, index in enumerate(order):
        length = len(features[index]["input_ids"])
        for key in ("input_ids", "labels"):
            assert batch[key][row, :length].tolist() == alone[index][key][0].tolist(), key


def test_padding_on_the_left_or_already_there_changes_no_mask():
    right, left = shared_processor("wordpiece"), make_processor(padding_side="left")
    texts = [TEXT * 2, TEXT[:3]]
    batch = MaskedLMCollator(right)(features_of(right, texts, 64))
    turned = MaskedLMCollator(left)(features_of(left, texts, 64))
    padded = right(documents=[make_document(text) for text in texts], padding=True)
    again = MaskedLMCollator(right)([{key: padded[key][row] for key in padded} for row in range(2)])
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        for key in ("input_ids", "labels"):
            expected = batch[key][row, :length].tolist()
            assert turned[key][row, -length:].tolist() == expected
            assert again[key][row, :length].tolist() == expected
    assert (again["labels"][again["attention_mask"] == 0] == -100).all()


def test_rates():
    processor = shared_processor("wordpiece")
    generator = np.random.default_rng(0)
    ids = generator.integers(len(special_ids(processor)), len(processor.tokenizer), size=(40, 1000))
    specials = special_ids(processor).tolist()
    features = [{"input_ids": row, "attention_mask": np.ones_like(row)} for row in ids]
    batch = MaskedLMCollator(processor, return_tensors="np")(features)
    candidates = ~np.isin(ids, specials)
    drawn = batch["labels"] != -100
    total = candidates.sum()
    # Three standard deviations of the binomial.
    assert abs(drawn.sum() / total - 0.15) < 3 * np.sqrt(0.15 * 0.85 / total)
    masked = (batch["input_ids"] == processor.tokenizer.mask_token_id) & drawn
    kept = (batch["input_ids"] == ids) & drawn
    for share, expected in ((masked, 0.8), (kept, 0.1 + 0.1 / candidates.sum() * 40)):
        rate = share.sum() / drawn.sum()
        assert abs(rate - expected) < 3 * np.sqrt(expected * (1 - expected) / drawn.sum()) + 0.1 / 300
    others = batch["input_ids"][drawn & ~masked & ~kept]
    # Random tokens are any of the vocabulary.
    assert len(np.unique(others)) > 0.5 * (len(processor.tokenizer) - len(specials))
    assert (batch["input_ids"][~drawn] == ids[~drawn]).all()


def test_words_are_drawn_at_the_rate_of_tokens():
    processor = shared_processor("wordpiece")
    features = features_of(processor, [TEXT * 20] * 1, 5000)
    drawn = []
    for epoch in range(30):
        labels = MaskedLMCollator(processor, whole_words=True, epoch=epoch)(features)["labels"]
        drawn.append(float((labels != -100).float().mean()))
    assert 0.13 < np.mean(drawn) < 0.17


def test_seed_and_epoch_draw_anew_and_again():
    processor = shared_processor("wordpiece")
    features = features_of(processor, [TEXT * 3, TEXT])

    def labels(**options):
        return MaskedLMCollator(processor, **options)(features)["labels"]

    first = labels(seed=1)
    assert torch.equal(first, labels(seed=1))
    seen = [labels(seed=seed, epoch=epoch) for seed in range(3) for epoch in range(3)]
    assert all(not torch.equal(a, b) for index, a in enumerate(seen) for b in seen[:index])
    collator = MaskedLMCollator(processor, seed=1)
    collator.epoch = 2
    assert torch.equal(collator(features)["labels"], labels(seed=1, epoch=2))
    assert torch.equal(pickle.loads(pickle.dumps(collator))(features)["labels"], labels(seed=1, epoch=2))


def test_workers_of_a_data_loader_draw_the_same():
    processor = shared_processor("wordpiece")
    features = features_of(processor, [TEXT * 3, TEXT, TEXT[::-1]])
    collator = MaskedLMCollator(processor, seed=5)
    batches = [
        [batch["labels"] for batch in DataLoader(features, batch_size=2, collate_fn=collator, num_workers=workers)]
        for workers in (0, 2)
    ]
    assert all(torch.equal(one, other) for one, other in zip(*batches, strict=True))


def test_a_window_without_words_to_hide():
    processor = shared_processor("wordpiece")
    tokenizer = processor.tokenizer
    ids = [tokenizer.cls_token_id, tokenizer.unk_token_id, tokenizer.sep_token_id]
    batch = MaskedLMCollator(processor)([{"input_ids": ids, "attention_mask": [1, 1, 1]}])
    assert batch["input_ids"].tolist() == [ids]
    assert (batch["labels"] == -100).all()


def test_word_ids_leave_the_batch():
    processor = shared_processor("wordpiece")
    features = features_of(processor, [TEXT])
    assert "token_word_ids" not in MaskedLMCollator(processor, whole_words=True)(features)
    assert "token_word_ids" in MaskedLMCollator(processor, keep_word_ids=True)(features)


def test_sentences():
    processor = shared_processor("wordpiece")
    with pytest.raises(InputError, match="no mask token.*set tokenizer.mask_token"):
        MaskedLMCollator(shared_processor("unigram"))
    for share in (0, 1, -0.1):
        with pytest.raises(InputError, match=f"mask_probability={share} is a share"):
            MaskedLMCollator(processor, mask_probability=share)
    feature = {"input_ids": [5, 60, 61], "attention_mask": [1, 1, 1]}
    with pytest.raises(InputError, match="without token_word_ids.*return_word_ids=True"):
        MaskedLMCollator(processor, whole_words=True)([feature])
    with pytest.raises(InputError, match="have labels already"):
        MaskedLMCollator(processor)([{**feature, "labels": [0, 0, 0]}])
