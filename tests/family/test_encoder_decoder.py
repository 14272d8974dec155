"""What every member passes, for an encoder-decoder: forward, gradients, padding, backends, precision, training."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.family.members.pyramidion import (
    GENERATION,
    HEADS,
    KEY_BIAS,
    LENGTHS,
    MODEL,
    SEQUENCE,
    VARIANTS,
    Case,
    heads,
    results,
    variants,
)
from tests.family.spec import assert_close, gradients
from transformers import Trainer, TrainingArguments


def loss_of(outputs: Any) -> torch.Tensor:
    """A scalar that depends on the decoder's outputs; the loss where there is one."""
    if outputs.get("loss") is not None:
        return outputs.loss
    value = next(iter(results(outputs).values()))
    return (value * torch.arange(value.numel(), dtype=value.dtype).view_as(value).sin()).sum()


@variants(*HEADS)
def test_shapes(case: Case) -> None:
    model = case.model(torch.float32)
    outputs = model(**case.batch(labels=case.head == MODEL))
    if case.head == MODEL:
        assert outputs.last_hidden_state.shape == (4, 7, 16)
    else:
        assert outputs.logits.shape == ((4, 3) if case.head == SEQUENCE else (4, 1, 60))
    assert all(value.isfinite().all() for value in results(outputs).values())
    assert outputs.get("loss") is None
    if case.head != SEQUENCE:
        length = (case.variant.config.get("encoder_lengths", [4]) or [29])[-1]
        assert outputs.encoder_last_hidden_state.shape == (4, length, 16)


@variants()
def test_loss_is_the_mean_cross_entropy_of_what_is_labelled(case: Case) -> None:
    batch = case.batch()
    outputs = case.model()(**batch)
    labelled = batch["labels"] != -100
    expected = torch.nn.functional.cross_entropy(outputs.logits[labelled], batch["labels"][labelled])
    assert_close(outputs.loss.double(), expected, 1e-6)


@variants(*HEADS)
def test_every_parameter_gets_a_gradient(case: Case) -> None:
    model = case.model(layer_norm_eps=1e-5).train()
    loss_of(model(**case.batch())).backward()
    sizes = {name: float(gradient.abs().max()) for name, gradient in gradients(model).items()}
    missing = {name for name, size in sizes.items() if size < 1e-12 * max(sizes.values())}
    patterns = (KEY_BIAS, *case.variant.no_gradient)
    if case.head == SEQUENCE and case.variant.config.get("encoder_lengths", [1]) is None:
        patterns = (KEY_BIAS,)
    assert missing == {name for name in sizes if any(re.search(pattern, name) for pattern in patterns)}
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {name for name in sizes if re.search(r"pooling\.\d", name)} & missing or "hard" in str(case)


@variants(*HEADS)
def test_padding_changes_nothing(case: Case) -> None:
    model, rows = case.model(), case.documents()
    expected = results(model(**case.collate(rows)))
    for pad_to, garbage in ((32, False), (41, True)):
        actual = results(model(**case.collate(rows, pad_to, garbage)))
        for name in ("logits", "last_hidden_state"):
            if name in expected:
                assert_close(actual[name], expected[name])


@variants(*HEADS)
def test_alone_as_in_a_batch(case: Case) -> None:
    model, rows = case.model(), case.documents()
    together = results(model(**case.collate(rows)))
    name = "last_hidden_state" if case.head == MODEL else "logits"
    for place, row in enumerate(rows):
        alone = results(model(**case.collate([row])))[name][0]
        length = len(alone) if case.head != SEQUENCE else None
        assert_close(together[name][place][:length], alone)


@variants()
def test_order_of_the_batch(case: Case) -> None:
    model, rows = case.model(), case.documents()
    expected = model(**case.collate(rows)).logits
    permuted = model(**case.collate([rows[place] for place in (2, 0, 3, 1)])).logits
    assert_close(permuted, expected[[2, 0, 3, 1]])


