"""Padding, batching and batch order change nothing."""

import pytest
import torch
from tests.family.members import variant_heads, variants
from tests.family.spec import MODEL, Batch, Case, assert_close, gradients, predictions, probe_loss

LENGTHS = (11, 1, 13, 6)


def run(model: torch.nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return predictions(model(**batch), batch["attention_mask"])


def assert_invariant(case: Case, actual: dict, expected: dict, leaks: bool = True, tolerance: float = 1e-9) -> None:
    """Equal; or, where the variant leaks padding by design and `leaks` is True, seen to differ."""
    if not (leaks and case.variant.leaks_padding):
        assert_close(actual, expected, tolerance)
        return
    with pytest.raises(AssertionError):
        assert_close(actual, expected, 1e-3)


@variant_heads(MODEL)
def test_padding_is_not_in_the_loss(case: Case) -> None:
    model = case.model()
    batch = case.labelled_batch(model.config, LENGTHS)
    documents = case.spec.documents(model.config, LENGTHS)
    padded = {**batch, **case.spec.collate(model.config, documents, pad_to=max(LENGTHS) + 5, garbage=77)}
    if "labels" in batch and batch["labels"].dim() == 2:
        padded["labels"] = torch.nn.functional.pad(batch["labels"], (0, 5), value=-100)
    assert_invariant(case, {"loss": model(**padded).loss}, {"loss": model(**batch).loss}, tolerance=1e-6)


@pytest.mark.parametrize("columns", [1, 7])
@variant_heads()
def test_more_padding(case: Case, columns: int) -> None:
    model = case.model()
    documents = case.spec.documents(model.config, LENGTHS)
    expected = run(model, case.spec.collate(model.config, documents))
    padded = case.spec.collate(model.config, documents, pad_to=max(LENGTHS) + columns)
    assert_invariant(case, run(model, padded), expected)


@variant_heads()
def test_garbage_in_the_padding(case: Case) -> None:
    model = case.model()
    documents = case.spec.documents(model.config, LENGTHS)
    expected = run(model, case.spec.collate(model.config, documents, pad_to=15))
    for seed in (77, 78):
        garbage = case.spec.collate(model.config, documents, pad_to=15, garbage=seed)
        assert_invariant(case, run(model, garbage), expected)


@variants()
def test_padding_gives_no_gradient(case: Case) -> None:
    results = []
    for pad_to, garbage in ((None, None), (17, None), (17, 77)):
        model = case.model()
        documents = case.spec.documents(model.config, LENGTHS)
        batch = case.spec.collate(model.config, documents, pad_to=pad_to, garbage=garbage)
        probe_loss(model(**batch), batch["attention_mask"]).backward()
        results.append(gradients(model))
    for result in results[1:]:
        assert_invariant(case, result, results[0])


@variant_heads()
def test_alone_as_in_a_batch(case: Case) -> None:
    model = case.model()
    documents = case.spec.documents(model.config, LENGTHS)
    batch = case.spec.collate(model.config, documents)
    with torch.no_grad():
        outputs = model(**batch)
    for row, document in enumerate(documents):
        alone = run(model, case.spec.collate(model.config, [document]))
        length = LENGTHS[row]
        for name, value in alone.items():
            together = outputs[name][row]
            per_token = outputs[name].shape[:2] == batch["input_ids"].shape
            together = together[:length] if per_token else together[None]
            # A token alone attends to itself whatever leaks into its layout; the longest document has no padding.
            assert_invariant(case, {name: together}, {name: value}, leaks=1 < length < max(LENGTHS))


@variant_heads()
def test_order_of_the_batch(case: Case) -> None:
    model = case.model()
    documents = case.spec.documents(model.config, LENGTHS)
    with torch.no_grad():
        expected = model(**case.spec.collate(model.config, documents))
        order = [2, 0, 3, 1]
        permuted = model(**case.spec.collate(model.config, [documents[index] for index in order]))
    for name, value in expected.items():
        assert_close(permuted[name], value[order])


@pytest.mark.parametrize("tokens", [1, 3], ids=["bare", "with specials"])
@variants()
def test_one_word_beside_a_full_document(case: Case, tokens: int) -> None:
    """A document of one word, alone and beside one of the greatest length."""
    model = case.model()
    length = (case.spec.token_limit and case.spec.token_limit(model.config)) or 40
    documents = case.spec.documents(model.config, (tokens, length))
    together = run(model, case.spec.collate(model.config, documents))["last_hidden_state"]
    word = run(model, case.spec.collate(model.config, documents[:1]))["last_hidden_state"]
    assert together.isfinite().all()
    assert_invariant(case, {"word": together[:tokens]}, {"word": word}, leaks=tokens > 1)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@variants()
def test_a_row_of_padding_alone(case: Case, backend: str, training: bool) -> None:
    """No NaN anywhere, in outputs or gradients, and the other rows as without it."""
    rate = 0.2 if training else 0.0
    model = case.model(attn_implementation=backend, attention_probs_dropout_prob=rate).train(training)
    batch = case.batch(model.config, (9, 9))
    expected = run(model, {name: value[:1] for name, value in batch.items()})["last_hidden_state"]
    batch["attention_mask"][1] = 0
    outputs = model(**batch)
    assert outputs.last_hidden_state.isfinite().all()
    assert outputs.pooler_output.isfinite().all()
    if not training:
        assert_close(outputs.last_hidden_state[0], expected)
    outputs.last_hidden_state.sum().backward()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
