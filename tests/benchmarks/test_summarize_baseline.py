"""The sparse baselines of Table 2 are trained and measured as Pyramidions are."""

import json

import pytest
from benchmarks.summarize_baseline import main
from tests.training.test_summarize import TINY, flags, write_corpus

FULL = {**TINY, "num_attention_heads": 4, "encoder_lengths": None}
CHOICES = {
    "lsh": ({**FULL, "block_size": None}, []),
    "efficient": ({**FULL, "block_size": None}, []),
    "funnel": (FULL, ["--stride", "4"]),
    "power": (FULL, ["--lengths", "32,16"]),
}


def given(folder, output, baseline, more=()):
    settings, options = CHOICES[baseline]
    preset = ["--preset", "blockwise", "--config_overrides", json.dumps(settings)]
    return [*flags(folder, output), *preset, "--baseline", baseline, *options, *more]


@pytest.mark.parametrize("baseline", CHOICES)
def test_a_run_and_a_second_from_its_model(baseline, tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    main(given(folder, tmp_path / "out", baseline, ["--max_steps", "2"]))
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["budget"]["steps"] == 2
    assert 0 <= results["metrics"]["test"]["rouge1"]["f1"] <= 1
    if baseline == "power":
        return  # which starts from a model that does not pool
    more = ["--model_name_or_path", str(tmp_path / "out"), "--config_overrides", "", "--max_steps", "1"]
    main(given(folder, tmp_path / "more", baseline, more))
    assert (tmp_path / "more" / "results.json").is_file()


def test_power_starts_from_a_blockwise(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    main(given(folder, tmp_path / "funnel", "funnel", ["--max_steps", "1"]))
    more = ["--model_name_or_path", str(tmp_path / "funnel"), "--config_overrides", "", "--max_steps", "1"]
    main(given(folder, tmp_path / "power", "power", more))
    assert json.loads((tmp_path / "power" / "config.json").read_text())["encoder_lengths"] == [32, 16]


def test_what_does_not_fit_is_said(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    for baseline, more in (
        ("lsh", ["--config_overrides", json.dumps(FULL)]),
        ("funnel", ["--config_overrides", json.dumps({**TINY, "encoder_lengths": [64, 16]})]),
        ("power", ["--lengths", "32,5"]),
        ("power", ["--lengths", "many"]),
    ):
        with pytest.raises(SystemExit, match=f"^Error: {baseline} does not fit this model: "):
            main(given(folder, tmp_path / "out", baseline, more))
