"""Forward, loss and gradient of every head; what can be asked for beside the prediction."""

import pytest
import torch
from tests.family.members import heads, types, variant_heads, variants
from tests.family.spec import (
    MASKED_LM,
    MODEL,
    QUESTIONS,
    SEQUENCE,
    TOKENS,
    Case,
    assert_close,
    gradients,
    predictions,
    probe_loss,
)


@variant_heads()
def test_shapes(case: Case) -> None:
    model = case.model(torch.float32)
    config, batch = model.config, case.batch(model.config)
    outputs = model(**batch)
    size, length = batch["input_ids"].shape
    if case.head == MODEL:
        assert outputs.last_hidden_state.shape == (size, length, config.hidden_size)
        assert outputs.pooler_output.shape == (size, config.hidden_size)
    elif case.head == QUESTIONS:
        assert outputs.start_logits.shape == outputs.end_logits.shape == (size, length)
    elif case.head == SEQUENCE:
        assert outputs.logits.shape == (size, config.num_labels)
    else:
        classes = config.num_labels if case.head == TOKENS else config.vocab_size
        assert outputs.logits.shape == (size, length, classes)
    assert all(value.isfinite().all() for value in predictions(outputs, batch["attention_mask"]).values())
    assert outputs.hidden_states is None
    assert outputs.attentions is None
    assert outputs.get("loss") is None


@variant_heads(MODEL)
def test_loss_is_the_mean_cross_entropy_of_what_is_labelled(case: Case) -> None:
    model = case.model()
    batch = case.labelled_batch(model.config)
    outputs = model(**batch)
    cross_entropy = torch.nn.functional.cross_entropy
    if case.head == QUESTIONS:
        start = cross_entropy(outputs.start_logits, batch["start_positions"])
        expected = (start + cross_entropy(outputs.end_logits, batch["end_positions"])) / 2
    else:
        labels = batch["labels"]
        labelled = labels != -100
        expected = cross_entropy(outputs.logits[labelled], labels[labelled])
    assert outputs.loss.dtype.is_floating_point
    assert_close(outputs.loss.double(), expected, 1e-6)


@variant_heads()
def test_every_parameter_gets_a_gradient(case: Case) -> None:
    model = case.model().train()
    batch = case.labelled_batch(model.config)
    outputs = model(**batch)
    loss = probe_loss(outputs, batch["attention_mask"])
    if case.head != MODEL:
        loss = loss + outputs.loss
    loss.backward()
    sizes = {name: float(gradient.abs().max()) for name, gradient in gradients(model).items()}
    largest = max(sizes.values())
    missing = {name for name, size in sizes.items() if size < 1e-9 * largest}
    declared = {name for name in sizes if case.zero_gradient(name)}
    assert missing == declared
    assert largest > 0


@types(MASKED_LM)
def test_every_parameter_of_an_untied_head_gets_a_gradient(case: Case) -> None:
    """Else DistributedDataParallel waits for one that never comes."""
    model = case.model(tie_word_embeddings=False).train()
    model(**case.labelled_batch(model.config)).loss.backward()
    missing = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    assert missing == []


@variants()
def test_loss_falls_in_training_with_dropout(case: Case) -> None:
    case = Case(case.spec, case.variant, TOKENS)
    model = case.model(torch.float32, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).train()
    batch = case.labelled_batch(model.config)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(30):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


@variants()
def test_dropout_follows_the_seed(case: Case) -> None:
    model = case.model(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.3).train()
    batch = case.batch(model.config)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(model(**batch).last_hidden_state)
    assert torch.equal(results[0], results[1])
    assert not torch.allclose(results[0], results[2])
    model.eval()
    assert torch.equal(model(**batch).last_hidden_state, model(**batch).last_hidden_state)


@variant_heads()
def test_backends_agree(case: Case) -> None:
    first, *others = case.variant.backends
    results = []
    for backend in (first, *others):
        model = case.model(attn_implementation=backend)
        assert model.config._attn_implementation == backend
        batch = case.labelled_batch(model.config)
        outputs = model(**batch)
        probe_loss(outputs, batch["attention_mask"]).backward()
        results.append((predictions(outputs, batch["attention_mask"]), gradients(model)))
    for values, gradient in results[1:]:
        assert_close(values, results[0][0])
        assert_close(gradient, results[0][1])


