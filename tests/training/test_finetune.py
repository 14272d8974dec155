import json
import logging
import os
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from tests.training.conftest import TINY
from transformers import AutoConfig, AutoModelForTokenClassification, AutoProcessor

import broadsheet.training.finetune as module
from broadsheet.dataset_scripts import load_dataset
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.training.evaluate import main as evaluate
from broadsheet.training.finetune import main
from broadsheet.training.runs import last_checkpoint


def weights(folder):
    return load_file(os.path.join(folder, "model.safetensors"))


def assert_equal_weights(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], **(tolerance or {"rtol": 0, "atol": 0}), msg=name)


@pytest.fixture
def trained(arguments, tmp_path):
    """A run that learns the made-up forms, which are easy."""
    main(arguments(max_steps=60, learning_rate=1e-2, box_level="segment", output_dir=tmp_path / "trained"))
    return tmp_path / "trained"


def test_run_leaves_a_model_that_loads_and_a_record(trained, funsd, cache, capsys):
    results = json.loads((trained / "results.json").read_text())
    test = results["metrics"]["test"]
    assert test["f1"] > 0.8
    assert test["support"] == 3 * 7
    assert test["interval"]["samples"] == 20
    assert results["data"]["splits"]["train"]["documents"] == 7
    assert results["data"]["splits"]["validation"]["documents"] == 1
    assert results["data"]["box_level"] == "segment"
    assert results["budget"]["steps"] == 60
    assert results["seeds"]["training"] == 42
    assert results["environment"]["torch"] == torch.__version__
    card = (trained / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers")
    assert f"| test | {100 * test['precision']:.2f} |" in card
    assert not (trained / "training_args.bin").exists()

    model = AutoModelForTokenClassification.from_pretrained(trained)
    processor = AutoProcessor.from_pretrained(trained)
    assert model.config.id2label == processor.id2label
    assert list(model.config.id2label.values()) == results["labels"]
    row = load_dataset("funsd", data_dir=funsd, split="test", cache_dir=cache)[0]
    batch = processor(documents=row, return_tensors="pt", return_word_ids=True)
    with torch.no_grad():
        outputs = model.eval()(**batch.model_inputs)
    (result,) = processor.post_process_token_classification(outputs, batch, row)
    assert len(result.labels) == len(row["words"])


def test_evaluate_gives_the_numbers_of_the_run(trained, funsd, cache, tmp_path, capsys):
    capsys.readouterr()
    flags = ["--model_name_or_path", str(trained), "--dataset", "funsd", "--data_dir", str(funsd)]
    flags += ["--cache_dir", cache, "--bootstrap_samples", "20", "--seed", "42", "--use_cpu"]
    evaluate([*flags, "--json", str(tmp_path / "e.json")])
    printed = capsys.readouterr().out
    measured = json.loads((tmp_path / "e.json").read_text())
    results = json.loads((trained / "results.json").read_text())
    assert measured["metrics"] == results["metrics"]["test"]
    # The box level is the one of the training.
    assert measured["data"]["box_level"] == "segment"
    assert "all (micro)" in printed
    assert f"{100 * measured['metrics']['f1']:.2f}" in printed


def test_evaluate_goes_by_the_scheme_of_the_training(arguments, funsd, cache, tmp_path, monkeypatch):
    main(arguments(scheme="IOBES", max_steps=1))
    flags = ["--model_name_or_path", str(tmp_path / "out"), "--dataset", "funsd", "--data_dir", str(funsd)]
    flags += ["--cache_dir", cache, "--bootstrap_samples", "20", "--seed", "42", "--use_cpu"]
    evaluate([*flags, "--json", str(tmp_path / "e.json")])
    measured = json.loads((tmp_path / "e.json").read_text())
    assert measured["data"]["scheme"] == "IOBES"
    assert measured["metrics"] == json.loads((tmp_path / "out" / "results.json").read_text())["metrics"]["test"]
    monkeypatch.setattr("broadsheet.training.evaluate.Trainer", None)
    with pytest.raises(
        SystemExit, match="label 'E-.*' does not follow the tagging scheme IOB2; set --scheme .* IOBES"
    ):
        evaluate([*flags, "--scheme", "IOB2"])
    with pytest.raises(SystemExit, match="There is no tagging scheme 'IOB'; set --scheme to plain, IOB1"):
        main(arguments(output_dir=tmp_path / "no", scheme="IOB"))


def test_overlapping_windows_count_nothing_twice(trained, funsd, cache, tmp_path):
    supports = set()
    for length, stride in ((512, 64), (12, 0), (12, 6)):
        flags = ["--model_name_or_path", str(trained), "--dataset", "funsd", "--data_dir", str(funsd)]
        flags += ["--cache_dir", cache, "--max_length", str(length), "--stride", str(stride), "--use_cpu"]
        evaluate([*flags, "--json", str(tmp_path / "e.json")])
        supports.add(json.loads((tmp_path / "e.json").read_text())["metrics"]["support"])
    assert supports == {3 * 7}


def test_resumed_run_equals_an_uninterrupted_one(arguments, tmp_path):
    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "save_total_limit": 5, "logging_steps": 1}
    main(arguments(output_dir=tmp_path / "whole", **settings))
    checkpoint = tmp_path / "whole" / "checkpoint-3"
    main(arguments(output_dir=tmp_path / "resumed", resume_from_checkpoint=checkpoint, **settings))
    assert_equal_weights(weights(tmp_path / "whole"), weights(tmp_path / "resumed"))
    # The resumed run did train.
    assert not torch.equal(
        weights(checkpoint)["classifier.weight"], weights(tmp_path / "resumed")["classifier.weight"]
    )