@variants()
def test_padding_gives_no_gradient(case: Case) -> None:
    found = []
    for pad_to, garbage in ((0, False), (50, True)):
        model = case.model()
        model(**case.collate(case.documents(), pad_to, garbage)).loss.backward()
        found.append(gradients(model))
    assert_close(found[1], found[0], 1e-8)


@variants(*HEADS)
def test_backends_agree(case: Case) -> None:
    found = []
    for backend in ("eager", "sdpa"):
        model = case.model(attn_implementation=backend)
        outputs = model(**case.batch())
        loss_of(outputs).backward()
        found.append((results(outputs), gradients(model)))
    assert_close(found[1][0], found[0][0])
    assert_close(found[1][1], found[0][1])


@variants()
def test_hidden_states_and_attentions(case: Case) -> None:
    model = case.model(attn_implementation="eager")
    batch = case.batch()
    outputs = model(**batch, output_hidden_states=True, output_attentions=True)
    assert len(outputs.encoder_hidden_states) == 4
    assert len(outputs.decoder_hidden_states) == 3
    assert len(outputs.encoder_attentions) == 3
    assert len(outputs.decoder_attentions) == len(outputs.cross_attentions) == 2
    source = outputs.encoder_last_hidden_state.shape[1]
    for attention in (*outputs.encoder_attentions, *outputs.decoder_attentions, *outputs.cross_attentions):
        assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
    assert outputs.cross_attentions[0].shape == (4, 2, 7, source)
    size = case.config().block_size or 29
    assert outputs.encoder_attentions[0].shape[-1] == size
    assert_close(outputs.logits, model(**batch).logits)


@variants()
def test_nobody_attends_to_padding(case: Case) -> None:
    model = case.model(attn_implementation="eager")
    outputs = model(**case.batch(lengths=(3, 29)), output_attentions=True)
    assert (outputs.cross_attentions[0][0, :, :, 3:] == 0).all()


@heads()
def test_tuple_instead_of_a_dictionary(case: Case) -> None:
    model = case.model()
    named, plain = model(**case.batch()), model(**case.batch(), return_dict=False)
    assert isinstance(plain, tuple)
    assert torch.equal(plain[0], named.to_tuple()[0])


@heads(GENERATION, MODEL)
def test_the_encoders_tuple(case: Case) -> None:
    """What the encoder returns as a tuple is read as its output is, the mask of padding and all."""
    model, batch, target = case.model(), case.batch(labels=False), torch.full((4, 3), 5)
    expected = model(**batch, decoder_input_ids=target)[0]
    for recorded in (False, True):
        encoded = model.get_encoder()(**batch, return_dict=False, output_hidden_states=recorded)
        assert_close(model(encoder_outputs=encoded, decoder_input_ids=target)[0], expected)


@heads()
def test_embeddings_instead_of_ids(case: Case) -> None:
    model, batch = case.model(), case.batch()
    expected = results(model(**batch))
    embeddings = model.get_input_embeddings()(batch.pop("input_ids"))
    assert_close(results(model(**batch, inputs_embeds=embeddings)), expected)


@variants()
def test_mask_of_ones_is_no_mask(case: Case) -> None:
    model, batch = case.model(), case.batch(lengths=(17, 17))
    expected = model(**batch).logits
    mask = batch.pop("attention_mask")
    assert_close(model(**batch).logits, expected)
    assert_close(model(**batch, attention_mask=mask.double()).logits, expected)


@variants()
def test_a_row_of_padding_alone(case: Case) -> None:
    model = case.model(attention_probs_dropout_prob=0.2).train()
    batch = case.batch(lengths=(29, 29))
    batch["attention_mask"][1] = 0
    outputs = model(**batch)
    outputs.loss.backward()
    assert outputs.logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())


@variants()
def test_dropout_follows_the_seed(case: Case) -> None:
    model = case.model(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.3).train()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(model(**case.batch()).logits)
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


