"""CORD v2 in both official formats, and CORD-r, made here and real."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.tagging import bioes_labels, decode_entities, encode_entities

LINES = [
    ("menu.cnt", [("1", 10, 10)]),
    ("menu.nm", [("NASI", 30, 10), ("", 60, 10), ("GORENG", 70, 12)]),
    ("other", [("thank", 10, 30)]),
    ("menu.sub_nm", [("pedas", 30, 20)]),
    ("total.total_price", [("TOTAL", 10, 40), ("25.000", 60, 40)]),
]


def truth(image_id: int = 7, lines: Any = LINES) -> dict[str, Any]:
    def quad(x: int, y: int) -> dict[str, int]:
        return {"x1": x, "y1": y + 1, "x2": x + 20, "y2": y, "x3": x + 21, "y3": y + 8, "x4": x, "y4": y + 9}

    return {
        "gt_parse": {"total": {"total_price": "25.000"}},
        "meta": {"version": "2.0.0", "split": "x", "image_id": image_id, "image_size": {"width": 100, "height": 60}},
        "valid_line": [
            {
                "words": [{"quad": quad(x, y), "is_key": 0, "row_id": 1, "text": text} for text, x, y in words],
                "category": category,
                "group_id": 3,
                "sub_group_id": 0,
            }
            for category, words in lines
        ],
        "roi": {},
        "repeating_symbol": [],
        "dontcare": [],
    }


def write_json(root: Path) -> Path:
    for folder in ("train", "dev", "test"):
        (root / "CORD" / folder / "json").mkdir(parents=True)
        (root / "CORD" / folder / "json" / "receipt_00007.json").write_text(json.dumps(truth()))
    return root


def write_parquet(root: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (root / "data").mkdir(parents=True)
    for split in ("train", "validation", "test"):
        rows = [json.dumps(truth(image_id)) for image_id in (7, 8)]
        table = pyarrow.table({"image": [{"bytes": b"", "path": None}] * 2, "ground_truth": rows})
        parquet.write_table(table, root / "data" / f"{split}-00000-of-00001-b4aaeceff1d90ecb.parquet")
    return root


@pytest.fixture
def load(tmp_path):
    return lambda data_dir, name="cord", **options: load_dataset(
        name, data_dir=data_dir, cache_dir=str(tmp_path / "cache"), **options
    )


def names(dataset: Any, row: Any) -> list[str]:
    return [dataset.features["labels"].feature.names[label] for label in row["labels"]]


@pytest.mark.parametrize(("write", "count"), [(write_json, 1), (write_parquet, 2)])
def test_rows(write, count, tmp_path, load):
    dataset = load(write(tmp_path / "cord"))
    assert {name: len(part) for name, part in dataset.items()} == {"train": count, "validation": count, "test": count}
    row = dataset["train"][0]
    assert row["id"] == ("receipt_00007" if count == 1 else "train_7")
    assert row["words"] == ["1", "NASI", "GORENG", "thank", "pedas", "TOTAL", "25.000"]
    assert row["boxes"][1] == [30, 10, 51, 19]
    assert row["page_sizes"] == [[100, 60]]
    assert row["segment_ids"] == [0, 1, 1, 2, 3, 4, 4]
    assert names(dataset["train"], row) == [
        "B-menu.cnt", "B-menu.nm", "I-menu.nm", "O", "B-menu.sub_nm", "B-total.total_price", "I-total.total_price",
    ]  # fmt: skip
    assert [(entity["type"], entity["word_ids"], entity["text"]) for entity in row["entities"]] == [
        ("menu.cnt", [0], "1"),
        ("menu.nm", [1, 2], "NASI GORENG"),
        ("menu.sub_nm", [4], "pedas"),
        ("total.total_price", [5, 6], "TOTAL 25.000"),
    ]


def test_streaming(tmp_path, load):
    root = write_parquet(tmp_path / "cord")
    assert list(load(root, split="test", streaming=True)) == load(root, split="test").to_list()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("meta"), r"receipt_00007\.json is no receipt of CORD \(KeyError: 'meta'\)"),
        (lambda t: t["valid_line"][0]["words"][0]["quad"].pop("x3"), r"is no receipt of CORD \(KeyError: 'x3'\)"),
        (lambda t: t["valid_line"][0].update(category="menu.colour"), r"has the category 'menu\.colour'; the categ"),
        (lambda t: t["meta"].update(image_size={"width": 40, "height": 60}), r"reaches beyond its page .* clip_boxes"),
    ],
)
def test_bad_receipts(change, message, tmp_path, load):
    root = write_json(tmp_path / "cord")
    content = truth()
    change(content)
    (root / "CORD" / "train" / "json" / "receipt_00007.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        load(root)


def test_clipping_and_broken_files(tmp_path, load):
    root = write_json(tmp_path / "cord")
    file = root / "CORD" / "train" / "json" / "receipt_00007.json"
    content = truth()
    content["meta"]["image_size"] = {"width": 40, "height": 60}
    file.write_text(json.dumps(content))
    assert load(root, split="train", clip_boxes=True)[0]["boxes"][2] == [40, 12, 40, 21]
    file.write_text("{")
    with pytest.raises(InputError, match=r"receipt_00007\.json is not valid JSON"):
        load(root)
    with pytest.raises(InputError, match=r"holds no files of dataset 'cord'; data_dir is the folder with train/json"):
        load(tmp_path)
    root = write_parquet(tmp_path / "parquet")
    (root / "data" / "test-00000-of-00001-b4aaeceff1d90ecb.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(InputError, match=r"test-00000.* cannot be read .*it needs the column ground_truth"):
        load(root)


# One field over two segments and backwards, one word of two fields, spaces that belong to fields.
SEGMENTS = ["1x15,000 tea", "25.000", "TOTAL due"]
FIELDS = [
    ("menu.cnt", [0]),
    ("menu.unitprice", list(range(2, 8))),
    ("menu.sub.nm", [8, 9, 10, 11]),
    ("total.total_price", [18, 19, 20, 21, 22, 12, 13, 14, 15, 16, 17]),
]


def write_cord_r(root: Path, fields: Any = FIELDS) -> Path:
    (root / "jsons").mkdir(parents=True)
    index, document = 0, []
    for number, text in enumerate(SEGMENTS):
        words = []
        for place, letter in enumerate(text):
            box = [10 * place, 20 * number, 10 * place + 10, 20 * number + 10]
            words.append({"id": index, "box": box, "bndbox": [], "text": letter})
            index += 1
        document.append({"id": number, "box": [0, 0, 1, 1], "bndbox": [], "text": text, "words": words})
    content = {
        "img": {"height": 60, "width": 120, "image_path": "train_0000.png"},
        "document": document,
        "uid": "train_0000",
        "label_entities": [{"entity_id": n, "label": kind, "word_idx": ids} for n, (kind, ids) in enumerate(fields)],
    }
    for name in ("train_0000", "valid_0000", "test_0000"):
        (root / "jsons" / f"{name}.json").write_text(json.dumps(content))
    for name, stem in (("train", "train"), ("val", "valid"), ("test", "test")):
        (root / f"data.{name}.txt").write_text(f"images/{stem}_0000.png jsons/{stem}_0000.json")
    return root


def test_cord_r(tmp_path, load):
    dataset = load(write_cord_r(tmp_path / "CORD-r"), "cord_r")
    assert set(dataset) == {"train", "validation", "test"}
    row = dataset["validation"][0]
    assert row["id"] == "valid_0000"
    assert row["words"] == ["1", "x", "15,000", "tea", "25.000", "TOTAL", "due"]
    assert row["boxes"][2] == [20, 0, 80, 10]
    assert row["segment_ids"] == [0, 0, 0, 0, 1, 2, 2]
    assert [(entity["type"], entity["word_ids"], entity["text"]) for entity in row["entities"]] == [
        ("menu.cnt", [0], "1"),
        ("menu.unitprice", [2], "15,000"),
        ("menu.sub_nm", [3], "tea"),
        ("total.total_price", [5, 4], "TOTAL 25.000"),
    ]
    labels = names(dataset["validation"], row)
    assert labels == [
        "B-menu.cnt", "O", "B-menu.unitprice", "B-menu.sub_nm", "B-total.total_price", "I-total.total_price", "O",
    ]  # fmt: skip
    spans = decode_entities(labels)
    assert set(encode_entities(spans, len(labels), "bioes")) <= set(bioes_labels({kind for kind, _, _ in spans}))


def test_cord_r_words_between_spaces(tmp_path, load, caplog):
    row = load(write_cord_r(tmp_path / "CORD-r"), "cord_r", split="train", split_at_entities=False)[0]
    assert row["words"][:2] == ["1x15,000", "tea"]
    assert [entity["type"] for entity in row["entities"]] == ["menu.unitprice", "menu.sub_nm", "total.total_price"]
    assert "1 fields have no word of their own" in caplog.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("menu.cnt", [99])], r"Field 0 \(menu\.cnt\) of .*json has the character 99, which the document does not"),
        ([("menu.cnt", [0]), ("menu.nm", [0])], r"Field 1 .* has the character 0, which another field has too"),
        ([("menu.colour", [0])], r"has the category 'menu\.colour'"),
        ([("menu.cnt", ["a"])], r"is no receipt of CORD-r \(ValueError"),
    ],
)
def test_cord_r_bad_fields(fields, message, tmp_path, load):
    with pytest.raises(InputError, match=message):
        load(write_cord_r(tmp_path / "CORD-r", fields), "cord_r")


def test_cord_r_bad_lists(tmp_path, load):
    root = write_cord_r(tmp_path / "CORD-r")
    (root / "data.val.txt").write_text("images/a.png jsons/a.json\n")
    with pytest.raises(InputError, match=r"Line 1 of .*data\.val\.txt names 'jsons/a\.json', which is not in"):
        load(root, "cord_r")


@pytest.mark.data
def test_official_cord_r(tmp_path):
    folder = Path(os.environ.get("BROADSHEET_DATA", ""), "cord-r")
    if not folder.is_dir():
        pytest.skip("BROADSHEET_DATA has no cord-r")
    dataset = load_dataset("cord_r", folder, cache_dir=str(tmp_path))
    # 800 training files are there, but the official list names 799.
    assert {name: len(part) for name, part in dataset.items()} == {"train": 799, "validation": 100, "test": 100}
    entities = {name: sum(map(len, part["entities"])) for name, part in dataset.items()}
    assert entities == {"train": 10200, "validation": 1152, "test": 1211}
    scattered = 0
    for row in dataset["train"]:
        owners = [word for entity in row["entities"] for word in entity["word_ids"]]
        assert len(owners) == len(set(owners))
        scattered += sum(
            sorted(entity["word_ids"]) != list(range(min(entity["word_ids"]), max(entity["word_ids"]) + 1))
            for entity in row["entities"]
        )
    assert scattered == 110
