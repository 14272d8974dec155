"""torch.compile, torch.export, ONNX: at lengths and batch sizes other than those traced."""

import numpy as np
import pytest
import torch
from tests.family.members import costly, types
from tests.family.spec import TOKENS, Case, assert_close, gradients, predictions, probe_loss

# Traced with the first; the others have more and fewer documents, longer and shorter ones.
LENGTHS = [(7, 5), (13, 8), (19, 2, 3), (18,)]


@costly()
def test_torch_export(case: Case) -> None:
    case.skip_unless("export")
    model = case.model(torch.float32)
    batch = case.batch(model.config, LENGTHS[0])
    auto = torch.export.Dim.AUTO
    shapes = {name: {0: auto, 1: auto} for name in batch}
    program = torch.export.export(model, (), batch, dynamic_shapes=shapes, strict=False).module()
    for seed, lengths in enumerate(LENGTHS):
        batch = case.batch(model.config, lengths, seed)
        with torch.no_grad():
            actual, expected = program(**batch), model(**batch)
        assert_close(
            predictions(actual, batch["attention_mask"]), predictions(expected, batch["attention_mask"]), 1e-5
        )


@pytest.mark.slow
@types(TOKENS)
def test_torch_compile(case: Case) -> None:
    """One graph for all lengths, forward and backward. (A batch of one is another: torch specialises on 1.)"""
    case.skip_unless("compile")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = case.model(torch.float32).train()
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    for seed, lengths in enumerate([*LENGTHS[:3], (18, 4)]):
        batch = case.labelled_batch(model.config, lengths, seed)
        results = []
        for function in (compiled, model):
            model.zero_grad()
            outputs = function(**batch)
            (probe_loss(outputs, batch["attention_mask"]) + outputs.loss).backward()
            results.append((predictions(outputs, batch["attention_mask"]), gradients(model)))
        assert_close(results[0][0], results[1][0], 1e-4)
        assert_close(results[0][1], results[1][1], 1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.slow
@costly(TOKENS)
def test_onnx(case: Case) -> None:
    pytest.importorskip("onnxruntime")
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    case.skip_unless("onnx")
    model = case.model(torch.float32)
    exported = OnnxExporter().export(model, case.batch(model.config, LENGTHS[0]), config=OnnxConfig(dynamic=True))
    for seed, lengths in enumerate(LENGTHS):
        batch = case.batch(model.config, lengths, seed)
        outputs = exported(**batch)
        with torch.no_grad():
            expected = model(**batch).logits
        actual = torch.as_tensor(np.asarray(outputs["logits"]))
        assert actual.shape == expected.shape
        mask = batch["attention_mask"].bool()
        assert_close(actual[mask], expected[mask], 1e-5)
