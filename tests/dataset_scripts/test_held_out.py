"""Documents held out of the training split, in groups that stay together."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataset_scripts.test_sroie import corpus as receipts  # noqa: F401

from broadsheet.dataset_scripts import load_dataset
from broadsheet.dataset_scripts.held_out import hold_out, vendor_groups
from broadsheet.tokenization.input_checks import InputError


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=4, max_size=60), st.floats(0.05, 0.6), st.integers(0, 99))
def test_groups_stay_together(groups, share, seed):
    files = {"train": [f"{index}.txt" for index in range(len(groups))], "test": ["t.txt"]}
    if len(set(groups)) == 1:
        with pytest.raises(InputError, match="leaves one side empty"):
            hold_out(files, groups, share, seed)
        return
    try:
        parts = hold_out(files, groups, share, seed)
    except InputError:
        return  # one group is nearly everything
    sides = [{groups[files["train"].index(file)] for file in parts[name]} for name in ("train", "held_out")]
    assert not sides[0] & sides[1]
    assert sorted(parts["train"] + parts["held_out"]) == sorted(files["train"])
    assert len(parts["held_out"]) >= share * len(groups)
    assert parts["test"] == ["t.txt"]


def test_the_order_of_the_files_does_not_matter():
    files = [f"{index}.txt" for index in range(40)]
    one = hold_out({"train": files}, files, 0.25, 3)
    other = hold_out({"train": files[::-1]}, files[::-1], 0.25, 3)
    assert sorted(one["held_out"]) == sorted(other["held_out"])
    assert len(one["held_out"]) == 10
    assert sorted(hold_out({"train": files}, files, 0.25, 4)["held_out"]) != sorted(one["held_out"])
    assert hold_out({"train": files}, files, 0.0, 0) == {"train": files}


def test_vendors():
    names = {
        "MR. D.I.Y. (KUCHAI) SDN BHD": 0,
        "MR D.I.Y(M)SDN BHD": 0,
        "DOMINO'S PIZZA": 1,
        "DOMINO'S PIZZA TAMAN UNIVERSITI": 1,
        "RESTORAN WAN SHENG": 2,
        "RSTORAN WAN SHENG": 2,
        "RESTORAN SIAM VILLAGE": 3,
        "GHEE HIANG": 4,
        "DISTRIBUTOR AND MARKETING": 4,
        "": 5,
    }
    addresses = ["", "", "", "", "", "", "", "12, Jalan A.", "12 JALAN A", ""]
    groups = vendor_groups(list(names), addresses)
    assert [len({groups[i], groups[j]}) == 1 for i in range(10) for j in range(10)] == [
        one == other for one in names.values() for other in names.values()
    ]


def test_loaders(receipts, tmp_path):  # noqa: F811
    for name in ("box", "entities"):
        text = (receipts / "train" / name / "X1.txt").read_text()
        (receipts / "train" / name / "X2.txt").write_text(text)
        (receipts / "train" / name / "X3.txt").write_text(text.replace("BOOK TAK", "KEDAI UBAT").replace("5, ", "9, "))
    with open(receipts / "train" / "image_sizes.tsv", "a", encoding="utf-8") as table:
        table.write("X2\t400\t300\nX3\t400\t300\n")
    dataset = load_dataset("sroie", receipts, held_out=0.3, cache_dir=str(tmp_path / "cache"))
    sides = [sorted(dataset[name]["id"]) for name in ("train", "held_out")]
    assert sorted(sides) == [["X1", "X2"], ["X3"]]
    assert len(dataset["test"]) == 1
    with pytest.raises(InputError, match="held_out is 1.5; it is the share"):
        load_dataset("sroie", receipts, held_out=1.5, cache_dir=str(tmp_path / "cache"))
    with pytest.raises(InputError, match="leaves one side empty"):
        load_dataset("sroie", receipts, held_out=0.9, cache_dir=str(tmp_path / "cache"))


@pytest.mark.data
def test_official_receipts_and_agreements(tmp_path):
    root = Path(os.environ.get("BROADSHEET_DATA", ""))
    if not (root / "sroie").is_dir():
        pytest.skip("BROADSHEET_DATA has no sroie")
    dataset = load_dataset("sroie", root / "sroie", held_out=0.2, cache_dir=str(tmp_path))
    assert {name: len(part) for name, part in dataset.items()} == {"train": 500, "held_out": 126}
    companies = [
        {entity["text"] for row in part["entities"] for entity in row if entity["type"] == "company"}
        for part in (dataset["train"], dataset["held_out"])
    ]
    groups = vendor_groups([*companies[0], *companies[1]], [""] * (len(companies[0]) + len(companies[1])))
    assert not set(groups[: len(companies[0])]) & set(groups[len(companies[0]) :])
