import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.pdfs import Text, make_pdf
from transformers import AutoModelForMaskedLM, AutoModelForTokenClassification, AutoProcessor

import broadsheet.training.pretrain as module
from broadsheet.tokenization.masking import MaskedLMCollator
from broadsheet.training.finetune import main as finetune
from broadsheet.training.pretrain import main

CARDS = Path(__file__).resolve().parents[2] / "model_cards"
SIZES = "hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=32"
SKIM = SIZES + ",hidden_layout_size=16,skim_attention_head_size=8"
NO_DROPOUT = ",hidden_dropout_prob=0.0,attention_probs_dropout_prob=0.0"


@pytest.fixture(scope="module")
def pdfs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pdfs")
    words = ["invoice", "number", "total", "amount", "due", "agreement", "between", "lender", "page", "date", "name"]
    for number in range(10):
        draw = np.random.default_rng(number)
        lines = [Text(" ".join(draw.choice(words, 6)), 72, 700 - 20 * row) for row in range(8)]
        make_pdf(folder / f"{number}.pdf", [lines[:4], lines[4:]])
    return folder


@pytest.fixture
def arguments(pdfs, cache, tmp_path):
    """Flags of a run of seconds; keyword arguments replace or add some, None removes."""

    def make(**changes):
        flags = {
            "dataset": "pdf_folder",
            "data_dir": pdfs,
            "cache_dir": cache,
            "output_dir": tmp_path / "out",
            "model_type": "skimformer",
            "config_overrides": SKIM,
            "tokenizer_vocab_size": 120,
            "max_length": 32,
            "max_steps": 4,
            "per_device_train_batch_size": 2,
            "learning_rate": 1e-3,
            "warmup_steps": 1,
            "eval_steps": 2,
            "save_strategy": "no",
            "use_cpu": True,
            "disable_tqdm": True,
            "bootstrap_samples": 20,
            **changes,
        }
        return [part for name, value in flags.items() if value is not None for part in (f"--{name}", str(value))]

    return make


def weights(folder):
    return load_file(os.path.join(folder, "model.safetensors"))


def results(folder):
    return json.loads((folder / "results.json").read_text())


def assert_equal_weights(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], **(tolerance or {"rtol": 0, "atol": 0}), msg=name)


def test_run_leaves_a_model_that_loads_and_a_record(arguments, tmp_path, capsys):
    main(arguments(max_steps=60, learning_rate=1e-2, eval_steps=30))
    record = results(tmp_path / "out")
    test = record["metrics"]["test"]
    assert test["perplexity"] == pytest.approx(np.exp(test["loss"]))
    # Of some sixty tokens that occur; much better than the vocabulary of 120 by chance.
    assert test["perplexity"] < 60
    assert test["interval"] is None
    assert record["curve"][-1] == [60, pytest.approx(record["metrics"]["validation"]["perplexity"])]
    assert [step for step, _ in record["curve"]] == [30, 60]
    assert {name: part["documents"] for name, part in record["data"]["splits"].items()} == {
        "train": 8,
        "validation": 1,
        "test": 1,
    }
    assert record["data"]["splits"]["test"]["texts"] == 2
    assert record["config"]["skim_attention_head_size"] == 8
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers")
    assert f"| test | {test['perplexity']:.2f} |" in card
    assert f"test: perplexity {test['perplexity']:.2f}" in capsys.readouterr().out
    AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert AutoProcessor.from_pretrained(tmp_path / "out").id2label is None


@pytest.mark.parametrize(
    "model_type",
    [
        "layoutlm",
        "long_skimformer",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "roberta", "longformer", "big_bird")),
    ],
)
def test_other_models_by_the_same_command(model_type, arguments, tmp_path):
    sizes = {"longformer": SIZES + ",attention_window=8", "long_skimformer": SKIM + ",attention_window=8"}
    main(arguments(model_type=model_type, config_overrides=sizes.get(model_type, SIZES), max_steps=2))
    record = results(tmp_path / "out")
    assert record["model_type"] == model_type
    assert np.isfinite(record["metrics"]["test"]["perplexity"])
    # Windows of 32 tokens are too short for BigBird's blocks of 64.
    assert bool(record["remarks"]) == (model_type == "big_bird")
    card = (tmp_path / "out" / "README.md").read_text()
    assert ("TextProcessor" in card) == (model_type in ("bert", "roberta", "longformer", "big_bird"))
    assert all(sentence in card for sentence in record["remarks"])
    # The saved baseline can be continued from, its processor too.
    start = {"model_name_or_path": tmp_path / "out", "model_type": None, "config_overrides": None}
    main(arguments(output_dir=tmp_path / "more", max_steps=1, learning_rate=0.0, **start))
    assert results(tmp_path / "more")["metrics"]["test"]["loss"] == pytest.approx(
        record["metrics"]["test"]["loss"], rel=1e-4 if model_type != "big_bird" else 1e-2
    )


