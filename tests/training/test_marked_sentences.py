"""The made task: its documents, and a run from the command line."""

import json

import torch

from broadsheet.training.marked_sentences import BLOCK, MARKED, SENTENCE, WORDS, main, make_batch, make_model


def test_documents():
    documents, summaries = make_batch(50, 256, torch.Generator().manual_seed(0))
    assert documents.shape == (50, 256)
    assert summaries.shape == (50, MARKED * SENTENCE + 1)
    bold = documents >= 3 + WORDS
    assert (bold.sum(1) == MARKED * SENTENCE).all()
    for document, summary, marks in zip(documents, summaries, bold, strict=True):
        assert torch.equal(document[marks] - WORDS, summary[:-1])
        places = marks.view(-1, SENTENCE).all(1).nonzero().flatten()
        assert len(places) == MARKED
        assert torch.bucketize(places, torch.tensor([21, 42]), right=True).tolist() == [0, 1, 2]
    assert (summaries[:, -1] == 2).all()


def test_models():
    model = make_model("successive_halving", "linear", 256, 0)
    documents, _ = make_batch(2, 256, torch.Generator().manual_seed(0))
    assert model.get_encoder()(documents).last_hidden_state.shape == (2, 16, 64)
    assert model.config.block_size == BLOCK
    assert make_model("none", None, 256, 0).get_encoder()(documents).last_hidden_state.shape == (2, 256, 64)


def test_a_run(tmp_path, capsys):
    flags = [
        "--operator",
        "hard",
        "--scorer",
        "linear",
        "--length",
        "64",
        "--steps",
        "10",
        "--batch_size",
        "4",
        "--test_documents",
        "8",
    ]
    main([*flags, "--output_dir", str(tmp_path)])
    results = json.loads((tmp_path / "results.json").read_text())
    assert 0 <= results["metrics"]["test"]["words"] <= 100
    assert [step for step, _ in results["curve"]] == list(range(1, 11))
    assert results["data"]["left after pooling"] == 4
    assert "whole summaries" in capsys.readouterr().out
