import pytest

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_lambert import LambertProcessor
from broadsheet.tokenization.processing_long_layoutlm import LongLayoutLMProcessor
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
from broadsheet.training.arguments import DataArguments
from broadsheet.training.preparation import encode, load_splits, segment_boxes, with_box_level
from broadsheet.training.tokenizer import train_tokenizer

OPTIONS = {"box_level": "word", "max_length": 16, "stride": 4, "clip_boxes": False, "num_proc": None}


@pytest.fixture
def documents(funsd, cache):
    return load_dataset("funsd", data_dir=funsd, split="train", cache_dir=cache)


@pytest.fixture
def processor(documents):
    names = documents.features["labels"].feature.names
    tokenizer = train_tokenizer((" ".join(words) for words in documents["words"]), vocab_size=200)
    return SkimformerProcessor(tokenizer, id2label=dict(enumerate(names)))


def test_segment_boxes():
    boxes = [[0, 0, 1, 1], [5, 2, 6, 3], [2, 0, 3, 4], [9, 9, 9, 9]]
    assert segment_boxes(boxes, [7, 8, 7, 7], [0, 0, 0, 1]) == [[0, 0, 3, 4], [5, 2, 6, 3], [0, 0, 3, 4], [9, 9, 9, 9]]
    columns = {"boxes": [boxes], "segment_ids": [None], "page_ids": [[0, 0, 0, 1]]}
    assert with_box_level(columns, "word") is columns
    with pytest.raises(InputError, match="set box_level to word"):
        with_box_level(columns, "segment")


def test_windows_cover_every_word_and_are_cached(documents, processor):
    names = documents.features["labels"].feature.names
    windows = encode(documents, processor, names, None, OPTIONS)
    assert max(map(len, windows["input_ids"])) == 16
    for row in range(len(documents)):
        mine = [window for window in windows if window["document"] == row]
        seen = {word for window in mine for word in window["token_word_ids"] if word >= 0}
        assert seen == set(range(len(documents[row]["words"])))
        for window in mine:
            for word, subword, label in zip(
                window["token_word_ids"], window["token_subword_ids"], window["labels"], strict=True
            ):
                expected = documents[row]["labels"][word] if subword == 0 else -100
                assert label == expected
    assert len(windows) > len(documents)
    again = encode(documents, processor, names, None, OPTIONS)
    assert again.cache_files == windows.cache_files
    processor.subword_boxes = "split"
    assert encode(documents, processor, names, None, OPTIONS).cache_files != windows.cache_files
    parallel = encode(documents, processor, names, None, {**OPTIONS, "num_proc": 2, "stride": 5})
    serial = encode(documents, processor, names, None, {**OPTIONS, "stride": 5})
    assert parallel.to_list() == serial.to_list()


@pytest.mark.parametrize("processor_class", [LongLayoutLMProcessor, LambertProcessor])
def test_layout_is_stored_as_declared(documents, processor, processor_class):
    """Neighbours in four bytes, not in eight, of a file that the windows are read from as they are needed."""
    settings = {"attention_pattern": "union", "num_neighbors": 3} if processor_class is LongLayoutLMProcessor else {}
    processor = processor_class(processor.tokenizer, id2label=processor.id2label, **settings)
    windows = encode(documents, processor, documents.features["labels"].feature.names, None, OPTIONS)
    assert windows.cache_files
    for name, spec in processor.tensors.items():
        kind = windows.features[name]
        while hasattr(kind, "feature"):
            kind = kind.feature
        assert kind.dtype == spec.dtype


def test_segment_boxes_reach_the_windows(documents, processor):
    names = documents.features["labels"].feature.names
    by_word = encode(documents, processor, names, None, OPTIONS)
    by_segment = encode(documents, processor, names, None, {**OPTIONS, "box_level": "segment"})
    # Each block of the forms is one line: same y, and the x of its first and last word.
    first = by_word[0]["bbox"][1:3]
    assert first[0] != first[1]
    union = [first[0][0], first[0][1], first[1][2], first[1][3]]
    assert by_segment[0]["bbox"][1:3] == [union, union]


def test_labels_go_by_name_not_by_number(documents, processor):
    names = documents.features["labels"].feature.names
    straight = encode(documents, processor, names, None, OPTIONS)
    processor.id2label = dict(enumerate(reversed(names)))
    turned = encode(documents, processor, names, None, OPTIONS)
    last = len(names) - 1
    for one, other in zip(straight["labels"], turned["labels"], strict=True):
        assert [label if label < 0 else last - label for label in one] == other


def test_messages_name_the_document(funsd, cache, processor, documents):
    broken = documents.map(
        lambda row: {"boxes": [[0, 0, 9999, 1]] * len(row["words"])} if row["id"] == "form002" else {}
    )
    with pytest.raises(InputError, match="'form002'"):
        encode(broken, processor, documents.features["labels"].feature.names, None, OPTIONS)


def test_held_out_documents_depend_on_the_seed_alone(funsd, cache):
    data = DataArguments(dataset="funsd", data_dir=str(funsd), cache_dir=cache, validation_fraction=0.25)
    splits = load_splits(data, seed=1)
    assert {name: len(part) for name, part in splits.items()} == {"train": 6, "validation": 2, "test": 3}
    assert not set(splits["train"]["id"]) & set(splits["validation"]["id"])
    assert load_splits(data, seed=1)["validation"]["id"][:] == splits["validation"]["id"][:]
    chosen = {tuple(load_splits(data, seed=seed)["validation"]["id"]) for seed in range(6)}
    assert len(chosen) > 1
    data.validation_fraction, data.max_documents = 0, 2
    assert {name: len(part) for name, part in load_splits(data, seed=1).items()} == {"train": 2, "test": 2}


def test_test_documents_are_held_out_where_the_dataset_has_none(funsd, cache):
    data = DataArguments(
        dataset="funsd", data_dir=str(funsd), cache_dir=cache, test_split=None, test_fraction=0.25,
        validation_fraction=0.34,
    )  # fmt: skip
    splits = load_splits(data, seed=1)
    assert {name: len(part) for name, part in splits.items()} == {"train": 4, "test": 2, "validation": 2}
    assert len({identity for part in splits.values() for identity in part["id"]}) == 8
    assert load_splits(data, seed=1)["test"]["id"][:] == splits["test"]["id"][:]


def test_bad_splits(funsd, cache):
    with pytest.raises(InputError, match="test_fraction=1.5 is a share"):
        load_splits(DataArguments("funsd", str(funsd), cache_dir=cache, test_split="none", test_fraction=1.5), 0)
    with pytest.raises(InputError, match="no split 'training' to train on; its splits are train, test"):
        load_splits(DataArguments("funsd", str(funsd), cache_dir=cache, train_split="training"), 0)
    with pytest.raises(InputError, match="validation_fraction=2"):
        load_splits(DataArguments("funsd", str(funsd), cache_dir=cache, validation_fraction=2), 0)
    with pytest.raises(InputError, match="There is no dataset; set --dataset"):
        load_splits(DataArguments(), 0)
