"""Starting from a parent's checkpoint: per parent and head, nothing missing but the additions, and equal outputs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.family.members import MEMBERS
from tests.family.spec import (
    MASKED_LM,
    MODEL,
    QUESTIONS,
    Case,
    Parent,
    assert_close,
    disturb,
    gradients,
    predictions,
    probe_loss,
)

WITH_PARENTS = [spec for spec in MEMBERS if spec.parents]


def warm_starts(shared_heads: bool) -> pytest.MarkDecorator:
    """Per member, parent and head; with `shared_heads` only the heads that the parent has too."""
    cases = [
        pytest.param(Case(spec, spec.variants[0], head), parent, id=f"{spec.model_type}-{parent.model_type}-{head}")
        for spec in WITH_PARENTS
        for parent in spec.parents
        for head in spec.heads
        if head in parent.heads or not shared_heads
    ]
    return pytest.mark.parametrize(("case", "parent"), cases)


def parent_model(parent: Parent, head: str, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(0)
    config = parent.config_class(**{**parent.config, **({"num_labels": 2} if head == QUESTIONS else {})})
    return disturb(parent.heads[head](config)).to(dtype).eval()


def own_head(model: Any) -> set[str]:
    """The parameters outside the encoder, tied ones left out."""
    tied = set(model.all_tied_weights_keys)
    prefix = model.base_model_prefix + "."
    return {name for name in model.state_dict() if not name.startswith(prefix)} - tied


def additions(model: Any, parent: Parent) -> set[str]:
    found = {name for name in model.state_dict() if any(re.search(pattern, name) for pattern in parent.additions)}
    assert found or not parent.additions
    return found


def assert_equal_to_parent(case: Case, parent: Parent, model: Any, source: Any) -> None:
    batch = case.batch(model.config)
    with torch.no_grad():
        ours = predictions(model(**batch), batch["attention_mask"])
        theirs = predictions(source(**{name: batch[name] for name in parent.inputs}), batch["attention_mask"])
    if ours.get("pooler_output") is not None and "pooler_output" not in theirs:
        ours.pop("pooler_output")
    assert_close(ours, theirs, 1e-6)


@warm_starts(shared_heads=True)
def test_warm_start(case: Case, parent: Parent, tmp_path: Path) -> None:
    source = parent_model(parent, case.head)
    source.save_pretrained(tmp_path / "parent")
    model, info = case.spec.heads[case.head].from_pretrained(tmp_path / "parent", output_loading_info=True)

    assert set(info["missing_keys"]) == additions(model, parent)
    assert not info["mismatched_keys"]
    for name in info["unexpected_keys"]:
        assert any(re.search(pattern, name) for pattern in parent.dropped), name
    assert type(model.config) is case.spec.config_class
    assert model.config.model_type == case.spec.model_type
    assert {name: getattr(model.config, name) for name in parent.translated} == dict(parent.translated)
    assert_equal_to_parent(case, parent, model, source)

    model.save_pretrained(tmp_path / "ours")
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"] == case.spec.model_type
    written = set(load_file(tmp_path / "ours" / "model.safetensors"))
    assert written == set(model.state_dict()) - set(model.all_tied_weights_keys)
    reloaded, info = type(model).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    for name, value in model.state_dict().items():
        assert torch.equal(reloaded.state_dict()[name], value), name
    assert_equal_to_parent(case, parent, reloaded, source)


@warm_starts(shared_heads=False)
def test_from_the_parents_masked_lm(case: Case, parent: Parent, tmp_path: Path) -> None:
    """What the Hub has: the parent with its masked LM head. Every head of ours starts from it."""
    source = parent_model(parent, MASKED_LM)
    source.save_pretrained(tmp_path)
    model, info = case.spec.heads[case.head].from_pretrained(tmp_path, output_loading_info=True)
    fresh = own_head(model) if case.head not in (MASKED_LM, MODEL) else set()
    has_pooler = any("pooler" in name for name in source.state_dict())
    poolers = set() if has_pooler else {name for name in model.state_dict() if "pooler" in name}
    assert set(info["missing_keys"]) == additions(model, parent) | fresh | poolers
    assert all(value.isfinite().all() for value in model.state_dict().values())
    base, info = case.spec.heads[MODEL].from_pretrained(tmp_path, output_loading_info=True)
    encoder = model if case.head == MODEL else getattr(model, model.base_model_prefix)
    for name, value in encoder.state_dict().items():
        if name not in info["missing_keys"]:
            assert torch.equal(value, base.state_dict()[name]), name


@warm_starts(shared_heads=False)
def test_from_the_parents_base_model(case: Case, parent: Parent, tmp_path: Path) -> None:
    """A checkpoint without a head, and so without the parent's prefix."""
    source = parent_model(parent, MODEL)
    source.save_pretrained(tmp_path)
    model, info = case.spec.heads[case.head].from_pretrained(tmp_path, output_loading_info=True)
    fresh = own_head(model) if case.head != MODEL else set()
    assert set(info["missing_keys"]) - set(model.all_tied_weights_keys) == additions(model, parent) | fresh
    encoder = model if case.head == MODEL else getattr(model, model.base_model_prefix)
    assert_equal_to_parent(Case(case.spec, case.variant), parent, encoder, headless(source, encoder))


