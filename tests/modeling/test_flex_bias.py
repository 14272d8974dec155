"""LAMBERT's attention by FlexAttention equals its other forms."""

import pytest
import torch
from tests.family.placement import offloaded
from tests.family.spec import disturb

from broadsheet.modeling import flex_kernel
from broadsheet.modeling.configuration_lambert import LambertConfig
from broadsheet.modeling.modeling_lambert import LambertForTokenClassification

TINY = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 4098,
    "max_sequential_distance": 20,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
    "bias_init": "normal",
}
KINDS = [
    {},
    {"relative_bias": "log_buckets"},
    {"use_sequential_bias": False, "use_vertical_bias": False},
]


def model_and_batch(changes, length=37, **more):
    torch.manual_seed(0)
    model = disturb(LambertForTokenClassification(LambertConfig(**{**TINY, **changes, **more}))).eval()
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length // 2 :] = 0
    batch = {
        "input_ids": torch.randint(2, 40, (2, length)),
        "bbox": torch.rand(2, length, 2, 2).sort(2).values.flatten(2),
        "attention_mask": mask,
    }
    return model, batch


def switch(model, backend):
    model.set_attn_implementation(backend)
    assert model.config._attn_implementation == backend


@pytest.mark.parametrize("changes", KINDS, ids=["grid", "log-buckets", "horizontal"])
def test_equals_the_plain_form(changes):
    model, batch = model_and_batch(changes)
    tokens = batch["attention_mask"].bool()
    outputs = []
    for backend in ("eager", "sdpa", "flex_attention"):
        switch(model, backend)
        with torch.no_grad():
            outputs.append(model(**batch).logits[tokens])
    torch.testing.assert_close(outputs[2], outputs[0], rtol=0, atol=2e-6)
    torch.testing.assert_close(outputs[2], outputs[1], rtol=0, atol=2e-6)


def test_without_a_mask_and_without_tables():
    none = {"use_sequential_bias": False, "use_horizontal_bias": False, "use_vertical_bias": False}
    for changes in ({}, none):
        model, batch = model_and_batch(changes)
        del batch["attention_mask"]
        outputs = []
        for backend in ("sdpa", "flex_attention"):
            switch(model, backend)
            with torch.no_grad():
                outputs.append(model(**batch).logits)
        torch.testing.assert_close(*outputs, rtol=0, atol=2e-6)


def test_training_takes_the_form_that_has_gradients():
    gradients = []
    for backend in ("sdpa", "flex_attention"):
        model, batch = model_and_batch({})
        switch(model, backend)
        model.train()(**batch, labels=torch.ones_like(batch["input_ids"])).loss.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert torch.equal(gradient, gradients[1][name]), name


def test_where_the_kernel_cannot_run_another_form_does(monkeypatch):
    model, batch = model_and_batch({})
    monkeypatch.setattr(flex_kernel, "can_flex", lambda device, head_size: False)
    outputs = []
    for backend in ("sdpa", "flex_attention"):
        switch(model, backend)
        with torch.no_grad():
            outputs.append(model(**batch).logits)
    assert torch.equal(*outputs)


def test_tables_that_lie_elsewhere_until_they_are_needed():
    model, batch = model_and_batch({})
    switch(model, "flex_attention")
    with torch.no_grad():
        torch.testing.assert_close(offloaded(model)(**batch).logits, model(**batch).logits)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("changes", KINDS, ids=["grid", "log-buckets", "horizontal"])
def test_on_cuda(changes):
    length, heads = 4096, 4
    model, batch = model_and_batch(changes, length, hidden_size=256, num_attention_heads=heads)
    model.to("cuda")
    batch = {name: tensor.cuda() for name, tensor in batch.items()}
    outputs, peaks = [], []
    for backend in ("sdpa", "flex_attention"):
        switch(model, backend)
        for _ in range(2):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            with torch.no_grad():
                logits = model(**batch).logits[batch["attention_mask"].bool()]
        peaks.append(torch.cuda.max_memory_allocated() - before)
        outputs.append(logits)
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-4)
    # No tensor of length x length: the bias alone has 4 bytes for each document, head, query and key.
    assert peaks[1] < 2 * heads * length * length * 4 < peaks[0]
