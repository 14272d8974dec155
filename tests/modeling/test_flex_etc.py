"""ETC's attention by FlexAttention, with Rich Attention or relative positions, equals its other forms."""

import pytest
import torch
from tests.family.members.formnet import FORMNET
from tests.family.spec import MODEL, Case
from tests.modeling.test_rich_attention import HEADS, SIZE, randn, relative, rich, some_places
from torch.nn.attention.flex_attention import create_mask

from broadsheet.modeling import flex_kernel
from broadsheet.modeling.flex_etc import BLOCK, etc_block_mask, etc_scores
from broadsheet.modeling.flex_kernel import can_flex

VARIANTS = {variant.name: variant for variant in FORMNET.variants}


@pytest.mark.parametrize("kind", ["rich", "three axes", "relative"])
def test_the_score_function_is_the_plain_form(kind):
    """Over all pairs, in values and gradients; what the kernel calls pair by pair."""
    module = {"rich": rich, "three axes": lambda: rich(3), "relative": lambda: relative(3)}[kind]()
    batch, length, num_global = 2, 11, 2
    places = some_places(batch, length, 3 if kind == "three axes" else 2)
    query = randn(batch, HEADS, length, SIZE).requires_grad_()
    key = randn(batch, HEADS, length + num_global, SIZE, seed=2).requires_grad_()
    scores = randn(batch, HEADS, length, length + num_global, seed=3)
    padded = torch.nn.functional.pad(places, (0, 0, 0, num_global), value=77.0)
    function = etc_scores(module.terms(num_global), *module.numbers(query, key, padded), num_global)
    for dimensions in ((0, None, None, None, 0), (0, None, None, 0, None), (0, None, 0, None, None)):
        function = torch.vmap(function, in_dims=dimensions)
    function = torch.vmap(function, in_dims=(0, 0, None, None, None))
    made = function(scores, *map(torch.arange, scores.shape))
    terms = module.dense_terms(query, key[:, :, :length], places)
    expected = scores + torch.nn.functional.pad(terms, (0, num_global))
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-12)
    inputs = [query, key, *module.parameters()]
    weight = randn(*made.shape, seed=4)
    for mine, theirs in zip(
        *(torch.autograd.grad((each * weight).sum(), inputs, allow_unused=True) for each in (made, expected)),
        strict=True,
    ):
        zero = torch.zeros(())
        torch.testing.assert_close(
            zero if mine is None else mine, zero if theirs is None else theirs, check_dtype=False
        )


@pytest.mark.parametrize("length", [1, 127, 128, 129, 700])
@pytest.mark.parametrize(("radius", "num_global"), [(1, 1), (84, 3), (128, 1), (1000, 130)])
def test_the_block_mask_is_who_attends_to_whom(length, radius, num_global):
    total = length + num_global
    mask = torch.ones(2, total, dtype=torch.bool)
    mask[1, length // 2 : length] = False
    blocks = etc_block_mask(mask, radius, num_global)
    made = create_mask(blocks.mask_mod, 2, None, length, total, device="cpu")[:, 0]
    offset = torch.arange(total)[None, :] - torch.arange(length)[:, None]
    expected = ((offset.abs() <= radius) | (torch.arange(total) >= length)) & mask[:, None]
    assert torch.equal(made, expected)
    rows, columns = blocks.to_dense().shape[-2:]
    padded = torch.zeros(rows * BLOCK, columns * BLOCK, dtype=torch.bool)
    # Without padding: the blocks are those of all documents.
    padded[:length, :total] = (offset.abs() <= radius) | (torch.arange(total) >= length)
    needed = padded.view(rows, BLOCK, columns, BLOCK).any(3).any(1)
    assert torch.equal(blocks.to_dense()[0, 0].bool(), needed)


@pytest.mark.parametrize("name", VARIANTS)
def test_equals_the_other_forms(name):
    case = Case(FORMNET, VARIANTS[name], MODEL)
    outputs = []
    for backend in ("eager", "sdpa", "flex_attention"):
        model = case.model(torch.float32, attn_implementation=backend)
        batch = case.batch(model.config, (300, 40))
        with torch.no_grad():
            output = model(**batch)
        outputs.append((output.last_hidden_state[batch["attention_mask"].bool()], output.pooler_output))
    for other in outputs[:2]:
        for mine, theirs in zip(outputs[2], other, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


def test_flex_attention_is_what_runs(monkeypatch):
    """Where it can; with gradients, or where it cannot, the one sparse attention takes its place."""
    from broadsheet.modeling import etc_attention

    case, ran = Case(FORMNET, VARIANTS["rich"], MODEL), []
    own = etc_attention.flex_etc_attention
    monkeypatch.setattr(etc_attention, "flex_etc_attention", lambda *args: ran.append(1) or own(*args))
    model = case.model(torch.float32, attn_implementation="flex_attention")
    batch = case.batch(model.config, (20,))
    with torch.no_grad():
        inferred = model(**batch).last_hidden_state
    assert len(ran) == model.config.num_hidden_layers
    trained = model(**batch).last_hidden_state
    monkeypatch.setattr(flex_kernel, "can_flex", lambda device, head_size: False)
    with torch.no_grad():
        without = model(**batch).last_hidden_state
    assert len(ran) == model.config.num_hidden_layers
    assert torch.equal(trained, without)
    torch.testing.assert_close(inferred, without, rtol=0, atol=1e-5)


def test_where_the_kernel_runs():
    assert can_flex(torch.device("cpu"), 4)
    assert not can_flex(torch.device("cuda"), 8)  # its tiles have 16 columns
    assert not can_flex(torch.device("meta"), 64)


def test_training_takes_the_form_that_has_gradients():
    gradients = []
    for backend in ("sdpa", "flex_attention"):
        case = Case(FORMNET, VARIANTS["both"], MODEL)
        model = case.model(torch.float32, attn_implementation=backend)
        model(**case.batch(model.config, (20,))).last_hidden_state.square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert gradient is None or torch.equal(gradient, gradients[1][name]), name


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["both", "etc"])
def test_on_cuda(name):
    case = Case(FORMNET, VARIANTS[name], MODEL)
    length, heads = 4096, 4
    outputs, peaks = [], []
    for backend in ("eager", "sdpa", "flex_attention"):
        sizes = {"hidden_size": 128, "num_attention_heads": heads, "local_radius": 84}
        model = case.model(torch.float32, attn_implementation=backend, **sizes).cuda()
        batch = {key: value.cuda() for key, value in case.batch(model.config, (length, 900)).items()}
        assert can_flex(batch["input_ids"].device, 32)
        for _ in range(2):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            with torch.no_grad():
                output = model(**batch).last_hidden_state[batch["attention_mask"].bool()]
        peaks.append(torch.cuda.max_memory_allocated() - before)
        outputs.append(output)
    for other in outputs[:2]:
        torch.testing.assert_close(outputs[2], other, rtol=0, atol=1e-4)
    # No tensor of length x length: the scores alone have 4 bytes for each document, head, query and key.
    assert peaks[2] < 2 * heads * length * length * 4 < peaks[0]
