import logging
import lzma
import os
from pathlib import Path

import pytest

from broadsheet.dataset_scripts import load_dataset, skipped_files
from broadsheet.dataset_scripts.value_alignment import alignment_report
from broadsheet.tokenization.input_checks import InputError

pytest.importorskip("broadsheet.documents")
pdfs = pytest.importorskip("tests.pdfs")

KEYS = "effective_date jurisdiction party term"


def write_agreement(path: Path, party: str) -> Path:
    first = [f"This Agreement, made the 15th day of March, 2010, by {party},", "Inc. and Jo M. Roe, a resident of New"]
    second = ["York, lasts for three (3) years.", f"{party.upper()}, INC."]
    pages = [[pdfs.Text(line, 60, 700 - 16 * row) for row, line in enumerate(page)] for page in (first, second)]
    return pdfs.make_pdf(path, pages)


def write_split(folder: Path, rows: list[tuple[str, str | None]], compressed: bool = True) -> None:
    folder.mkdir(parents=True)
    table = "".join(f'{name}\t{KEYS}\ta "quoted\\ntext\tb\tc\td\n' for name, _ in rows)
    if compressed:
        (folder / "in.tsv.xz").write_bytes(lzma.compress(table.encode()))
    else:
        (folder / "in.tsv").write_text(table, encoding="utf-8")
    if all(values is not None for _, values in rows):
        (folder / "expected.tsv").write_text("".join(f"{values}\n" for _, values in rows), encoding="utf-8")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "kleister-nda"
    (root / "documents").mkdir(parents=True)
    for name in ("Acme", "Bolt", "Cord"):
        write_agreement(root / "documents" / f"{name.lower()}.pdf", name)
    values = "effective_date=2010-03-15 jurisdiction=New_York party=Bolt_Inc. party=Jo_M._Roe term=3_years"
    write_split(root / "train", [("bolt.pdf", values), ("acme.pdf", "party=Acme_Inc. party=Nobody_LLC term=5_years")])
    write_split(root / "test-A", [("cord.pdf", None)], compressed=False)
    return root


@pytest.fixture
def load(tmp_path: Path):
    return lambda data_dir, **options: load_dataset(
        "kleister_nda", data_dir=data_dir, cache_dir=str(tmp_path / "cache"), **options
    )


def test_rows(corpus, load, caplog):
    with caplog.at_level(logging.INFO):
        dataset = load(corpus)
    assert set(dataset) == {"train", "test"}
    row = dataset["train"][0]
    assert row["id"] == "bolt.pdf"
    assert row["source"] == str(corpus / "documents" / "bolt.pdf")
    stated = {}
    for entity in row["entities"]:
        words = " ".join(row["words"][word] for word in entity["word_ids"])
        stated.setdefault((entity["type"], entity["text"]), []).append(words)
    assert stated == {
        ("effective_date", "2010-03-15"): ["15th day of March, 2010,"],
        ("jurisdiction", "New_York"): ["New York,"],
        ("party", "Bolt_Inc."): ["Bolt, Inc.", "BOLT, INC."],
        ("party", "Jo_M._Roe"): ["Jo M. Roe,"],
        ("term", "3_years"): ["three (3) years."],
    }
    names = dataset["train"].features["labels"].feature.names
    labels = [names[label] for label in row["labels"]]
    new = row["words"].index("New")
    assert labels[new : new + 3] == ["B-jurisdiction", "I-jurisdiction", "O"]
    assert row["page_ids"][new : new + 2] == [0, 1]
    assert sum(label.startswith("B-") for label in labels) == 6
    hidden = dataset["test"][0]
    assert hidden["words"][:2] == ["This", "Agreement,"]
    assert hidden["labels"] is None
    assert hidden["entities"] is None
    assert "KleisterNda: 6 of 8 values found (75.0 %)" in caplog.text
    assert "acme.pdf: party=Nobody_LLC was not found" in caplog.text


def test_report_from_the_prepared_data(corpus, load):
    load(corpus)
    report = alignment_report(load(corpus, split="train"))
    assert report.total == {"effective_date": 1, "jurisdiction": 1, "party": 4, "term": 2}
    assert report.misses == [("acme.pdf", "party", "Nobody_LLC"), ("acme.pdf", "term", "5_years")]
    assert alignment_report(load(corpus, split="test")).total == {}


