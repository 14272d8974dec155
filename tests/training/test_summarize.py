"""`broadsheet summarize`: from JSON lines to a model that writes, its summaries and their ROUGE."""

import json
import os
import re
import subprocess
import sys

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoProcessor

import broadsheet  # noqa: F401  (registers the models)
from broadsheet.cli import main as cli
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.training.arguments import parse
from broadsheet.training.summarize import main
from broadsheet.training.summary_arguments import (
    SummaryDataArguments,
    SummaryModelArguments,
    SummaryRunArguments,
    SummaryTrainingArguments,
)
from broadsheet.training.summary_callbacks import TimeLimit

SENTENCES = ["the total amount is due", "a model reads the page", "five boxes stand on the line", "nobody was paid"]
TINY = {
    "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2,
    "decoder_layers": 1, "max_source_length": 64, "encoder_lengths": [64, 16], "block_size": 16,
}  # fmt: skip


def write_corpus(folder):
    folder.mkdir()
    for split, count in (("train", 12), ("validation", 3), ("test", 3)):
        rows = [
            {
                "text": " ".join(SENTENCES[(row + place) % 4] for place in range(8)),
                "summary": SENTENCES[row % 4] + " .",
            }
            for row in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus")


def flags(corpus, output, *more):
    given = {
        "dataset": "text_summaries", "data_dir": corpus, "output_dir": output, "preset": "transpooler",
        "config_overrides": json.dumps(TINY), "tokenizer_kind": "bpe", "tokenizer_vocab_size": 300,
        "max_source_length": 64, "max_target_length": 16, "min_length": 2, "max_length": 9, "num_train_epochs": 2,
        "per_device_train_batch_size": 4, "warmup_steps": 2, "use_cpu": True, "bootstrap_samples": 20,
        "cache_dir": output.parent / "cache", "disable_tqdm": True,
    }  # fmt: skip
    return [text for name, value in given.items() for text in (f"--{name}", str(value))] + list(more)


def test_a_run(corpus, tmp_path, capsys):
    output = tmp_path / "out"
    main(flags(corpus, output))
    results = json.loads((output / "results.json").read_text())
    assert results["model_type"] == "pyramidion"
    assert results["preset"] == "transpooler"
    assert results["data"]["splits"]["train"]["documents"] == 12
    assert results["data"]["training_tokens"]["most"] <= 64
    test = results["metrics"]["test"]
    assert 0 <= test["rouge1"]["f1"] <= 1
    assert test["interval"]["rouge2"][0] <= test["rouge2"]["f1"] <= test["interval"]["rouge2"][1]
    assert test["settings"]["use_stemmer"] is True
    lines = [json.loads(line) for line in (output / "summaries-test.jsonl").read_text().splitlines()]
    assert [line["summary"] for line in lines] == [f"{SENTENCES[row]} ." for row in range(3)]
    assert all(isinstance(line["written"], str) for line in lines)
    model, processor = AutoModelForSeq2SeqLM.from_pretrained(output), AutoProcessor.from_pretrained(output)
    assert type(model) is PyramidionForConditionalGeneration
    batch = processor(text=SENTENCES[0], return_tensors="pt")
    assert len(processor.post_process_summaries(model.generate(**batch))) == 1
    assert "| test |" in (output / "README.md").read_text()
    assert not (output / "training_args.bin").exists()
    assert re.search(r"\| test \| \d", capsys.readouterr().out)


def test_from_a_checkpoint_validated_by_rouge(corpus, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    main(flags(corpus, first))
    more = ["--predict_with_generate", "true", "--evaluate_every", "2", "--early_stopping_patience", "3"]
    arguments = flags(corpus, second, "--model_name_or_path", str(first), *more)
    place = arguments.index("--config_overrides")
    main(arguments[:place] + arguments[place + 2 :])
    results = json.loads((second / "results.json").read_text())
    assert results["start"] == str(first)
    assert results["budget"]["model_step"] == results["budget"]["steps"] == 6
    state = json.loads(next(second.glob("checkpoint-*/trainer_state.json")).read_text())
    assert state["best_metric"] == pytest.approx(
        max(entry["eval_rouge1"] for entry in state["log_history"] if "eval_rouge1" in entry)
    )
    assert sum("eval_rouge1" in entry for entry in state["log_history"]) == 1


def test_time_limit(corpus, tmp_path):
    main(flags(corpus, tmp_path / "out", "--max_training_seconds", "1e-9", "--training_clock", "cpu"))
    budget = json.loads((tmp_path / "out" / "results.json").read_text())["budget"]
    assert budget["steps"] == 1
    assert budget["stopped_by_time"] is True
    assert TimeLimit(5).spent == 0


def test_time_limit_without_validation(corpus, tmp_path):
    (corpus / "validation.jsonl").unlink()
    main(flags(corpus, tmp_path / "out", "--max_training_seconds", "1e-9", "--validation_split", "none"))
    assert json.loads((tmp_path / "out" / "results.json").read_text())["budget"]["stopped_by_time"] is True


def test_time_before_a_checkpoint_counts(corpus, tmp_path):
    output = tmp_path / "out"
    early = ["--early_stopping_patience", "3", "--save_strategy", "epoch", "--evaluate_every", "1"]
    main(flags(corpus, output, "--max_training_seconds", "1e-9", *early))
    (checkpoint,) = output.glob("checkpoint-*")
    spent = json.loads((checkpoint / TimeLimit.file).read_text())["spent_s"]
    assert TimeLimit(5, checkpoint=str(checkpoint)).spent == spent > 1e-9
    (output / "results.json").unlink()
    main(flags(corpus, output, "--max_training_seconds", "1000", "--resume_from_checkpoint", "auto", *early))
    budget = json.loads((output / "results.json").read_text())["budget"]
    assert budget["steps"] == 6
    assert budget["stopped_by_time"] is False


@pytest.mark.slow
def test_two_processes_under_torchrun(corpus, tmp_path):
    """One vocabulary, and one summary for each of three documents, an uneven number; a limit of time stops both."""
    output = tmp_path / "out"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29521"]
    command += ["-m", "broadsheet.training.summarize"]
    more = ["--tokenizer_kind", "unigram", "--predict_with_generate", "True", "--max_training_seconds", "1000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *flags(corpus, output, *more)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len((output / "summaries-test.jsonl").read_text().splitlines()) == 3
    results = json.loads((output / "results.json").read_text())
    assert results["metrics"]["test"]["documents"] == 3


def test_label_smoothing(corpus, tmp_path):
    output = tmp_path / "out"
    main(flags(corpus, output, "--label_smoothing_factor", "0.1", "--predict_with_generate", "True"))
    assert json.loads((output / "results.json").read_text())["budget"]["training_loss"] > 0


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--config_overrides", "layers=3"], "has no setting 'layers'"),
        (["--config_overrides", "encoder_lengths=[7]"], "encoder_lengths"),
        (["--config_overrides", json.dumps({**TINY, "use_layout": True})], "the train documents of text_summaries"),
        (["--model_name_or_path", "nowhere"], "config_overrides are for a new model"),
        (["--evaluate_every", "0"], "evaluate_every=0"),
        (
            ["--early_stopping_patience", "2", "--eval_strategy", "no", "--load_best_model_at_end", "False"],
            "Early stopping needs validations",
        ),
        (["--num_beams", "0"], "num_beams=0 is too small; set it to 1 or more"),
        (["--min_length", "12"], "min_length=12 is above max_length=9; change one of them"),
        (["--num_beams", "1", "--length_penalty", "2"], "length_penalty=2.0 is for beams; set num_beams to 2"),
        (["--tokenizer_name", "no/such/folder/here"], "There is no tokenizer in no/such/folder/here"),
    ],
)
def test_bad_arguments(corpus, tmp_path, more, sentence):
    with pytest.raises(SystemExit, match=f"^Error: .*{re.escape(sentence)}"):
        main(flags(corpus, tmp_path / "out", *more))


def test_without_the_package_of_rouge(corpus, tmp_path, monkeypatch):
    """Told before anything is read or written, not after the training."""
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(SystemExit, match=r"rouge-score, which is not installed; run pip install 'broadsheet\[summari"):
        main(flags(corpus, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_corpus_without_summaries(tmp_path):
    record = {"words": ["a"], "boxes": [[0, 0, 1, 1]], "page_sizes": [[9, 9]], "entities": []}
    (tmp_path / "train.jsonl").write_text((json.dumps(record) + "\n") * 3)
    with pytest.raises(SystemExit, match="has no summaries; choose a corpus of summaries"):
        main(["--dataset", "json_entities", "--data_dir", str(tmp_path), "--output_dir", str(tmp_path / "out")])


def test_recipe_is_the_papers(tmp_path):
    kinds = [SummaryRunArguments, SummaryDataArguments, SummaryModelArguments, SummaryTrainingArguments]
    run, data, model, training = parse(kinds, ["pubmed_deep_pyramidion", "--output_dir", str(tmp_path)], "x", "x")
    assert (run.evaluate_every, run.early_stopping_patience, run.num_beams, run.min_length, run.max_length) == (
        3, 7, 2, 72, 966,
    )  # fmt: skip
    assert (model.preset, model.tokenizer_vocab_size, data.max_source_length) == ("deep_pyramidion", 32000, 8192)
    assert (training.learning_rate, training.warmup_steps, training.weight_decay) == (5e-4, 5000, 0.1)
    assert 8 * training.per_device_train_batch_size * training.gradient_accumulation_steps == 256


def test_command_line_teaches(capsys):
    with pytest.raises(SystemExit):
        cli(["summarize", "--help"])
    shown = capsys.readouterr().out
    assert "--preset" in shown
    assert "deep_pyramidion_early" in shown
