import json
import random

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification

from broadsheet.dataset_scripts import load_dataset
from broadsheet.training.evaluate import main as evaluate
from broadsheet.training.finetune import main
from broadsheet.training.tasks import SequenceClassification

canvas = pytest.importorskip("reportlab.pdfgen.canvas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Letters and tables: two classes that differ in words and in layout, of one or two pages."""
    root = tmp_path_factory.mktemp("pdfs")
    source = random.Random(0)
    for index in range(16):
        kind = "letter" if index % 2 else "table"
        (root / kind).mkdir(exist_ok=True)
        page = canvas.Canvas(str(root / kind / f"{index}.pdf"), pagesize=(300, 400))
        for _ in range(1 + index % 3 // 2):
            for line in range(6):
                if kind == "letter":
                    page.drawString(20, 350 - 20 * line, "dear sir " + source.choice(["we write", "to you"]))
                else:
                    page.drawString(20 + 120 * (line % 2), 350 - 40 * (line // 2), str(source.randint(0, 999)))
            page.showPage()
        page.save()
    return root


def test_learns_classes_of_documents(folder, arguments, cache, tmp_path, capsys):
    out = tmp_path / "out"
    data = {"dataset": "pdf_folder", "data_dir": folder, "dataset_options": "labels_from_folders=true"}
    main(
        arguments(
            **data, task="sequence_classification", max_steps=40, learning_rate=1e-2, validation_fraction=0.25,
            eval_strategy="epoch", max_length=24, stride=4,
        )
    )  # fmt: skip
    results = json.loads((out / "results.json").read_text())
    validation = results["metrics"]["validation"]
    assert validation["accuracy"] == 1
    assert validation["support"] == validation["documents"] == 4
    assert results["data"]["splits"]["train"]["windows"] > results["data"]["splits"]["train"]["documents"]
    assert results["labels"] == ["letter", "table"]
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert model.config.id2label == {0: "letter", 1: "table"}
    capsys.readouterr()
    flags = [
        "--model_name_or_path", str(out), "--dataset", "pdf_folder", "--data_dir", str(folder), "--split", "train",
        "--dataset_options", "labels_from_folders=true", "--task", "sequence_classification", "--use_cpu",
    ]  # fmt: skip
    evaluate([*flags, "--cache_dir", cache])
    assert "letter" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="SkimformerForSequenceClassification, not a model for token classification"):
        evaluate([*flags, "--task", "token_classification"])


def test_windows_of_a_document_are_averaged(folder, cache):

    documents = load_dataset(
        "pdf_folder", data_dir=folder, split="train[:2]", labels_from_folders=True, cache_dir=cache
    )
    windows = documents.from_dict({"document": [0, 0, 0, 1]})
    # By the mean probability document 0 is a table, though two of its three windows lean towards letter.
    logits = np.array([[0.1, 0.0], [0.1, 0.0], [0.0, 9.0], [9.0, 0.0]])
    names = {0: "letter", 1: "table"}
    metrics = SequenceClassification().measure(logits, windows, documents, None, names, 0, 0)
    assert documents["label"][:] == [0, 0]
    assert metrics["accuracy"] == 0.5
    assert metrics["types"]["table"]["predicted"] == 1