@variants()
def test_loss_falls_in_training_with_dropout(case: Case) -> None:
    model = case.model(torch.float32, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(60):
        loss = model(**case.batch()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("dropout", [0.0, 0.2], ids=["no dropout", "dropout"])
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non-reentrant"])
@variants()
def test_gradient_checkpointing(case: Case, reentrant: bool, dropout: float) -> None:
    if dropout and case.variant.name == "random":
        pytest.skip("draws its scores outside of the layers that are computed again")
    found = []
    for checkpointing in (False, True):
        model = case.model(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout).train()
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": reentrant})
        torch.manual_seed(4)
        outputs = model(**case.batch())
        outputs.loss.backward()
        found.append((outputs.logits, gradients(model)))
    assert_close(found[1][0], found[0][0])
    assert_close(found[1][1], found[0][1])


@variants(*HEADS)
def test_bf16_autocast(case: Case) -> None:
    model = case.model(torch.float32)
    exact = next(iter(results(model(**case.batch())).values()))
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**case.batch())
        loss = loss_of(outputs)
    loss.backward()
    rough = next(iter(results(outputs).values()))
    # A choice among nearly equal scores may fall otherwise, which changes some outputs altogether.
    assert (rough.double() - exact.double()).abs().median() < 0.05 * exact.double().abs().mean()
    found = gradients(model).values()
    assert all(gradient.isfinite().all() and gradient.dtype == torch.float32 for gradient in found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@variants(*HEADS)
def test_model_in_half(case: Case, dtype: torch.dtype) -> None:
    model = case.model(dtype)
    outputs = model(**case.batch())
    loss_of(outputs).backward()
    assert {value.dtype for value in results(outputs).values()} == {dtype}
    assert all(value.isfinite().all() for value in results(outputs).values())
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@heads()
def test_resized_embeddings(case: Case, tied: bool, tmp_path: Path) -> None:
    model, batch = case.model(tie_word_embeddings=tied), case.batch()
    with torch.no_grad():
        before = next(iter(results(model(**batch)).values()))
    model.resize_token_embeddings(67)
    assert model.config.vocab_size == 67
    with torch.no_grad():
        after = next(iter(results(model(**batch)).values()))
    if case.head == GENERATION:
        assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied
        assert after.shape[-1] == 67
    assert_close(after[..., : before.shape[-1]], before)
    batch["input_ids"][0, 1] = 66
    loss_of(model(**batch)).backward()
    assert (model.get_input_embeddings().weight.grad[66] != 0).any()
    model.float().save_pretrained(tmp_path)
    reloaded = type(model).from_pretrained(tmp_path)
    assert all(torch.equal(reloaded.state_dict()[name], value) for name, value in model.state_dict().items())


def train(case: Case, folder: Path, batch_size: int, accumulation: int) -> tuple[Any, list[float]]:
    """Two steps of Trainer over eight documents each; the model and the logged losses."""
    lengths = tuple(3 + 9 * (place % 3) for place in range(16))
    model = case.model(torch.float32)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            max_steps=2,
            learning_rate=1e-2,
            optim="sgd",
            lr_scheduler_type="constant",
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        ),
        train_dataset=case.documents(lengths),
        data_collator=case.collate,
    )
    trainer.train()
    return model, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@heads(GENERATION, SEQUENCE)
def test_gradient_accumulation(case: Case, tmp_path: Path) -> None:
    """Trainer: 1 x 8 documents and 4 x 2 end in the same weights, with the same losses."""
    expected, losses = train(case, tmp_path, 8, 1)
    model, accumulated = train(case, tmp_path, 2, 4)
    assert accumulated == pytest.approx(losses, rel=1e-3)
    assert_close(dict(model.named_parameters()), dict(expected.named_parameters()), 1e-4)


def refuses(model: torch.nn.Module, batch: dict[str, Any], sentence: str) -> None:
    """The model refuses the batch with the sentence, before it computes anything."""
    names: list[str] = []
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_pre_hook(lambda _module, _inputs, name=name: names.append(name))
    with pytest.raises(ValueError, match=sentence) as error:
        model(**batch)
    assert names == [], "computed before it looked"
    assert "\n" not in str(error.value)


