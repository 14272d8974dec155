import json
import os
from pathlib import Path

import pytest

from broadsheet.dataset_scripts import load_dataset
from broadsheet.dataset_scripts.sroie import split_line
from broadsheet.dataset_scripts.value_alignment import alignment_report
from broadsheet.tokenization.input_checks import InputError

LINES = [
    "BOOK TAK SDN BND",
    "NO. 5, JALAN SAGU 18,",
    "81100 JOHOR BAHRU",
    "DATE:25/12/2018 8:13 PM",
    "PEN 9.00",
    "TOTAL: RM9.00",
]
VALUES = {
    "company": "BOOK TAK SDN BHD",
    "date": "25/12/2018",
    "address": "NO.5, JALAN SAGU 18, 81100 JOHOR BAHRU",
    "total": "9.00",
}


def box_file(lines: list[str]) -> str:
    rows = []
    for row, text in enumerate(lines):
        right, top = 10 + 10 * len(text), 20 * row
        rows.append(f"10,{top},{right},{top},{right},{top + 15},10,{top + 15},{text}\r\n")
    return "".join(rows) + "\r\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "sroie"
    for split, folders in (("train", ("box", "entities")), ("test", ("box", "img"))):
        for folder in folders:
            (root / split / folder).mkdir(parents=True)
        (root / split / "box" / "X1.txt").write_text(box_file(LINES), encoding="utf-8")
    (root / "train" / "entities" / "X1.txt").write_text(json.dumps(VALUES), encoding="utf-8")
    (root / "train" / "image_sizes.tsv").write_text("document\twidth\theight\nX1\t400\t300\n", encoding="utf-8")
    image = pytest.importorskip("PIL.Image")
    image.new("L", (500, 350)).save(root / "test" / "img" / "X1.jpg")
    return root


@pytest.fixture
def load(tmp_path: Path):
    return lambda data_dir, **options: load_dataset(
        "sroie", data_dir=data_dir, cache_dir=str(tmp_path / "cache"), **options
    )


def stated(row: dict) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for entity in row["entities"]:
        places.setdefault(entity["type"], []).append(" ".join(row["words"][word] for word in entity["word_ids"]))
    return places


def test_rows(corpus, load):
    dataset = load(corpus)
    row = dataset["train"][0]
    assert row["words"][:4] == ["BOOK", "TAK", "SDN", "BND"]
    assert row["boxes"][1] == [60, 0, 90, 15]
    assert row["page_sizes"] == [[400, 300]]
    assert row["segment_ids"][:5] == [0, 0, 0, 0, 1]
    assert stated(row) == {
        "company": ["BOOK TAK SDN BND"],
        "date": ["DATE:25/12/2018"],
        "address": ["NO. 5, JALAN SAGU 18, 81100 JOHOR BAHRU"],
        "total": ["RM9.00"],
    }
    names = dataset["train"].features["labels"].feature.names
    assert [names[label] for label in row["labels"]].count("I-address") == 7
    assert {entity["text"] for entity in row["entities"]} == set(VALUES.values())
    hidden = dataset["test"][0]
    assert hidden["page_sizes"] == [[500, 350]]
    assert hidden["source"].endswith("X1.jpg")
    assert hidden["labels"] is None
    assert hidden["entities"] is None


def test_options(corpus, load):
    assert stated(load(corpus, split="train", total_beside_its_name=False)[0])["total"] == ["9.00", "RM9.00"]
    row = load(corpus, split="train", total_beside_its_name=False, occurrences="first", min_similarity=1.0)[0]
    assert stated(row)["total"] == ["9.00"]
    assert stated(row)["company"] == ["BOOK TAK"]
    with pytest.raises(InputError, match="min_similarity is 2"):
        load(corpus, min_similarity=2)


def test_one_wrong_digit_is_another_date(corpus, load):
    (corpus / "train" / "entities" / "X1.txt").write_text(json.dumps({"date": "25/12/2019", "total": ""}))
    dataset = load(corpus, split="train")
    assert alignment_report(dataset).misses == [("X1", "date", "25/12/2019")]
    assert alignment_report(dataset).total == {"date": 1}


def test_split_line():
    assert split_line(" ab  a ", (0, 5, 50, 15)) == [("ab", (0, 5, 20, 15)), ("a", (40, 5, 50, 15))]
    assert split_line("  ", (0, 0, 1, 1)) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("box/X1.txt", "1,2,3,4,5,6,7\n", r"Line 1 of .*X1\.txt is '1,2,3,4,5,6,7'; a text line is eight numbers"),
        ("box/X1.txt", "1,2,3,4,5,6,7,x,text\n", r"Line 1 of .*X1\.txt is"),
        ("box/X1.txt", "\n", r"X1\.txt has no text lines"),
        ("box/X1.txt", b"1,1,2,1,2,2,1,2,\xff\n", r"X1\.txt is not UTF-8 text"),
        ("box/X1.txt", "1,1,900,1,900,2,1,2,far\n", r"reaches beyond its page .* pass clip_boxes=True"),
        ("entities/X1.txt", "{", r"entities.X1\.txt is not valid JSON"),
        ("entities/X1.txt", "[]", r"entities.X1\.txt is no JSON object"),
        ("entities/X1.txt", '{"price": "1"}', r"gives 'price' as '1'; it has texts for the keys company"),
        ("entities/X1.txt", None, r"entities.X1\.txt cannot be read"),
        ("image_sizes.tsv", "document\twidth\theight\n", r"The image size of .*X1\.txt is unknown; put the image at"),
        ("image_sizes.tsv", "document\twidth\theight\nX1\t?\t1\n", r"Line 2 of .*image_sizes\.tsv is no image size"),
    ],
)
def test_bad_files(corpus, load, name, content, message):
    path = corpus / "train" / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        load(corpus, split="train")


def test_bad_image_and_folder(corpus, load):
    with pytest.raises(InputError, match=r"holds no files of dataset 'sroie'"):
        load(corpus / "train")
    (corpus / "test" / "img" / "X1.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"X1\.jpg is damaged or no image"):
        load(corpus)


def test_clipping(corpus, load):
    (corpus / "train" / "box" / "X1.txt").write_text("1,1,900,1,900,2,1,2,far\n")
    assert load(corpus, split="train", clip_boxes=True)[0]["boxes"] == [[1, 1, 400, 2]]


@pytest.mark.data
def test_official_receipts(tmp_path):
    root = os.environ.get("BROADSHEET_DATA")
    folder = Path(root or "", "sroie")
    if not root or not folder.is_dir():
        pytest.skip("BROADSHEET_DATA has no sroie")
    dataset = load_dataset("sroie", data_dir=folder, split="train", cache_dir=str(tmp_path))
    assert len(dataset) == 626
    report = alignment_report(dataset)
    assert report.total == {"address": 625, "company": 626, "date": 626, "total": 625}
    assert min(report.share(key) for key in report.total) >= 0.995
    exact = alignment_report(
        load_dataset("sroie", data_dir=folder, split="train", cache_dir=str(tmp_path), min_similarity=1.0)
    )
    assert exact.share("address") >= 0.94
    assert exact.share() >= 0.98
