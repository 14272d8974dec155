import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.pdfs import Text, make_pdf
from tests.training.conftest import TINY

from broadsheet.training.finetune import main as finetune
from broadsheet.training.prepare import main_finetune, main_pretrain
from broadsheet.training.pretrain import main as pretrain

LONG = (
    "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16,attention_window=8,num_neighbors=4,"
    "attention_pattern=distance"
)


def weights(folder: Path) -> dict:
    return load_file(folder / "model.safetensors")


def without_data(arguments: list[str]) -> list[str]:
    place = arguments.index("--dataset")
    return arguments[:place] + arguments[place + 4 :]


@pytest.mark.parametrize(("model_type", "settings"), [("skimformer", TINY), ("long_layoutlm", LONG)])
def test_a_prepared_corpus_trains_the_same_model(arguments, tmp_path, model_type, settings):
    model = {"model_type": model_type, "config_overrides": settings, "max_length": 32, "stride": 4}
    main_finetune(arguments(output_dir=tmp_path / "prepared", **model))
    assert sorted(path.name for path in (tmp_path / "prepared").glob("*.parquet")) == [
        f"{kind}-{split}.parquet" for kind in ("documents", "windows") for split in ("test", "train", "validation")
    ]
    finetune(arguments(output_dir=tmp_path / "direct", tokenizer_name=tmp_path / "prepared", **model))
    del model["max_length"], model["stride"]
    finetune(without_data(arguments(output_dir=tmp_path / "out", prepared_dir=tmp_path / "prepared", **model)))
    direct, out = weights(tmp_path / "direct"), weights(tmp_path / "out")
    assert direct.keys() == out.keys()
    assert all((direct[name] == out[name]).all() for name in direct)
    results = [json.loads((tmp_path / run / "results.json").read_text()) for run in ("direct", "out")]
    for part in ("metrics", "labels"):
        assert results[0][part] == results[1][part]
    assert results[1]["data"]["max_length"] == 32
    assert results[1]["data"]["name"] == "funsd"


def test_what_does_not_fit_is_named(arguments, tmp_path):
    folder = tmp_path / "prepared"
    main_finetune(arguments(output_dir=folder, max_length=32, stride=4))
    run = {"output_dir": tmp_path / "out", "prepared_dir": folder}
    for changes, sentence in (
        ({"max_length": 64}, "was prepared with max_length=32, but 64 is set; leave max_length out"),
        (
            {"task": "sequence_classification"},
            "was prepared for task token_classification, not sequence_classification",
        ),
        ({"scheme": "IOBES"}, "was prepared for scheme IOB2, not IOBES"),
        ({"subword_boxes": "split"}, "by a processor of another subword_boxes than this model's"),
        ({"model_type": "lambert", "config_overrides": None}, "by a processor of another .*than this model's"),
        ({"prepared_dir": tmp_path}, "is no prepared folder"),
    ):
        with pytest.raises(SystemExit, match=sentence):
            finetune(without_data(arguments(**{**run, **changes})))
    with pytest.raises(SystemExit, match=r"prepared is not empty; set --overwrite"):
        main_finetune(arguments(output_dir=folder))
    main_finetune(arguments(output_dir=folder, overwrite=True, max_length=24, stride=4))
    assert json.loads((folder / "prepared.json").read_text())["data"]["max_length"] == 24


