"""Checkpoints: what is written, what comes back, what is refused."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.family.members import heads, types, variant_heads, variants
from tests.family.spec import MASKED_LM, MODEL, SEQUENCE, TOKENS, Case, predictions
from transformers import AutoConfig


def everything(model: Any) -> dict[str, torch.Tensor]:
    """Every parameter and buffer, those that are not saved too."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def assert_same_tensors(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        assert torch.equal(actual[name], value), name


def assert_same_outputs(case: Case, actual: Any, expected: Any) -> None:
    batch = case.batch(expected.config)
    with torch.no_grad():
        results = [predictions(model(**batch), batch["attention_mask"]) for model in (actual, expected)]
    assert_same_tensors(results[0], results[1])


@variant_heads()
def test_save_and_load(case: Case, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    reloaded, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert not reloaded.training
    assert_same_tensors(everything(reloaded), everything(model))
    assert_same_outputs(case, reloaded, model)
    config, other = model.config.to_dict(), reloaded.config.to_dict()
    for names in (config, other):
        names.pop("_name_or_path", None)
        names.pop("architectures", None)
    assert other == config


@variant_heads()
def test_save_and_load_as_initialised(case: Case, tmp_path: Path) -> None:
    """Without the tests' disturbance: what `__init__` fills (tables, bands, buffers) survives the meta device."""
    torch.manual_seed(0)
    model = case.spec.heads[case.head](case.config()).eval()
    model.save_pretrained(tmp_path)
    assert_same_tensors(everything(type(model).from_pretrained(tmp_path)), everything(model))


@heads()
def test_written_files(case: Case, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == case.spec.model_type
    assert config["architectures"] == [type(model).__name__]
    written = load_file(tmp_path / "model.safetensors")
    tied = set(model.all_tied_weights_keys) if hasattr(model, "all_tied_weights_keys") else set()
    assert set(written) == set(model.state_dict()) - tied
    assert isinstance(AutoConfig.from_pretrained(tmp_path), case.spec.config_class)


def output_layer(model: torch.nn.Module) -> torch.nn.Linear:
    """The layer that makes the scores of the labels: the last one of the classifier."""
    return [module for module in model.classifier.modules() if isinstance(module, torch.nn.Linear)][-1]


@heads(MODEL)
def test_head_from_the_base_model(case: Case, tmp_path: Path) -> None:
    base = Case(case.spec, case.variant, MODEL).model(torch.float32)
    base.save_pretrained(tmp_path)
    head_class = case.spec.heads[case.head]
    model, info = head_class.from_pretrained(tmp_path, output_loading_info=True)
    prefix = model.base_model_prefix + "."
    encoder = everything(getattr(model, model.base_model_prefix))
    full = everything(base)
    assert_same_tensors(encoder, {name: full[name] for name in encoder})
    assert info["missing_keys"], "a head has parameters of its own"
    assert not any(name.startswith(prefix) for name in info["missing_keys"])
    dropped = {name for name in full if name not in encoder}
    assert {name.removeprefix(prefix) for name in info["unexpected_keys"]} == dropped
    for name, value in everything(model).items():
        assert value.isfinite().all(), name
        if not name.startswith(prefix) and name.endswith("bias"):
            assert (value == 0).all(), name


@heads(MODEL)
def test_base_model_from_a_head(case: Case, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    base, info = case.spec.heads[MODEL].from_pretrained(tmp_path, output_loading_info=True)
    encoder, full = everything(getattr(model, model.base_model_prefix)), everything(base)
    assert_same_tensors({name: full[name] for name in encoder}, encoder)
    assert set(info["missing_keys"]) == set(full) - set(encoder)
    assert all(value.isfinite().all() for value in full.values())


@heads(MODEL, MASKED_LM)
def test_head_from_the_masked_lm(case: Case, tmp_path: Path) -> None:
    """Pre-training to fine-tuning: the encoder arrives, with another number of labels."""
    pretrained = Case(case.spec, case.variant, MASKED_LM).model(torch.float32)
    pretrained.save_pretrained(tmp_path)
    changes = {"num_labels": 5} if case.head in (TOKENS, SEQUENCE) else {}
    model = case.spec.heads[case.head].from_pretrained(tmp_path, **changes)
    prefix = model.base_model_prefix
    encoder, expected = everything(getattr(model, prefix)), everything(getattr(pretrained, prefix))
    assert_same_tensors({name: encoder[name] for name in expected}, expected)
    if changes:
        assert model.config.num_labels == 5
        assert output_layer(model).out_features == 5


@heads(MODEL)
def test_head_with_another_number_of_labels(case: Case, tmp_path: Path) -> None:
    if case.head not in (TOKENS, SEQUENCE):
        pytest.skip("this head has no labels")
    case.model(torch.float32).save_pretrained(tmp_path)
    head_class = case.spec.heads[case.head]
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        head_class.from_pretrained(tmp_path, num_labels=5)
    model = head_class.from_pretrained(tmp_path, num_labels=5, ignore_mismatched_sizes=True)
    assert output_layer(model).out_features == 5
    assert output_layer(model).weight.isfinite().all()


@types(TOKENS)
def test_sharded_checkpoint(case: Case, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert_same_tensors(everything(type(model).from_pretrained(tmp_path)), everything(model))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@heads()
def test_load_in_another_dtype(case: Case, dtype: torch.dtype, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    before = torch.get_default_dtype()
    reloaded = type(model).from_pretrained(tmp_path, dtype=dtype)
    assert torch.get_default_dtype() == before
    expected = {name: value.to(dtype) for name, value in model.named_parameters()}
    assert_same_tensors(dict(reloaded.named_parameters()), expected)
    batch = case.batch(model.config)
    for value in predictions(reloaded(**batch), batch["attention_mask"]).values():
        assert value.isfinite().all()


@types(TOKENS)
def test_saved_dtype_comes_back(case: Case, tmp_path: Path) -> None:
    case.model(torch.bfloat16).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    model = case.spec.heads[TOKENS].from_pretrained(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


@heads()
def test_deep_copy_and_pickle(case: Case) -> None:
    model = case.model()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_same_tensors(everything(other), everything(model))
        assert not {value.data_ptr() for value in everything(other).values()} & {
            value.data_ptr() for value in everything(model).values()
        }
        assert_same_outputs(case, other, model)


@variants()
def test_deep_copy_in_training(case: Case) -> None:
    """A copy made between two steps, as weight averaging does it, is a model of its own."""
    model = case.model(attention_probs_dropout_prob=0.1).train()
    batch = case.batch(model.config)
    model(**batch).last_hidden_state.sum().backward()
    other = copy.deepcopy(model)
    other(**batch).last_hidden_state.sum().backward()
    name, parameter = next(iter(model.named_parameters()))
    assert not torch.equal(dict(other.named_parameters())[name].grad, parameter.grad)
    assert_same_tensors(everything(other), everything(model))


@types(MASKED_LM)
def test_tied_embeddings_stay_tied(case: Case, tmp_path: Path) -> None:
    def tied(model: Any) -> bool:
        return model.get_output_embeddings().weight is model.get_input_embeddings().weight

    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    assert tied(model)
    assert tied(type(model).from_pretrained(tmp_path))
    untied = case.model(torch.float32, tie_word_embeddings=False)
    assert not tied(untied)
    untied.save_pretrained(tmp_path / "untied")
    reloaded = type(model).from_pretrained(tmp_path / "untied")
    assert not tied(reloaded)
    assert_same_tensors(everything(reloaded), everything(untied))


@heads()
def test_refuses_another_model_type(case: Case, tmp_path: Path) -> None:
    case.model(torch.float32).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "another-model"}))
    name = case.spec.config_class.__name__
    with pytest.raises(ValueError, match=rf"model type 'another-model', but {name} loads {case.spec.model_type}"):
        case.spec.heads[case.head].from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="another-model"):
        case.spec.config_class.from_pretrained(tmp_path)


@heads()
def test_refuses_a_pickle(case: Case, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"no model.safetensors.*a pickle can run code; write the file with"):
        type(model).from_pretrained(tmp_path)


@pytest.mark.parametrize("left", [0, 4, 100, 0.5], ids=["empty", "length", "header", "half"])
@types(TOKENS)
def test_refuses_a_truncated_file(case: Case, left: float, tmp_path: Path) -> None:
    model = case.model(torch.float32)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content)) if isinstance(left, float) else left])
    with pytest.raises(OSError, match=r"damaged or cut short .*save or download the checkpoint again"):
        type(model).from_pretrained(tmp_path)


@types(TOKENS)
def test_refuses_a_folder_without_weights(case: Case, tmp_path: Path) -> None:
    case.config().save_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"model.safetensors"):
        case.spec.heads[TOKENS].from_pretrained(tmp_path)
    with pytest.raises(OSError, match="config.json|no-such-folder"):
        case.spec.heads[TOKENS].from_pretrained(tmp_path / "no-such-folder")


@types(TOKENS)
def test_refuses_a_broken_config(case: Case, tmp_path: Path) -> None:
    case.model(torch.float32).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": ')
    with pytest.raises(OSError, match=r"config.json"):
        case.spec.heads[TOKENS].from_pretrained(tmp_path)