@heads()
def test_bad_input(case: Case) -> None:
    model, batch = case.model(torch.float32), case.batch()
    mask = batch["attention_mask"]
    refuses(model, {**batch, "attention_mask": mask[:, :-1]}, "attention_mask has the shape .* pad it like input_ids")
    refuses(model, {**batch, "attention_mask": mask.flip(1)}, "begins with padding in row 1")
    refuses(model, {**batch, "input_ids": batch["input_ids"] + 60}, "input_ids holds .*resize_token_embeddings")
    refuses(model, {**batch, "input_ids": batch["input_ids"][0]}, r"input_ids has the shape \[29\]; pass a batch")
    refuses(model, {**batch, "input_ids": batch["input_ids"][:, :0], "attention_mask": None}, "without tokens")
    refuses(model, {**batch, "inputs_embeds": torch.zeros(4, 29, 16)}, "either input_ids or inputs_embeds")


@heads(GENERATION, MODEL)
def test_bad_summaries(case: Case) -> None:
    model, batch = case.model(torch.float32), case.batch()
    name = "labels" if case.head == GENERATION else "decoder_input_ids"
    for place in (0, -1):
        faulty = batch[name].clone()
        faulty[1, place] = 60
        refuses(model, {**batch, name: faulty}, rf"{name} holds 60 at token \d in row 1, outside 0..59")
    refuses(model, {**batch, name: batch[name][:3]}, rf"There are 4 documents but 3 rows of {name}")
    refuses(model, {**batch, name: batch[name][0]}, rf"{name} has the shape \[7\]; pass a batch")
    refuses(model, {**batch, name: batch[name].float()}, f"{name} has the dtype torch.float32; pass the ids")
    refuses(model, {**batch, name: batch[name][:, :0]}, f"{name} has no tokens; pass at least one")
    if case.head == GENERATION:
        read = {"decoder_input_ids": torch.full((4, 3), 5)}
        refuses(model, {**batch, **read}, r"reads \[4, 3\] tokens but labels has the shape \[4, 7\]; pass one label")
        refuses(model, {**batch, name: batch[name].masked_fill(batch[name] == -100, -1)}, "labels holds -1")
    for shape in ((4, 8), (3, 7)):
        mask = {"decoder_attention_mask": torch.ones(shape)}
        sentence = rf"decoder_attention_mask has the shape \[{shape[0]}, {shape[1]}\] .* need \[4, 7\]; pad it"
        refuses(model, {**batch, **mask}, sentence)


def test_layout_needs_boxes() -> None:
    case = Case(next(variant for variant in VARIANTS if variant.name == "layout"))
    model, batch = case.model(torch.float32), case.batch()
    refuses(model, {**batch, "bbox": None}, "bbox is missing: .*PyramidionProcessor")
    faulty = batch["bbox"].clone()
    faulty[1, 2] = torch.tensor([50, 0, 40, 9])
    refuses(model, {**batch, "bbox": faulty}, "token 2 in row 1 .*swapped corners.*PyramidionProcessor")
    other = model(**{**batch, "bbox": torch.zeros_like(batch["bbox"])}).logits
    assert not torch.allclose(other, model(**batch).logits)


@pytest.mark.parametrize("length", [5, 6, 24])
@variants()
def test_whole_blocks_alone_as_in_a_batch(case: Case, length: int) -> None:
    """Documents that fill their blocks need no mask until they are pooled, to fewer tokens than there is room for."""
    model = case.model()
    alone, longer = case.documents((length,)), case.documents((29,), seed=1)
    target = torch.full((2, 3), 5)
    expected = model(**case.collate(alone, labels=False), decoder_input_ids=target[:1]).logits
    batch = case.collate(alone + longer, labels=False)
    assert_close(model(**batch, decoder_input_ids=target).logits[:1], expected)


def test_longer_documents_than_the_config_names() -> None:
    case = Case(VARIANTS[0])
    model = case.model(torch.float32)
    outputs = model(**case.batch(lengths=(200, max(LENGTHS))))
    assert outputs.encoder_last_hidden_state.shape == (2, 4, 16)
    assert outputs.logits.isfinite().all()
