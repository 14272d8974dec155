"""What a model must refuse, with a sentence, before any computation."""

import dataclasses

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from tests.family.members import MEMBERS, heads, variants
from tests.family.spec import TOKENS, BadInput, Case


def faults() -> pytest.MarkDecorator:
    cases = [
        pytest.param(Case(spec, variant, head), fault, id=f"{spec.model_type}-{variant.name}-{head}-{fault.name}")
        for spec in MEMBERS
        for variant in spec.variants
        for head in (list(spec.heads) if variant is spec.variants[0] else [next(iter(spec.heads))])
        for fault in spec.bad_inputs
        if fault.variants is None or variant.name in fault.variants
    ]
    return pytest.mark.parametrize(("case", "fault"), cases)


def computed(model: torch.nn.Module) -> list[str]:
    """A list that the names of modules which compute will be added to."""
    names: list[str] = []
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_pre_hook(lambda _module, _inputs, name=name: names.append(name))
    return names


@faults()
def test_bad_input(case: Case, fault: BadInput) -> None:
    model = case.model(torch.float32)
    names, batch = computed(model), case.batch(model.config)
    fault.spoil(batch)
    with pytest.raises(ValueError, match=r"[.;]") as error:
        model(**batch)
    for part in fault.says:
        assert part in str(error.value)
    assert names == [], "computed before it looked"
    assert str(error.value).count("\n") == 0
    assert len(str(error.value)) < 400


@heads()
def test_ids_and_embeddings(case: Case) -> None:
    case.skip_unless("inputs_embeds")
    model = case.model(torch.float32)
    batch = case.batch(model.config)
    embeddings = model.get_input_embeddings()(batch["input_ids"])
    names = computed(model)
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model(**batch, inputs_embeds=embeddings)
    batch.pop("input_ids")
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model(**batch)
    assert names == []


@variants()
def test_more_tokens_than_positions(case: Case) -> None:
    """Only the variants with a table of positions have a limit; the others read on."""
    limit = case.spec.token_limit(case.config()) if case.spec.token_limit else None
    case = Case(case.spec, case.variant, TOKENS)
    model = case.model(torch.float32)
    length = (limit or 60) + 1
    batch = case.batch(model.config, (3, length))
    if limit is None:
        assert model(**batch).logits.isfinite().all()
        return
    names = computed(model)
    with pytest.raises(ValueError, match=rf"{length} tokens .* {limit} positions; .*max_length={limit}"):
        model(**batch)
    assert names == []
    assert model(**case.batch(model.config, (3, limit))).logits.isfinite().all()


@pytest.mark.parametrize("shape", ["short", "flat"])
@variants()
def test_attention_mask_of_another_shape(case: Case, shape: str) -> None:
    model = case.model(torch.float32)
    batch = case.batch(model.config)
    batch["attention_mask"] = batch["attention_mask"][:, :-1] if shape == "short" else batch["attention_mask"][0]
    names = computed(model)
    with pytest.raises(ValueError, match=r"attention_mask has the shape .* pad it like input_ids"):
        model(**batch)
    assert names == []


@pytest.mark.parametrize("empty", ["documents", "tokens"])
@variants()
def test_no_tokens(case: Case, empty: str) -> None:
    model = case.model(torch.float32)
    batch = {
        name: value[:0] if empty == "documents" else value[:, :0] for name, value in case.batch(model.config).items()
    }
    names = computed(model)
    with pytest.raises(ValueError, match="is a batch without tokens; pass at least one document of one token"):
        model(**batch)
    assert names == []


@variants()
def test_padding_on_the_left(case: Case) -> None:
    model = case.model(torch.float32)
    batch = case.batch(model.config, (4, 6))
    batch["attention_mask"] = torch.tensor([[1] * 4 + [0] * 2, [0] * 2 + [1] * 4])
    names = computed(model)
    with pytest.raises(ValueError, match=r'begins with padding in row 1, .* tokenizer.padding_side = "right"'):
        model(**batch)
    assert names == []
    batch["attention_mask"][1] = 0  # nothing but padding is not padded on the left
    model(**batch)
    assert names


@pytest.mark.parametrize("token", [-1, None], ids=["negative", "too large"])
@variants()
def test_tokens_out_of_the_vocabulary(case: Case, token: int | None) -> None:
    model = case.model(torch.float32)
    batch = case.batch(model.config)
    batch["input_ids"][1, 2] = token = model.config.vocab_size if token is None else token
    names = computed(model)
    with pytest.raises(ValueError, match=rf"input_ids holds {token} at token 2 in row 1, .*resize_token_embeddings"):
        model(**batch)
    assert names == []


@variants()
def test_token_types_out_of_range(case: Case) -> None:
    model = case.model(torch.float32)
    batch = case.batch(model.config)
    if "token_type_ids" not in batch:
        pytest.skip("this model has no token types")
    batch["token_type_ids"][1, 2] = model.config.type_vocab_size
    names = computed(model)
    with pytest.raises(ValueError, match=r"token_type_ids holds 2 at token 2 in row 1, .*leave token_type_ids out"):
        model(**batch)
    assert names == []


@variants()
def test_ids_without_a_batch(case: Case) -> None:
    model = case.model(torch.float32)
    batch = {name: value[0] for name, value in case.batch(model.config).items()}
    with pytest.raises(ValueError, match=r"input_ids has the shape \[13\]; pass a batch"):
        model(**batch)


@variants()
def test_an_unknown_activation(case: Case) -> None:
    fields = {field.name for field in dataclasses.fields(case.config())}
    if "hidden_act" not in fields:
        pytest.skip("takes its backbone's")
    with pytest.raises((ValueError, StrictDataclassError), match=r"hidden_act='gellu' is no activation; set it to"):
        case.config(hidden_act="gellu")