def test_first_occurrence_only(corpus, load):
    row = load(corpus, split="train", occurrences="first")[0]
    assert [entity["text"] for entity in row["entities"]].count("Bolt_Inc.") == 1


def test_streaming(corpus, load):
    assert list(load(corpus, split="train", streaming=True)) == load(corpus, split="train").to_list()


def test_unreadable_pdf(corpus, load):
    broken = corpus / "documents" / "acme.pdf"
    broken.write_bytes(b"%PDF-1.4 not really")
    with pytest.raises(InputError, match=r"acme\.pdf"):
        load(corpus)
    dataset = load(corpus, on_error="skip", split="train")
    assert dataset["id"][:] == ["bolt.pdf"]
    assert [entry["file"] for entry in skipped_files(dataset)] == [str(broken)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train/expected.tsv", "party=A\n", r"expected\.tsv has 1 lines but .*in\.tsv\.xz has 2"),
        ("train/expected.tsv", "party=A\nparty\n", r"Line 2 of .*expected\.tsv has 'party', which is no key=value"),
        (
            "train/expected.tsv",
            "party=A\nprice=3\n",
            r"Line 2 of .* has the key 'price'; the keys of this dataset are",
        ),
        ("train/in.tsv.xz", "no xz", r"in\.tsv\.xz is damaged"),
        ("test-A/in.tsv", "gone.pdf\tk\n", r"Line 1 of .*in\.tsv names the document 'gone\.pdf', which is not in"),
        ("test-A/in.tsv", "../x.pdf\tk\n", r"Line 1 of .* names the document '\.\./x\.pdf'"),
        ("test-A/in.tsv", "acme.pdf\tk\n", r"names 'acme\.pdf', which stood in an earlier line or split"),
    ],
)
def test_bad_files(corpus, load, name, content, message):
    (corpus / name).write_text(content)
    with pytest.raises(InputError, match=message):
        load(corpus)


def test_bad_options(corpus, load, tmp_path):
    with pytest.raises(InputError, match="occurrences='last'"):
        load(corpus, occurrences="last")
    with pytest.raises(InputError, match="Kleister has no document classes"):
        load(corpus, labels_from_folders=True)
    with pytest.raises(
        InputError, match=r"holds no files of dataset 'kleister'; data_dir is the folder with documents"
    ):
        load(tmp_path / "kleister-nda" / "documents")


def test_charity(tmp_path):
    root = tmp_path / "charity"
    (root / "documents").mkdir(parents=True)
    lines = ["THE ROSE TRUST (Charity No. 1132766)", "12 High Street, Bath, BA1 2AB", "Year ended 31 March 2016"]
    lines += ["Total income £ 254,484", "Total expenditure (253,100)"]
    pdfs.make_pdf(root / "documents" / "r.pdf", [[pdfs.Text(t, 60, 700 - 20 * row) for row, t in enumerate(lines)]])
    values = (
        "address__post_town=Bath address__postcode=BA1_2AB address__street_line=12_High_Street "
        "charity_name=The_Rose_Trust charity_number=1132766 income_annually_in_british_pounds=254484.00 "
        "report_date=2016-03-31 spending_annually_in_british_pounds=253100.00"
    )
    write_split(root / "train", [("r.pdf", values)])
    dataset = load_dataset("kleister_charity", data_dir=root, split="train", cache_dir=str(tmp_path / "cache"))
    assert alignment_report(dataset).share() == 1
    words = dataset[0]["words"]
    stated = {e["type"]: [words[word] for word in e["word_ids"]] for e in dataset[0]["entities"]}
    assert stated["income_annually_in_british_pounds"] == ["254,484"]
    assert stated["report_date"] == ["31", "March", "2016"]
    assert stated["address__postcode"] == ["BA1", "2AB"]


@pytest.mark.data
def test_official_agreements(tmp_path):
    root = os.environ.get("BROADSHEET_DATA")
    folder = Path(root or "", "kleister-nda")
    if not root or not folder.is_dir():
        pytest.skip("BROADSHEET_DATA has no kleister-nda")
    dataset = load_dataset("kleister_nda", data_dir=folder, split="train", cache_dir=str(tmp_path))
    assert len(dataset) == 254
    report = alignment_report(dataset)
    assert report.total == {"effective_date": 175, "jurisdiction": 254, "party": 470, "term": 82}
    for key, least in {"effective_date": 0.98, "jurisdiction": 1.0, "party": 0.995, "term": 0.95}.items():
        assert report.share(key) >= least