def test_only_a_prepared_folder_is_overwritten(arguments, tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("a year's work")
    with pytest.raises(SystemExit, match=r"thesis holds other files than a prepared corpus .*name another"):
        main_finetune(arguments(output_dir=folder, overwrite=True))
    assert (folder / "chapter.txt").read_text() == "a year's work"


def test_the_number_of_documents_is_that_of_the_preparation(arguments, tmp_path):
    folder = tmp_path / "prepared"
    main_finetune(arguments(output_dir=folder, max_documents=2))
    run = {"prepared_dir": folder, "max_steps": 1}
    with pytest.raises(SystemExit, match="was prepared with max_documents=2, but 1 is set; leave max_documents out"):
        finetune(without_data(arguments(max_documents=1, output_dir=tmp_path / "other", **run)))
    finetune(without_data(arguments(**run)))
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["data"]["splits"]["train"]["documents"] == 2


def test_a_broken_run_leaves_what_was_there(arguments, tmp_path, monkeypatch):
    folder = tmp_path / "prepared"
    main_finetune(arguments(output_dir=folder, max_length=32, stride=4))
    before = sorted(path.name for path in folder.iterdir())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("broadsheet.training.prepared.write_json", stop)
    with pytest.raises(KeyboardInterrupt):
        main_finetune(arguments(output_dir=folder, overwrite=True, max_length=24, stride=4))
    assert sorted(path.name for path in folder.iterdir()) == before
    assert json.loads((folder / "prepared.json").read_text())["data"]["max_length"] == 32


def test_pages_for_pretraining(tmp_path, cache):
    pages = tmp_path / "pdfs"
    pages.mkdir()
    for number in range(6):
        lines = [Text(f"invoice number {number} total due", 72, 700 - 20 * row) for row in range(6)]
        make_pdf(pages / f"{number}.pdf", [lines[:3], lines[3:]])
    flags = [
        "--model_type", "skimformer", "--config_overrides", TINY, "--tokenizer_vocab_size", "120", "--use_cpu",
        "--max_steps", "2", "--bootstrap_samples", "0", "--save_strategy", "no", "--cache_dir", cache,
    ]  # fmt: skip
    corpus = ["--dataset", "pdf_folder", "--data_dir", str(pages), "--max_length", "24"]
    prepared = str(tmp_path / "prepared")
    main_pretrain([*flags, *corpus, "--output_dir", prepared])
    pretrain([*flags, *corpus, "--tokenizer_name", prepared, "--output_dir", str(tmp_path / "direct")])
    pretrain([*flags, "--prepared_dir", prepared, "--output_dir", str(tmp_path / "out")])
    direct, out = weights(tmp_path / "direct"), weights(tmp_path / "out")
    assert all((direct[name] == out[name]).all() for name in direct)
    results = [json.loads((tmp_path / run / "results.json").read_text()) for run in ("direct", "out")]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert results[0]["data"]["splits"] == results[1]["data"]["splits"]


def test_passwords_are_written_nowhere(tmp_path, cache):
    pages = tmp_path / "pdfs"
    pages.mkdir()
    for number in range(4):
        lines = [Text(f"invoice number {number} total due", 72, 700 - 20 * row) for row in range(6)]
        make_pdf(pages / f"{number}.pdf", [lines], password="8461973")
    flags = [
        "--model_type", "skimformer", "--config_overrides", TINY, "--tokenizer_vocab_size", "120", "--use_cpu",
        "--max_steps", "1", "--bootstrap_samples", "0", "--save_strategy", "no", "--cache_dir", cache,
        "--test_fraction", "0.25",
    ]  # fmt: skip
    corpus = ["--dataset", "pdf_folder", "--data_dir", str(pages)]
    secret = ["--dataset_options", "pdf_folder.password=8461973,on_error=skip"]
    prepared, direct, out = (str(tmp_path / name) for name in ("prepared", "direct", "out"))
    main_pretrain([*flags, *corpus, *secret, "--output_dir", prepared])
    pretrain([*flags, *corpus, *secret, "--output_dir", direct])
    # The same options are taken again, the password or none.
    pretrain([*flags, *secret, "--prepared_dir", prepared, "--output_dir", out])
    pretrain([*flags, "--dataset_options", "on_error=skip", "--prepared_dir", prepared, "--output_dir", f"{out}2"])
    for folder in (prepared, direct, out, f"{out}2"):
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        assert len(files) > 3
        assert [path for path in files if b"8461973" in path.read_bytes()] == []
        if folder != prepared:
            options = json.loads((Path(folder) / "results.json").read_text())["data"]["options"]
            assert options == {"on_error": "skip"}