def test_every_model_and_every_evaluation_has_the_same_masks(arguments, tmp_path, monkeypatch):
    seen = []
    original = MaskedLMCollator.mask

    def spy(self, feature):
        masked = original(self, feature)
        seen.append((self.seed, self.epoch, masked["input_ids"].tolist(), masked["labels"].tolist()))
        return masked

    monkeypatch.setattr(MaskedLMCollator, "mask", spy)
    rounds = []
    for model_type, sizes, batch in (("skimformer", SKIM, 2), ("bert", SIZES, 3)):
        seen.clear()
        flags = {"seed": 7, "mask_seed": 11, "max_steps": 20, "eval_steps": 10, "per_device_eval_batch_size": batch}
        main(arguments(model_type=model_type, config_overrides=sizes, output_dir=tmp_path / model_type, **flags))
        rounds.append([entry for entry in seen if entry[0] == 11])
        training = [entry for entry in seen if entry[0] == 7]
        # Each pass over the data draws anew: 16 windows of 8 documents in 8 steps.
        assert {entry[1] for entry in training} >= {1, 2, 3}
        first = {tuple(entry[2]): tuple(entry[3]) for entry in training if entry[1] == 1}
        second = {tuple(entry[2]): tuple(entry[3]) for entry in training if entry[1] == 2}
        assert not first.items() & second.items()
    assert rounds[0] == rounds[1]
    # Two windows each of validation, at every evaluation, and of the test.
    assert len({json.dumps(entry) for entry in rounds[0]}) == 4 < len(rounds[0])
    assert {entry[1] for entry in rounds[0]} == {0}


def test_resumed_run_equals_an_uninterrupted_one(arguments, tmp_path):
    settings = {"max_steps": 14, "save_strategy": "steps", "save_steps": 5, "save_total_limit": 5, "eval_steps": 4}
    main(arguments(output_dir=tmp_path / "whole", **settings))
    # In the middle of a pass over the data.
    checkpoint = tmp_path / "whole" / "checkpoint-5"
    main(arguments(output_dir=tmp_path / "resumed", resume_from_checkpoint=checkpoint, **settings))
    assert_equal_weights(weights(tmp_path / "whole"), weights(tmp_path / "resumed"))
    whole, resumed = results(tmp_path / "whole"), results(tmp_path / "resumed")
    assert whole["curve"] == resumed["curve"]
    assert [step for step, _ in whole["curve"]] == [4, 8, 12, 14]
    assert whole["metrics"] == resumed["metrics"]


def test_interrupt_leaves_a_checkpoint_to_continue_from(arguments, tmp_path, monkeypatch, capsys):
    settings = {"max_steps": 6, "eval_strategy": "no"}
    main(arguments(output_dir=tmp_path / "whole", **settings))

    class Interrupting(MaskedLMCollator):
        batches = 0

        def __call__(self, features):
            Interrupting.batches += 1
            if Interrupting.batches == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return super().__call__(features)

    monkeypatch.setattr(module, "MaskedLMCollator", Interrupting)
    with pytest.raises(SystemExit) as stopped:
        main(arguments(**settings))
    monkeypatch.undo()
    assert stopped.value.code == 130
    (name,) = [name for name in os.listdir(tmp_path / "out") if name.startswith("checkpoint-")]
    assert "--resume_from_checkpoint auto" in capsys.readouterr().out
    AutoModelForMaskedLM.from_pretrained(tmp_path / "out" / name)
    assert not (tmp_path / "out" / "results.json").exists()
    main(arguments(resume_from_checkpoint="auto", **settings))
    assert_equal_weights(weights(tmp_path / "whole"), weights(tmp_path / "out"))


@pytest.mark.parametrize("model_type", ["skimformer", "bert"])
def test_accumulated_gradients_equal_a_large_batch(model_type, arguments, tmp_path):
    sizes = (SKIM if model_type == "skimformer" else SIZES) + NO_DROPOUT
    settings = {"config_overrides": sizes, "model_type": model_type, "max_steps": 3, "optim": "sgd"}
    settings |= {"learning_rate": 0.1}
    main(arguments(output_dir=tmp_path / "a", per_device_train_batch_size=4, **settings))
    main(
        arguments(output_dir=tmp_path / "b", per_device_train_batch_size=1, gradient_accumulation_steps=4, **settings)
    )
    assert_equal_weights(weights(tmp_path / "a"), weights(tmp_path / "b"), rtol=1e-4, atol=1e-6)