def headless(source: Any, encoder: Any) -> Any:
    """The parent without its pooler where our encoder has none."""
    if getattr(encoder, "pooler", None) is None:
        source.pooler = None
    return source


@warm_starts(shared_heads=True)
def test_overrides_apply_after_the_translation(case: Case, parent: Parent, tmp_path: Path) -> None:
    parent_model(parent, MODEL).save_pretrained(tmp_path)
    config = case.spec.config_class.from_pretrained(tmp_path, **parent.overrides)
    model = case.spec.heads[case.head].from_pretrained(tmp_path, **parent.overrides)
    for found in (config, model.config):
        assert {name: getattr(found, name) for name in parent.overrides} == dict(parent.overrides)
        kept = {name: value for name, value in parent.translated.items() if name not in parent.overrides}
        assert {name: getattr(found, name) for name in kept} == kept
    own = case.spec.heads[case.head].from_pretrained(tmp_path, config=config)
    assert {name: getattr(own.config, name) for name in parent.overrides} == dict(parent.overrides)


@warm_starts(shared_heads=True)
def test_additions_learn(case: Case, parent: Parent, tmp_path: Path) -> None:
    """Zeros at the start, but with a gradient."""
    parent_model(parent, case.head).save_pretrained(tmp_path)
    model = case.spec.heads[case.head].from_pretrained(tmp_path).double().train()
    batch = case.batch(model.config)
    probe_loss(model(**batch), batch["attention_mask"]).backward()
    found = gradients(model)
    assert any((found[name] != 0).any() for name in additions(model, parent))


@warm_starts(shared_heads=True)
def test_from_the_parents_pickle(case: Case, parent: Parent, tmp_path: Path) -> None:
    """Old checkpoints of others are pickles; they are read as weights only."""
    source = parent_model(parent, case.head)
    source.config.save_pretrained(tmp_path)
    torch.save(source.state_dict(), tmp_path / "pytorch_model.bin")
    model = case.spec.heads[case.head].from_pretrained(tmp_path)
    assert_equal_to_parent(case, parent, model.double(), source)


@warm_starts(shared_heads=True)
def test_in_half_precision(case: Case, parent: Parent, tmp_path: Path) -> None:
    parent_model(parent, case.head, torch.float32).save_pretrained(tmp_path)
    exact, info = case.spec.heads[case.head].from_pretrained(tmp_path, output_loading_info=True)
    half = case.spec.heads[case.head].from_pretrained(tmp_path, dtype=torch.bfloat16)
    for name, value in exact.named_parameters():
        other = dict(half.named_parameters())[name]
        assert other.dtype == torch.bfloat16
        assert name in info["missing_keys"] or torch.equal(other, value.to(torch.bfloat16)), name


def test_some_member_starts_from_a_parent() -> None:
    assert WITH_PARENTS
