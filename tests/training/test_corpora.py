import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataset_scripts.docbank_files import page, write_page
from tests.pdfs import Text, make_pdf

from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.corpora import load_corpora, split_groups
from broadsheet.training.pretraining_arguments import CorpusArguments


@pytest.fixture(scope="module")
def pdfs(tmp_path_factory):
    """Nine PDFs of two pages, the last one of two copies."""
    folder = tmp_path_factory.mktemp("pdfs")
    for number in range(9):
        pages = [[Text(f"contract {number} page {side}", 72, 700)] for side in range(2)]
        for copy in range(1 + (number == 8)):
            make_pdf(folder / f"{number}-{copy}.pdf", pages)
    return folder


def corpora(cache, **changes):
    settings = {"dataset": ["pdf_folder"], "cache_dir": cache, "validation_fraction": 0.2, "test_fraction": 0.2}
    return load_corpora(CorpusArguments(**{**settings, **changes}))


@given(st.lists(st.sampled_from("abcdefghij"), min_size=4), st.integers(0, 9), st.randoms())
def test_groups_stay_together_whatever_the_order(groups, seed, random):
    fractions = {"validation": 0.2, "test": 0.3}
    rows = split_groups(groups, fractions, seed)
    assert sorted(row for part in rows.values() for row in part) == list(range(len(groups)))
    found = {split: {groups[row] for row in part} for split, part in rows.items()}
    assert (
        not found["train"] & found["validation"] | found["validation"] & found["test"] | found["train"] & found["test"]
    )
    shuffled = random.sample(groups, len(groups))
    again = split_groups(shuffled, fractions, seed)
    assert found == {split: {shuffled[row] for row in part} for split, part in again.items()}


def test_shares_and_seeds():
    groups = [str(number) for number in range(1000)]
    rows = split_groups(groups, {"validation": 0.1, "test": 0.25}, 0)
    assert {split: len(part) for split, part in rows.items()} == {"train": 650, "validation": 100, "test": 250}
    assert rows != split_groups(groups, {"validation": 0.1, "test": 0.25}, 1)
    assert split_groups(groups, {"validation": 0.0}, 0)["validation"] == []


def test_pages_of_a_document_and_copies_are_in_one_split(pdfs, cache):
    texts = corpora(cache, data_dir=[str(pdfs)])
    assert {split: len(set(rows["group"])) for split, rows in texts.items()} == {
        "train": 5,
        "validation": 2,
        "test": 2,
    }
    words = {split: {tuple(row[:2]) for row in rows["words"]} for split, rows in texts.items()}
    assert sum(map(len, words.values())) == 9
    assert sum(len(rows) for rows in texts.values()) == 20
    assert texts["train"][0]["id"].endswith("#1")
    for rows in texts.values():
        assert all(
            set(ids) == {0} and len(sizes) == 1
            for ids, sizes in zip(rows["page_ids"], rows["page_sizes"], strict=True)
        )
        assert [row[-1] for row in rows["words"]] == ["0", "1"] * (len(rows) // 2)
    whole = corpora(cache, data_dir=[str(pdfs)], unit="document")
    assert {split: set(rows["group"]) for split, rows in whole.items()} == {
        split: set(rows["group"]) for split, rows in texts.items()
    }
    assert [len(row) for row in whole["test"]["words"]] == [8] * len(whole["test"])


def test_several_corpora_at_once(pdfs, cache, tmp_path):
    for number in range(12):
        write_page(tmp_path, f"{number // 3}.tar_paper_{number % 3}", page(number))
    settings = {"dataset": ["pdf_folder", "docbank"], "data_dir": [str(pdfs), str(tmp_path)]}
    texts = corpora(cache, **settings, dataset_options="docbank.keep_marks=True,pdf_folder.on_error=skip")
    assert "##LTLine##" in texts["test"]["words"][-1]
    groups = {
        split: {group for group in rows["group"] if group.startswith("1:docbank")} for split, rows in texts.items()
    }
    # Three pages of each paper, never in two splits.
    assert {split: len(part) for split, part in groups.items()} == {"train": 2, "validation": 1, "test": 1}
    assert len(set.union(*groups.values())) == 4
    assert len([group for group in texts["train"]["group"] if group.startswith("1:")]) == 6
    twice = corpora(cache, data_dir=[str(pdfs), str(pdfs)])
    assert len(twice["train"]) == 2 * len(corpora(cache, data_dir=[str(pdfs)])["train"])


def test_splits_of_a_corpus_are_kept(funsd, cache):
    texts = corpora(cache, dataset=["funsd"], data_dir=[str(funsd)])
    assert {split: len(rows) for split, rows in texts.items()} == {"train": 6, "validation": 2, "test": 3}
    assert {split: len(rows) for split, rows in corpora(cache, dataset=["funsd"], data_dir=[str(funsd)],
                                                        max_documents=2, validation_fraction=0).items()} == {
        "train": 2, "test": 2,
    }  # fmt: skip


def test_sentences(pdfs, cache, tmp_path):
    for changes, message in (
        ({"dataset": None}, "no corpus; set --dataset"),
        ({"data_dir": None}, "1 corpora but 0 folders"),
        (
            {"dataset": ["pdf_folder", "docbank"], "data_dir": [str(pdfs)]},
            "2 corpora but 1 folders; set one --data_dir",
        ),
        ({"dataset_options": "docbank.subset=la"}, "option docbank.subset is for docbank, which is no corpus"),
        ({"test_fraction": 1.0}, "test_fraction=1.0 is a share"),
        ({"test_fraction": 0.5, "validation_fraction": 0.5}, "leave nothing to train on"),
        ({"max_documents": 1}, "No document of .* is left to train on"),
        ({"data_dir": [str(tmp_path)]}, "holds no files"),
    ):
        with pytest.raises(InputError, match=message):
            corpora(cache, **{"data_dir": [str(pdfs)], **changes})