def test_interrupt_leaves_a_checkpoint_to_continue_from(arguments, tmp_path, monkeypatch, capsys):
    settings = {"max_steps": 6, "save_strategy": "epoch"}
    # A process started in the background may ignore the signal.
    before = signal.getsignal(signal.SIGINT)
    main(arguments(output_dir=tmp_path / "whole", **settings))

    class Interrupting(LayoutDataCollator):
        batches = 0

        def __call__(self, features):
            Interrupting.batches += 1
            if Interrupting.batches == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return super().__call__(features)

    monkeypatch.setattr(module, "LayoutDataCollator", Interrupting)
    with pytest.raises(SystemExit) as stopped:
        main(arguments(**settings))
    monkeypatch.undo()
    assert stopped.value.code == 130
    printed = capsys.readouterr().out
    (name,) = [name for name in os.listdir(tmp_path / "out") if name.startswith("checkpoint-")]
    assert int(name.rsplit("-", 1)[1]) < 4
    assert (
        f"{tmp_path / 'out' / name}; to continue, give the same command with --resume_from_checkpoint auto" in printed
    )
    assert signal.getsignal(signal.SIGINT) is before
    AutoModelForTokenClassification.from_pretrained(tmp_path / "out" / name)
    assert AutoProcessor.from_pretrained(tmp_path / "out" / name).id2label[1] == "B-HEADER"
    main(arguments(resume_from_checkpoint="auto", **settings))
    assert_equal_weights(weights(tmp_path / "whole"), weights(tmp_path / "out"))


def test_auto_takes_the_last_complete_checkpoint(arguments, tmp_path, caplog):
    out = tmp_path / "out"
    with caplog.at_level(logging.INFO):
        main(arguments(resume_from_checkpoint="auto", save_strategy="steps", save_steps=2))
    assert "No checkpoint yet" in caplog.text
    (out / "checkpoint-4" / "trainer_state.json").write_text('{"epoch": 1.')
    (out / "checkpoint-9").mkdir()
    with caplog.at_level(logging.INFO):
        main(arguments(resume_from_checkpoint="auto"))
    assert f"Continuing from {out / 'checkpoint-2'}." in caplog.text