@variants()
def test_backends_agree_after_switching(case: Case) -> None:
    model = case.model()
    batch = case.batch(model.config)
    results = []
    for backend in case.variant.backends:
        model.set_attn_implementation(backend)
        assert model.config._attn_implementation == backend
        results.append(predictions(model(**batch), batch["attention_mask"]))
    for result in results[1:]:
        assert_close(result, results[0])


@heads()
def test_every_backend_that_is_supported_can_be_switched_to(case: Case) -> None:
    model = case.model(attn_implementation="eager")
    flex = ["flex_attention"] if model._supports_flex_attn else []
    for backend in ["sdpa", *flex, "eager"]:
        model.set_attn_implementation(backend)
        assert model.config._attn_implementation == model.base_model.config._attn_implementation == backend


@variant_heads()
def test_hidden_states(case: Case) -> None:
    model = case.model()
    batch = case.batch(model.config)
    states = model(**batch, output_hidden_states=True).hidden_states
    assert isinstance(states, tuple)
    assert len(states) == case.spec.hidden_states(model.config)
    for state in states:
        assert state.shape == (*batch["input_ids"].shape, model.config.hidden_size)
    if case.head == MODEL:
        assert torch.equal(states[-1], model(**batch).last_hidden_state)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@variants()
def test_attentions(case: Case, backend: str) -> None:
    if backend not in case.variant.backends:
        pytest.skip(f"this variant has no {backend}")
    model = case.model(attn_implementation=backend)
    batch = case.batch(model.config)
    outputs = model(**batch, output_attentions=True)
    expected = case.spec.attentions(model.config, *batch["input_ids"].shape)
    assert isinstance(outputs.attentions, tuple)
    assert [tuple(attention.shape) for attention in outputs.attentions] == expected
    assert_close(outputs.last_hidden_state, model(**batch).last_hidden_state)
    for attention in outputs.attentions:
        assert (attention >= 0).all()
        rows = attention.transpose(1, 2)[batch["attention_mask"].bool()]  # [tokens, heads, keys]
        assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))


@heads()
def test_config_asks_for_hidden_states_and_attentions(case: Case) -> None:
    model = case.model(output_hidden_states=True, attn_implementation="eager", output_attentions=True)
    outputs = model(**case.batch(model.config))
    assert len(outputs.hidden_states) == case.spec.hidden_states(model.config)
    assert len(outputs.attentions) == len(case.spec.attentions(model.config, 1, 1))


@variant_heads()
def test_tuple_instead_of_a_dictionary(case: Case) -> None:
    model = case.model()
    batch = case.labelled_batch(model.config)
    named = model(**batch, output_hidden_states=True)
    plain = model(**batch, output_hidden_states=True, return_dict=False)
    assert isinstance(plain, tuple)
    for actual, expected in zip(plain, named.to_tuple(), strict=True):
        if isinstance(expected, tuple):
            assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))
        else:
            assert torch.equal(actual, expected)


@variant_heads()
def test_embeddings_instead_of_ids(case: Case) -> None:
    case.skip_unless("inputs_embeds")
    model = case.model()
    batch = case.batch(model.config)
    expected = predictions(model(**batch), batch["attention_mask"])
    embeddings = model.get_input_embeddings()(batch.pop("input_ids"))
    assert_close(predictions(model(**batch, inputs_embeds=embeddings), batch["attention_mask"]), expected)


@variants()
def test_mask_of_ones_is_no_mask(case: Case) -> None:
    model = case.model()
    batch = case.batch(model.config, (7, 7))
    expected = model(**batch).last_hidden_state
    mask = batch.pop("attention_mask")
    assert_close(model(**batch).last_hidden_state, expected)
    assert_close(model(**batch, attention_mask=mask.bool()).last_hidden_state, expected)
    assert_close(model(**batch, attention_mask=mask.double()).last_hidden_state, expected)


@variants()
def test_forward_leaves_its_inputs_alone(case: Case) -> None:
    model = case.model()
    batch = case.batch(model.config)
    before = {name: value.clone() for name, value in batch.items()}
    model(**batch)
    assert all(torch.equal(batch[name], before[name]) for name in batch)
