"""Scores of values beside those of entities, where the corpus has values."""

import json

import numpy as np
import pytest
from tests.dataset_scripts.test_kleister import corpus as agreements  # noqa: F401
from tests.dataset_scripts.test_sroie import corpus as receipts  # noqa: F401
from tests.tokenizers import tiny_tokenizer

from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.processing_lambert import LambertProcessor
from broadsheet.training.evaluate import main as evaluate
from broadsheet.training.finetune import main
from broadsheet.training.tasks import TokenClassification, metric_table

OPTIONS = {"box_level": "word", "max_length": 64, "stride": 8, "clip_boxes": False, "num_proc": None}


def test_predictions_that_are_the_labels(receipts, cache):  # noqa: F811
    documents = load_dataset("sroie", receipts, split="train", cache_dir=cache)
    task = TokenClassification()
    id2label = dict(enumerate(task.labels(documents)))
    processor = LambertProcessor(tiny_tokenizer(), id2label=id2label)
    windows = task.encode(documents, processor, id2label, OPTIONS)
    logits = np.full((len(windows), 64, len(id2label)), -9.0)
    for row, labels in enumerate(windows["labels"]):
        for column, label in enumerate(labels):
            logits[row, column, max(label, 0)] = 9.0
    metrics = task.measure(logits, windows, documents, processor, id2label, 0, 0)
    assert metrics["f1"] == 1.0
    # The company is misread in the lines ("BND"), the address has other spaces, the total is "RM9.00" there and "9.00"
    # in the answers: exact match finds none of them.
    right = {name: row["f1"] for name, row in metrics["values"]["types"].items()}
    assert right == {"company": 0.0, "date": 1.0, "address": 0.0, "total": 0.0}
    assert metric_table({**metrics, "interval": None}).split("\n")[-1].split() == ["values", "25.00", "25.00", "25.00"]


@pytest.mark.slow
def test_finetune_and_evaluate(receipts, arguments, cache, tmp_path):  # noqa: F811
    flags = arguments(
        dataset="sroie", data_dir=receipts, test_split="train", validation_fraction=0, max_steps=2, max_length=64,
        stride=8,
    )  # fmt: skip
    main(flags)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results["metrics"]["test"]["values"]["types"]) == {"company", "date", "address", "total"}
    file = tmp_path / "evaluation.json"
    evaluate(
        ["--model_name_or_path", str(tmp_path / "out"), "--dataset", "sroie", "--data_dir", str(receipts)]
        + ["--split", "train", "--cache_dir", cache, "--bootstrap_samples", "0", "--use_cpu", "--json", str(file)]
    )
    measured = json.loads(file.read_text())["metrics"]["values"]
    assert measured["f1"] == results["metrics"]["test"]["values"]["f1"]


def test_a_split_without_labels(agreements, arguments, cache, tmp_path, caplog):  # noqa: F811
    flags = {"dataset": "kleister_nda", "data_dir": agreements, "max_steps": 1, "max_length": 64, "stride": 8}
    main(arguments(validation_fraction=0, **flags))
    assert "Split 'test' of dataset 'kleister_nda' comes without labels and is left out" in caplog.text
    assert "set --dataset_options held_out=0.2 --test_split held_out." in caplog.text
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results["data"]["splits"]) == {"train"}
    assert results["metrics"] == {}
    measuring = ["--model_name_or_path", str(tmp_path / "out"), "--dataset", "kleister_nda", "--use_cpu"]
    measuring += ["--data_dir", str(agreements), "--cache_dir", cache, "--bootstrap_samples", "0"]
    with pytest.raises(
        SystemExit, match="Error: Split 'test' of dataset 'kleister_nda' comes without labels; measure"
    ):
        evaluate(measuring)
    with pytest.raises(SystemExit, match="Split 'test' of .* comes without labels; set --train_split to one that has"):
        main(arguments(output_dir=tmp_path / "no", train_split="test", **flags))
    # The remedies work, and a share held out takes the place of the split without labels.
    options = {"dataset_options": "held_out=0.5", "test_split": "held_out", "validation_fraction": 0}
    main(arguments(output_dir=tmp_path / "held", **flags, **options))
    assert "test" in json.loads((tmp_path / "held" / "results.json").read_text())["metrics"]
    measuring[1] = str(tmp_path / "held")
    evaluate([*measuring, "--dataset_options", "held_out=0.5", "--split", "held_out"])
    main(arguments(output_dir=tmp_path / "share", validation_fraction=0, test_fraction=0.5, **flags))
    assert "test" in json.loads((tmp_path / "share" / "results.json").read_text())["metrics"]