def test_accumulated_gradients_equal_a_large_batch(arguments, tmp_path):
    dropout = TINY + ",hidden_dropout_prob=0.0,attention_probs_dropout_prob=0.0"
    settings = {"config_overrides": dropout, "max_steps": 2, "optim": "sgd", "learning_rate": 0.1}
    main(arguments(output_dir=tmp_path / "a", per_device_train_batch_size=4, **settings))
    main(
        arguments(output_dir=tmp_path / "b", gradient_accumulation_steps=4, per_device_train_batch_size=1, **settings)
    )
    assert_equal_weights(weights(tmp_path / "a"), weights(tmp_path / "b"), rtol=1e-4, atol=1e-6)


def test_best_checkpoint_and_early_stopping(arguments, tmp_path):
    settings = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    settings |= {"load_best_model_at_end": True, "validation_fraction": 0.3, "save_total_limit": 1}
    epochs = {"eval_strategy": "epoch"}
    # A rate of zero: nothing ever gets better than at the first measurement.
    main(arguments(max_steps=9, learning_rate=0.0, early_stopping_patience=2, **settings))
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["budget"]["steps"] in (2, 3)
    assert results["budget"]["model_step"] == 1
    with pytest.raises(SystemExit, match="Early stopping needs validation data"):
        main(arguments(output_dir=tmp_path / "b", early_stopping_patience=2, validation_fraction=0, **epochs))
    with pytest.raises(SystemExit, match="Early stopping needs evaluations; set eval_strategy"):
        main(arguments(output_dir=tmp_path / "b", early_stopping_patience=2))


@pytest.mark.parametrize(("given", "used"), [(None, "eval_f1"), ("loss", "eval_loss"), ("recall", "eval_recall")])
def test_the_best_checkpoint_goes_by_the_metric_that_was_set(arguments, tmp_path, given, used):
    settings = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    main(arguments(load_best_model_at_end=True, metric_for_best_model=given, **settings))
    state = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())
    measured = [entry[used] for entry in state["log_history"] if used in entry]
    assert state["best_metric"] == (min if given == "loss" else max)(measured)


def test_from_a_checkpoint_and_with_a_new_head(trained, arguments, tmp_path, capsys):
    start = {"model_name_or_path": trained, "model_type": None, "config_overrides": None, "max_steps": 1}
    main(arguments(output_dir=tmp_path / "more", learning_rate=0.0, box_level="segment", **start))
    assert_equal_weights(weights(trained), weights(tmp_path / "more"))
    other = AutoModelForTokenClassification.from_pretrained(trained, num_labels=3, ignore_mismatched_sizes=True)
    other.save_pretrained(tmp_path / "other")
    AutoProcessor.from_pretrained(trained).save_pretrained(tmp_path / "other")
    start["model_name_or_path"] = tmp_path / "other"
    with pytest.raises(SystemExit, match="was trained for the labels .*LABEL_0.* set --new_head"):
        main(arguments(output_dir=tmp_path / "x", **start))
    main(arguments(output_dir=tmp_path / "y", new_head=True, **start))
    assert weights(tmp_path / "y")["classifier.weight"].shape[0] == 7
    # As many labels as the data, of other names: the old head would fit, and is not kept.
    known = AutoConfig.from_pretrained(trained).id2label
    renamed = AutoModelForTokenClassification.from_pretrained(
        trained, id2label={number: f"other {name}" for number, name in known.items()}
    )
    start["model_name_or_path"] = tmp_path / "renamed"
    renamed.save_pretrained(tmp_path / "renamed")
    AutoProcessor.from_pretrained(trained).save_pretrained(tmp_path / "renamed")
    main(arguments(output_dir=tmp_path / "z", new_head=True, learning_rate=0.0, **start))
    before, after = weights(tmp_path / "renamed"), weights(tmp_path / "z")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"classifier.weight", "classifier.bias"}


def test_output_folder(arguments, tmp_path):
    main(arguments(max_steps=1, save_strategy="steps", save_steps=1))
    with pytest.raises(SystemExit, match="not empty; set --resume_from_checkpoint auto .*--overwrite"):
        main(arguments(max_steps=1))
    main(arguments(max_steps=1, overwrite=True))
    assert not (tmp_path / "out" / "checkpoint-1").exists()
    with pytest.raises(SystemExit, match="is no complete checkpoint"):
        main(arguments(resume_from_checkpoint=tmp_path / "out"))
    with pytest.raises(SystemExit, match="no output_dir"):
        main(arguments(output_dir=None))


