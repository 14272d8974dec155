"""What every encoder-decoder passes beside: generation, checkpoints, its processor, Auto classes, exporters."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.family.members.pyramidion import (
    GENERATION,
    HEADS,
    MODEL,
    SEQUENCE,
    VARIANTS,
    Case,
    heads,
    results,
    variants,
)
from tests.family.spec import assert_close
from tests.family.test_encoder_decoder import train
from tests.family.test_remote_code import READER, class_path
from tests.family.test_training import ROOT, free_port
from tests.family.test_with_processor import document
from tests.tokenizers import tiny_tokenizer
from transformers import (
    AutoConfig,
    AutoModel,
    AutoProcessor,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from broadsheet.registration import MODELS
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor
from broadsheet.training.runs import leave_process_group


def written(model: Any, batch: dict[str, torch.Tensor], **kwargs: Any) -> list[list[int]]:
    options = {"max_new_tokens": 9, "min_new_tokens": 5, "do_sample": False, **kwargs}
    return model.generate(**batch, **options).tolist()


@variants()
def test_greedy_is_the_argmax_of_the_forward_pass(case: Case) -> None:
    model, batch = case.model(torch.float32), case.batch(labels=False)
    rows = torch.tensor(written(model, batch, min_new_tokens=9))
    logits = model(**batch, decoder_input_ids=rows[:, :-1]).logits
    logits[..., 2] = -torch.inf  # the end is forbidden before the ninth token
    assert torch.equal(logits.argmax(-1), rows[:, 1:])


@pytest.mark.parametrize("beams", [1, 3])
@variants()
def test_caches_change_nothing(case: Case, beams: int) -> None:
    model, batch = case.model(torch.float32), case.batch(labels=False)
    expected = written(model, batch, num_beams=beams, use_cache=False)
    assert written(model, batch, num_beams=beams) == expected
    assert written(model, batch, num_beams=beams, cache_implementation="static") == expected


@pytest.mark.parametrize("beams", [1, 3])
@variants()
def test_a_document_alone_is_written_as_in_a_batch(case: Case, beams: int) -> None:
    model, rows = case.model(torch.float32), case.documents()
    together = written(model, case.collate(rows, labels=False), num_beams=beams, min_new_tokens=9)
    for place, row in enumerate(rows):
        assert (
            written(model, case.collate([row], labels=False), num_beams=beams, min_new_tokens=9)[0] == together[place]
        )


@heads(GENERATION)
def test_sampling(case: Case) -> None:
    model, batch = case.model(torch.float32), case.batch(labels=False)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(written(model, batch, do_sample=True, num_return_sequences=2))
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 8


@heads(GENERATION)
def test_the_source_is_projected_once(case: Case) -> None:
    model, batch = case.model(torch.float32), case.batch(labels=False)
    calls: list[int] = []
    layer = model.pyramidion.decoder.layer[0]
    layer.cross_attention.self.key.register_forward_hook(lambda *_: calls.append(1))
    written(model, batch, min_new_tokens=9)
    assert len(calls) == 1


@heads(GENERATION)
def test_encoder_outputs_are_reused(case: Case) -> None:
    model, batch = case.model(), case.batch(labels=False)
    encoded = model.get_encoder()(**batch)
    target = torch.full((4, 3), 5)
    expected = model(**batch, decoder_input_ids=target).logits
    assert_close(model(encoder_outputs=encoded, decoder_input_ids=target).logits, expected)
    assert written(model, {}, encoder_outputs=encoded) == written(model, batch)


def test_long_documents() -> None:
    """Sixteen thousand tokens, twice what the config names, beside a short one."""
    changes = {"max_source_length": 8192, "encoder_lengths": [8192, 2048, 512], "block_size": 512}
    model = Case(VARIANTS[0]).model(torch.float32, **changes)
    batch = Case(VARIANTS[0]).batch(lengths=(16384, 40), labels=False)
    with torch.no_grad():
        encoded = model.get_encoder()(**batch)
    assert encoded.last_hidden_state.shape == (2, 512, 16)
    assert encoded.attention_mask.sum(1).tolist() == [512, 40]
    assert len(written(model, batch)[0]) > 5


@pytest.mark.parametrize(
    "variant", [variant for variant in VARIANTS if variant.name != "random"], ids=lambda v: v.name
)
@pytest.mark.parametrize("head", list(HEADS))
def test_save_and_load(variant: Any, head: str, tmp_path: Path) -> None:
    case = Case(variant, head)
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    reloaded, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    expected = dict(model.named_parameters())
    assert dict(reloaded.named_parameters()).keys() == expected.keys()
    for name, value in reloaded.named_parameters():
        assert torch.equal(value, expected[name]), name
        assert value.requires_grad == expected[name].requires_grad, name
    for name, value in results(model(**case.batch())).items():
        assert torch.equal(results(reloaded(**case.batch()))[name], value)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "pyramidion"


@heads(GENERATION, SEQUENCE)
def test_head_from_the_base_model_and_back(case: Case, tmp_path: Path) -> None:
    base = Case(case.variant, MODEL).model(torch.float32)
    base.save_pretrained(tmp_path / "base")
    model = HEADS[case.head].from_pretrained(tmp_path / "base")
    full = dict(base.state_dict())
    for name, value in model.pyramidion.state_dict().items():
        assert torch.equal(value, full[name]), name
    model.save_pretrained(tmp_path / "head")
    again = HEADS[MODEL].from_pretrained(tmp_path / "head")
    for name, value in again.encoder.state_dict().items():
        assert torch.equal(value, full[f"encoder.{name}"]), name


def test_classifier_from_a_summariser(tmp_path: Path) -> None:
    model = Case(VARIANTS[0]).model(torch.float32)
    model.save_pretrained(tmp_path)
    classifier = HEADS[SEQUENCE].from_pretrained(tmp_path, num_labels=5)
    expected = model.pyramidion.encoder.state_dict()
    assert all(
        torch.equal(value, expected[name]) for name, value in classifier.pyramidion.encoder.state_dict().items()
    )


@heads(GENERATION)
def test_refused_checkpoints(case: Case, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"no model.safetensors.*a pickle can run code"):
        type(model).from_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "another-model"}))
    with pytest.raises(ValueError, match=r"model type 'another-model', but PyramidionConfig loads pyramidion"):
        type(model).from_pretrained(tmp_path)


def processor_and_model(case: Case, **changes: Any) -> tuple[Any, Any]:
    processor = PyramidionProcessor(tiny_tokenizer("bpe"))
    return processor, case.model(torch.float32, vocab_size=len(processor.tokenizer), **changes)


@heads()
def test_default_output_of_the_processor(case: Case) -> None:
    processor, model = processor_and_model(case)
    for documents in (document(9), {"words": document(9)["words"]}):
        one = processor(documents=documents, return_tensors="pt")
        assert ("bbox" in one) == ("boxes" in documents)
        expected = next(iter(results(model(**one)).values()))
        batch = processor(documents=[documents, {**documents}], padding=True, return_tensors="pt")
        assert_close(next(iter(results(model(**batch)).values()))[:1], expected, 1e-4)


@heads(GENERATION)
def test_trainer_on_features(case: Case, tmp_path: Path) -> None:
    """Unpadded features of the processor, through the family's collator and transformers', into Seq2SeqTrainer."""
    processor, model = processor_and_model(case, use_layout=True)
    rows = [
        dict(processor(documents=document(9 + n), text_target="Total amount due " * (1 + n % 3))) for n in range(8)
    ]
    collator = LayoutDataCollator(processor)
    assert collator(rows)["labels"].shape[1] == max(len(row["labels"]) for row in rows)
    plain = [{name: row[name] for name in ("input_ids", "attention_mask", "labels")} for row in rows]
    other = DataCollatorForSeq2Seq(processor.tokenizer, model=model, label_pad_token_id=-100)(plain)
    assert torch.equal(other["labels"], collator(rows)["labels"])
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path),
            max_steps=10,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            use_cpu=True,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            predict_with_generate=True,
            generation_max_length=8,
        ),
        train_dataset=rows,
        data_collator=collator,
        processing_class=processor,
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    texts = processor.post_process_summaries(trainer.predict(rows).predictions)
    assert len(texts) == 8
    assert all(isinstance(text, str) for text in texts)
    trainer.save_model(str(tmp_path))
    assert type(AutoProcessor.from_pretrained(tmp_path)) is PyramidionProcessor


@heads()
def test_auto_classes(case: Case, tmp_path: Path) -> None:
    processor, model = processor_and_model(case)
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    member = MODELS["pyramidion"]
    assert type(AutoConfig.from_pretrained(tmp_path)) is member.config
    assert type(AutoProcessor.from_pretrained(tmp_path)) is member.processor is PyramidionProcessor
    autos = [auto for auto, model_class in member.models.items() if model_class is type(model)]
    assert autos
    for auto in autos:
        assert type(auto.from_pretrained(tmp_path)) is type(model)
        assert type(auto.from_config(model.config)) is type(model)
    assert (case.head == MODEL) == (AutoModel in autos)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyramidion", "vanilla", "blockwise", "layout"])
def test_torch_export(name: str) -> None:
    """The graph pads its input to `max_source_length`, so that it takes any shorter one."""
    case = Case(next(variant for variant in VARIANTS if variant.name == name))
    model, batch = case.model(torch.float32), case.batch(lengths=(13, 8), labels=False)
    batch["decoder_input_ids"] = torch.full((2, 4), 5)
    auto = torch.export.Dim.AUTO
    shapes = {key: {0: auto, 1: auto} for key in batch}
    program = torch.export.export(
        model, (), {**batch, "use_cache": False}, dynamic_shapes={**shapes, "use_cache": None}, strict=False
    ).module()
    for lengths in ((13, 8), (29, 4, 17), (19,)):
        batch = case.batch(lengths=lengths, labels=False)
        batch["decoder_input_ids"] = torch.full((len(lengths), 6), 7)
        with torch.no_grad():
            actual, expected = program(**batch, use_cache=False), model(**batch, use_cache=False)
        assert_close(actual["logits"], expected.logits, 1e-5)
    if name != "vanilla":
        batch = {**case.batch(lengths=(70,), labels=False), "decoder_input_ids": torch.full((1, 6), 7)}
        with pytest.raises((AssertionError, RuntimeError), match="32"):
            program(**batch, use_cache=False)


@pytest.mark.parametrize("name", ["pyramidion", "blockwise"])
def test_longer_documents_in_a_graph(name: str) -> None:
    """Nothing beyond `max_source_length` is cut off where the model is compiled or exported."""
    torch._dynamo.reset()
    case = Case(next(variant for variant in VARIANTS if variant.name == name))
    model, batch = case.model(torch.float32), case.batch(lengths=(70, 41), labels=False)
    batch |= {"decoder_input_ids": torch.full((2, 4), 5), "use_cache": False}
    with torch.no_grad():
        expected = model(**batch).logits
        assert_close(torch.compile(model, backend="eager")(**batch).logits, expected, 1e-5)
        program = torch.export.export(model, (), batch, strict=False).module()
        assert_close(program(**batch)["logits"], expected, 1e-5)


def test_unmasked_padding_in_a_graph() -> None:
    case = Case(VARIANTS[0])
    model = case.model(torch.float32, mask_padding=False)
    batch = {**case.batch(lengths=(20, 9), labels=False), "decoder_input_ids": torch.full((2, 4), 5)}
    with torch.no_grad(), pytest.raises(ValueError, match="pad 20 tokens to 32 before, with attention_mask"):
        torch.export.export(model, (), {**batch, "use_cache": False}, strict=False)
    batch |= {**case.batch(lengths=(20, 9), labels=False, pad_to=32), "use_cache": False}
    with torch.no_grad():
        program = torch.export.export(model, (), batch, strict=False).module()
        assert_close(program(**batch)["logits"], model(**batch).logits, 1e-5)


@pytest.mark.slow
def test_onnx() -> None:
    pytest.importorskip("onnxruntime")
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    case = Case(VARIANTS[0], SEQUENCE)
    model = case.model(torch.float32)
    batch = case.batch(lengths=(13, 8), labels=False)
    exported = OnnxExporter().export(model, batch, config=OnnxConfig(dynamic=True))
    for lengths in ((13, 8), (29, 4, 17), (19, 6)):
        batch = case.batch(lengths=lengths, labels=False)
        with torch.no_grad():
            expected = model(**batch).logits
        assert_close(torch.as_tensor(np.asarray(exported(**batch)["logits"])), expected, 1e-5)


@pytest.mark.slow
def test_torch_compile() -> None:
    """One graph for all lengths, forward and backward."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    case = Case(VARIANTS[0])
    model = case.model(torch.float32).train()
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    for seed, lengths in enumerate([(13, 8), (29, 4, 17), (19, 3)]):
        batch, found = case.batch(lengths, seed), []
        for function in (compiled, model):
            model.zero_grad()
            outputs = function(**batch)
            outputs.loss.backward()
            found.append((outputs.logits, [parameter.grad for parameter in model.parameters()]))
        assert_close(found[0][0], found[1][0], 1e-4)
        for actual, expected in zip(found[0][1], found[1][1], strict=True):
            if expected is not None:
                assert_close(actual, expected, 1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    """Two processes of four documents each are one of eight."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port()]
    command += ["-m", "tests.family.test_encoder_decoder_generation", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr[-3000:]
    for head in (GENERATION, SEQUENCE):
        expected, losses = train(Case(VARIANTS[0], head), tmp_path, 8, 1)
        found = torch.load(tmp_path / f"{head}.pt", weights_only=True)
        assert found["losses"] == pytest.approx(losses, rel=1e-3), head
        assert_close(found["weights"], expected.state_dict(), 1e-4)


@pytest.mark.slow
def test_round_trip_without_broadsheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that carries its code loads where broadsheet is not installed."""
    processor, _ = processor_and_model(Case(VARIANTS[0]))
    words = {"text": ["Total", "due"], "boxes": [[9, 9, 30, 20], [40, 9, 60, 20]], "page_sizes": [[100, 200]]}
    member = MODELS["pyramidion"]
    monkeypatch.setattr(member.config, "_auto_class", "AutoConfig")
    monkeypatch.setattr(PyramidionProcessor, "_auto_class", "AutoProcessor")
    auto_map = {auto.__name__: class_path(model) for auto, model in member.models.items()}
    auto_map["AutoConfig"] = class_path(member.config)
    expected: dict[str, Any] = {"processed": dict(processor(**words, return_tensors="pt"))}
    for auto, model_class in member.models.items():
        head = next(head for head, each in HEADS.items() if each is model_class)
        model = Case(VARIANTS[0], head).model(torch.float32, vocab_size=len(processor.tokenizer))
        monkeypatch.setattr(model_class, "_auto_class", auto.__name__)
        model.config.auto_map = auto_map
        model.save_pretrained(tmp_path / auto.__name__)
        processor.save_pretrained(tmp_path / auto.__name__)
        expected["batch"] = Case(VARIANTS[0]).batch(labels=False)
        expected[auto.__name__] = results(model(**expected["batch"]))
    torch.save(expected, tmp_path / "expected.pt")
    (tmp_path / "document.json").write_text(json.dumps(words))
    names = [auto.__name__ for auto in member.models]
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_MODULES_CACHE", None)
    run = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), json.dumps(names)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == f"read {len(names)}"


if __name__ == "__main__":
    for own_head in (GENERATION, SEQUENCE):
        trained, seen = train(Case(VARIANTS[0], own_head), Path(sys.argv[1]) / own_head, 4, 1)
        assert torch.distributed.get_world_size() == 2
        if torch.distributed.get_rank() == 0:
            torch.save({"losses": seen, "weights": trained.state_dict()}, Path(sys.argv[1]) / f"{own_head}.pt")
    leave_process_group()