def test_whole_words_and_workers(arguments, tmp_path):
    main(arguments(output_dir=tmp_path / "a", whole_words=True))
    main(arguments(output_dir=tmp_path / "b", whole_words=True, dataloader_num_workers=2))
    assert_equal_weights(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert results(tmp_path / "a")["masking"]["whole_words"] is True


def test_fine_tuning_starts_from_it(arguments, funsd, cache, tmp_path):
    main(arguments(max_steps=2))
    flags = {"model_name_or_path": tmp_path / "out", "dataset": "funsd", "data_dir": funsd, "cache_dir": cache}
    flags |= {"output_dir": tmp_path / "tuned", "max_steps": 1, "learning_rate": 0.0, "eval_strategy": "no"}
    flags |= {"save_strategy": "no", "load_best_model_at_end": False, "use_cpu": True, "bootstrap_samples": 0}
    finetune([part for name, value in flags.items() for part in (f"--{name}", str(value))])
    before, after = weights(tmp_path / "out"), weights(tmp_path / "tuned")
    shared = [name for name in before if name.startswith("skimformer.")]
    assert shared
    assert all(torch.equal(before[name], after[name]) for name in shared)
    tuned = AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned")
    assert tuned.config.num_labels == len(tuned.config.id2label) == 7


def test_sentences(arguments, tmp_path):
    for changes, message in (
        ({"model_type": None}, "There is no model"),
        ({"model_type": "gpt2"}, "no model type 'gpt2'; choose one of skimformer.*bert"),
        ({"mask_probability": 1.5}, "mask_probability=1.5 is a share"),
        ({"dataloader_persistent_workers": True, "dataloader_num_workers": 1}, "Persistent workers"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor has no effect on masked language modelling"),
        ({"dataset": None}, "There is no corpus"),
        (
            {"config_overrides": SKIM, "model_type": "bert"},
            "configuration of bert has no setting 'hidden_layout_size'",
        ),
        ({"masks": 3}, "no setting --masks; did you mean --mask_seed"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(arguments(**{"overwrite": True, **changes}))


def test_recipes(arguments):
    from broadsheet.training.arguments import ModelArguments, parse
    from broadsheet.training.pretraining_arguments import CorpusArguments, PretrainingArguments, PretrainingSchedule

    kinds = [PretrainingArguments, CorpusArguments, ModelArguments, PretrainingSchedule]
    for recipe, steps, length, rate in (("small", 1000, 128, 1e-3), ("paper", 10000, 512, 1e-4)):
        run, data, _, schedule = parse(kinds, [f"skim_pretrain_{recipe}", "--output_dir", "x"], "pretrain", "")
        assert (schedule.max_steps, data.max_length, schedule.learning_rate) == (steps, length, rate)
        assert (run.mask_probability, schedule.warmup_steps, schedule.weight_decay) == (0.15, 100, 0.01)
        assert (schedule.per_device_train_batch_size, data.stride) == (8, 0)


@pytest.mark.slow
def test_two_processes_under_torchrun(arguments, tmp_path):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29519"]
    settings = {"config_overrides": SKIM + NO_DROPOUT, "max_steps": 3, "optim": "sgd", "learning_rate": 0.1}
    two = arguments(output_dir=tmp_path / "two", per_device_train_batch_size=2, **settings)
    subprocess.run(
        [*command, "-m", "broadsheet.training.pretrain", *two],
        check=True, env=environment, capture_output=True, timeout=300,
    )  # fmt: skip
    main(arguments(output_dir=tmp_path / "one", per_device_train_batch_size=4, **settings))
    # The same windows with the same masks, whichever process draws them.
    assert_equal_weights(weights(tmp_path / "one"), weights(tmp_path / "two"), rtol=1e-3, atol=1e-5)
    one, two = results(tmp_path / "one"), results(tmp_path / "two")
    assert one["metrics"]["test"]["tokens"] == two["metrics"]["test"]["tokens"]
    assert one["metrics"]["test"]["loss"] == pytest.approx(two["metrics"]["test"]["loss"], rel=1e-4)


@pytest.mark.parametrize("card", ["skimformer", "long_skimformer", "formnet"])
def test_the_commands_of_a_card_lead_from_pretraining_to_a_finetuned_model(card, pdfs, funsd, cache, tmp_path):
    text = (CARDS / f"{card}.md").read_text(encoding="utf-8").partition("## Recipe")[2]
    block = re.search(r"```bash\n(.+?)```", text, re.DOTALL)
    assert block is not None
    places = {"PDFS": pdfs, "FUNSD": funsd, "PRETRAINED": tmp_path / "pretrained", "OUT": tmp_path / "out"}
    small = ["--cache_dir", cache, "--max_steps", "1", "--max_length", "32", "--bootstrap_samples", "0", "--use_cpu"]
    small += ["--per_device_train_batch_size", "2", "--tokenizer_vocab_size", "120"]
    for command in block[1].replace("\\\n", " ").strip().splitlines():
        program, name, *flags = [str(places.get(part, part)) for part in shlex.split(command)]
        assert program == "broadsheet"
        more = ["--eval_steps", "1", "--test_fraction", "0.2"] if name == "pretrain" else ["--stride", "4"]
        {"pretrain": main, "finetune": finetune}[name]([*flags, *small, *more])
    before, after = (load_file(places[name] / "model.safetensors") for name in ("PRETRAINED", "OUT"))
    shared = before.keys() & after.keys()
    assert len(shared) > 10
    assert all(torch.allclose(before[name], after[name], atol=0.01) for name in shared)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["start"] == str(places["PRETRAINED"])
    own_card = (places["PRETRAINED"] / "README.md").read_text(encoding="utf-8")
    flags = f'--model_type {card} --model_name_or_path pretrained --config_overrides ""'
    assert f"`broadsheet finetune RECIPE {flags}`" in own_card