def test_label_smoothing_is_refused_where_it_has_no_effect(arguments, tmp_path):
    for changes, message in (
        ({"class_weights": "train"}, "no effect with class_weights; leave one of them out"),
        ({"task": "question_answering"}, "no effect on question_answering; leave it out"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(arguments(label_smoothing_factor=0.1, **changes))
    assert not (tmp_path / "out").exists()


def test_models_that_do_not_fit(arguments, tmp_path):
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text('{"model_type": "gpt2"}')
    for changes, message in (
        ({"model_type": None}, "There is no model; set --model_name_or_path"),
        ({"model_type": "skimmer"}, "no model type 'skimmer'; .* skimformer"),
        ({"model_name_or_path": tmp_path / "gpt2", "model_type": None}, "is a gpt2 model; .* skimformer"),
        ({"model_name_or_path": tmp_path / "nowhere"}, "nowhere holds no configuration"),
        ({"config_overrides": "hidden=4"}, "The configuration of skimformer has no setting 'hidden'"),
        ({"config_overrides": "hidden_size=30,num_attention_heads=4"}, "hidden_size=30 is no multiple"),
        ({"tokenizer_name": tmp_path / "nowhere"}, "no tokenizer in .*nowhere"),
        ({"task": "sequence_classification"}, "The dataset has no document classes"),
        ({"data_dir": None}, "needs data_dir"),
    ):
        arguments_of_run = arguments(**{"output_dir": tmp_path / "x", "overwrite": True, **changes})
        with pytest.raises(SystemExit, match=message):
            main(arguments_of_run)


@pytest.mark.slow
def test_as_a_module_under_sigint(arguments, tmp_path):
    flags = arguments(max_steps=100000, logging_strategy="steps", logging_steps=1)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "broadsheet.training.finetune", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "'loss'" in line and not any("Stopping" in earlier for earlier in lines):
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130, "".join(lines) + rest
    assert "Traceback" not in rest
    assert "--resume_from_checkpoint auto" in rest
    assert any(name.startswith("checkpoint-") for name in os.listdir(tmp_path / "out"))


@pytest.mark.slow
def test_launcher_under_sigint(arguments, tmp_path):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    flags = arguments(max_steps=100000, logging_strategy="steps", logging_steps=1)
    command = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29518"]
    process = subprocess.Popen(
        [sys.executable, *command, "-m", "broadsheet.training.finetune", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True,
    )  # fmt: skip
    for line in process.stdout:
        if "'loss'" in line:
            # As a terminal does: to the launcher and to its workers.
            os.killpg(process.pid, signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=120)
    assert rest.count("--resume_from_checkpoint auto") == 1, rest
    checkpoint = last_checkpoint(str(tmp_path / "out"))
    AutoModelForTokenClassification.from_pretrained(checkpoint)
    assert os.path.isfile(os.path.join(checkpoint, "rng_state_1.pth"))


@pytest.mark.slow
def test_two_processes_under_torchrun(arguments, tmp_path):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29517"]
    settings = {"config_overrides": TINY + ",hidden_dropout_prob=0.0,attention_probs_dropout_prob=0.0"}
    settings |= {"max_steps": 2, "optim": "sgd", "learning_rate": 0.1, "validation_fraction": 0}
    two = arguments(output_dir=tmp_path / "two", per_device_train_batch_size=2, **settings)
    module_flags = ["-m", "broadsheet.training.finetune"]
    subprocess.run([*command, *module_flags, *two], check=True, env=environment, capture_output=True, timeout=300)
    main(arguments(output_dir=tmp_path / "one", per_device_train_batch_size=4, **settings))
    assert_equal_weights(weights(tmp_path / "one"), weights(tmp_path / "two"), rtol=1e-3, atol=1e-5)
    one, two = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two"))
    assert one["metrics"]["test"]["f1"] == pytest.approx(two["metrics"]["test"]["f1"], abs=0.2)
    assert one["metrics"]["test"]["support"] == two["metrics"]["test"]["support"]
