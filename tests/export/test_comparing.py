"""The comparison of a model with its graphs, on forms made on the spot."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.dataset_scripts.funsd_files import write_funsd
from tests.hub.models import save, tiny

from broadsheet.export import command
from broadsheet.export.comparing import comparison_table, run_in_turns, summary
from broadsheet.results.record import read_record
from broadsheet.tokenization.bioes import bioes_names
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.tasks import merged_predictions

FUNSD = ("O", "B-HEADER", "I-HEADER", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_comparison(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    write_funsd(tmp_path / "funsd", train=1, test=3)
    model, processor = tiny("skimformer", "ForTokenClassification")
    labels = dict(enumerate(bioes_names(list(FUNSD)) if scheme == "IOBES" else FUNSD))
    model = type(model)(type(model.config)(**{**model.config.to_dict(), "id2label": labels})).eval()
    model.save_pretrained(tmp_path / "model")
    processor.id2label = labels
    processor.save_pretrained(tmp_path / "model")
    data = {"max_length": 16, "stride": 4, "box_level": "word", "scheme": scheme}
    (tmp_path / "model" / "results.json").write_text(json.dumps({"start": "/a/machine/bert", "data": data}))
    monkeypatch.setattr("broadsheet.results.record.results_folder", lambda: tmp_path / "results")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "results").mkdir()
    decoded: set[bool] = set()

    def merged(*given: Any) -> Any:
        decoded.add(given[-1] is not None)
        return merged_predictions(*given)

    monkeypatch.setattr("broadsheet.export.comparing.merged_predictions", merged)
    arguments = [str(tmp_path / "model"), str(tmp_path / "out"), "--compare", "funsd"]
    arguments += ["--data_dir", str(tmp_path / "funsd"), "--repetitions", "1", "--record"]
    assert command.main(arguments) == 0
    assert "| ONNX | 100.00% |" in capsys.readouterr().out
    assert decoded == {scheme == "IOBES"}
    path = tmp_path / "results" / "onnx_funsd-small.json"
    record = read_record(path)
    assert str(tmp_path) not in path.read_text()
    assert "/a/machine" not in path.read_text()
    assert record.data["documents"] == 3
    assert record.data["max_length"] == 16
    assert record.data["scheme"] == scheme
    onnx = record.measurements["onnx"]
    assert onnx["same_labels"] == 1.0
    assert onnx["f1_difference"] == 0.0
    assert onnx["largest_logit_difference"] < 1e-4
    assert record.measurements["torch"]["page_cpu"]["over_torch"]["median"] == 1.0
    assert record.measurements["int8"]["page_wall"]["ms"]["median"] > 0


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    save("skimformer", "ForSequenceClassification", tmp_path / "model")
    arguments = [str(tmp_path / "model"), str(tmp_path / "out"), "--compare", "funsd"]
    with pytest.raises(InputError, match="set --data_dir"):
        command.main(arguments)
    with pytest.raises(InputError, match="does not label words"):
        command.main([*arguments, "--data_dir", str(tmp_path)])
    with pytest.raises(InputError, match="repetitions is 0"):
        command.main([*arguments, "--data_dir", str(tmp_path), "--repetitions", "0"])


def test_turns_go_round_and_the_first_does_not_count() -> None:
    calls: list[tuple[str, int]] = []

    def runtime(name: str) -> object:
        def run(input_ids: torch.Tensor) -> object:
            calls.append((name, len(input_ids)))
            return type("Output", (), {"logits": torch.full((len(input_ids), 2, 3), float(len(calls)))})

        return run

    pages = [{"input_ids": torch.zeros(1, 2)}, {"input_ids": torch.zeros(2, 2)}]
    logits, seconds = run_in_turns({"a": runtime("a"), "b": runtime("b")}, pages, 2)  # type: ignore[dict-item]
    assert calls == [(name, windows) for windows in (1, 2) for _ in range(3) for name in ("a", "b")]
    assert [len(page) for page in logits["b"]] == [1, 2]
    assert set(seconds) == {"wall", "cpu"}
    for times in seconds.values():
        assert all(len(values) == 2 and min(values) >= 0 for values in times.values())


def test_summary() -> None:
    assert summary([3.0, 1.0, 2.0]) == {"median": 2.0, "quartiles": [1.5, 2.5]}
    assert summary([4.0]) == {"median": 4.0, "quartiles": [4.0, 4.0]}


def test_table_says_which_f1() -> None:
    assert "entity F1" in comparison_table({}, 1, 9, 1, "IOBES").columns
    assert "macro F1 of words" in comparison_table({}, 1, 9, 1, "plain").columns
