import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import RobertaConfig, RobertaForTokenClassification
from transformers.models.t5.modeling_t5 import T5Attention

from broadsheet.modeling import attention_blocks
from broadsheet.modeling.biased_attention import biased_attention, biased_probabilities, share_bias
from broadsheet.modeling.configuration_lambert import LambertConfig
from broadsheet.modeling.layout_sinusoids import sinusoidal_layout
from broadsheet.modeling.modeling_lambert import LambertForMaskedLM, LambertForTokenClassification, LambertModel
from broadsheet.modeling.relative_bias import RelativeBias, log_buckets
from broadsheet.modeling.seeded_dropout import keep_mask, keep_scale

HEADS = 2


def test_sinusoids_by_hand():
    bbox = torch.tensor([[[0.0, 0.25, 0.5, 1.0]]], dtype=torch.float64)
    embedding = sinusoidal_layout(bbox, 16)[0, 0]
    theta = [1.0, 500.0]
    expected = []
    for t in (0.0, 0.25, 0.5, 1.0):
        expected += [math.sin(t * factor) for factor in theta] + [math.cos(t * factor) for factor in theta]
    torch.testing.assert_close(embedding, torch.tensor(expected, dtype=torch.float64))


def test_log_buckets_are_those_of_t5():
    difference = torch.arange(-300, 300)
    for buckets, reach in ((32, 128), (32, 64), (8, 20)):
        expected = T5Attention._relative_position_bucket(difference, True, buckets, reach)
        assert torch.equal(log_buckets(difference, buckets, reach), expected)


def tables(kind, max_distance=4):
    bias = RelativeBias(HEADS, kind, True, True, True, max_distance).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in bias.parameters():
        parameter.data = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    return bias


def boxes(length=7, batch=2):
    corners = torch.rand(batch, length, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    bbox = corners.sort(2).values.flatten(2)
    bbox[:, 1] = bbox[:, 2]
    return bbox


def test_grid_bias_entry_by_entry():
    bias, bbox = tables("grid"), boxes()
    computed = bias(bbox)
    for b in range(2):
        for i in range(7):
            for j in range(7):
                xi = 100 * (bbox[b, i, 0] - bbox[b, j, 0])
                eta = 50 * (bbox[b, i, 1] + bbox[b, i, 3]) - 50 * (bbox[b, j, 1] + bbox[b, j, 3])
                rows = [min(max(math.floor(value), -100), 99) + 100 for value in (xi, eta)]
                text = min(max(i - j, -4), 4) + 4
                expected = (
                    bias.sequential.weight[text] + bias.horizontal.weight[rows[0]] + bias.vertical.weight[rows[1]]
                )
                torch.testing.assert_close(computed[b, :, i, j], expected)


def test_log_bucket_bias_entry_by_entry():
    bias, bbox = tables("log_buckets"), boxes()
    computed = bias(bbox)
    for i in range(7):
        for j in range(7):
            xi = torch.tensor(int(100 * (bbox[0, j, 0] - bbox[0, i, 0])))
            eta = torch.tensor(int(50 * (bbox[0, j, 1] + bbox[0, j, 3]) - 50 * (bbox[0, i, 1] + bbox[0, i, 3])))
            expected = (
                bias.sequential.weight[log_buckets(torch.tensor(j - i), 32, 128)]
                + bias.horizontal.weight[log_buckets(xi, 32, 64)]
                + bias.vertical.weight[log_buckets(eta, 32, 64)]
            )
            torch.testing.assert_close(computed[0, :, i, j], expected)


def test_tables_get_the_gradient_of_plain_indexing():
    bias, bbox = tables("grid"), boxes()
    weight = torch.randn(2, HEADS, 7, 7, dtype=torch.float64)
    (bias(bbox) * weight).sum().backward()
    index = bias.page_index(100 * bbox[..., 0])
    plain = bias.horizontal.weight.detach().requires_grad_()
    (plain[index].permute(0, 3, 1, 2) * weight).sum().backward()
    torch.testing.assert_close(bias.horizontal.weight.grad, plain.grad)


def attention_inputs(length, shared):
    generator = torch.Generator().manual_seed(length)
    tensors = [torch.randn(3, HEADS, length, 5, dtype=torch.float64, generator=generator) for _ in range(6)]
    bias = torch.randn(1 if shared else 3, HEADS, length, length, dtype=torch.float64, generator=generator)
    mask = torch.ones(3, 1, 1, length, dtype=torch.bool)
    mask[1, ..., (length + 1) // 2 :] = False
    return [tensor.requires_grad_() for tensor in tensors], bias.requires_grad_(), mask


@pytest.mark.parametrize("length", [1, 2, 9, 31])
@pytest.mark.parametrize("shared_by_documents", [True, False])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_two_layers_with_one_bias_equal_the_plain_form(length, shared_by_documents, rate, monkeypatch):
    monkeypatch.setattr(attention_blocks, "CPU_BLOCK", HEADS * length * 4)
    tensors, bias, mask = attention_inputs(length, shared_by_documents)
    shared = share_bias(bias)
    layers = (tensors[:3], tensors[3:])
    fast = sum(biased_attention(*qkv, shared, mask, 0.4, rate, seed) for seed, qkv in enumerate(layers))
    plain = 0
    for seed, (query, key, value) in enumerate(layers):
        probabilities = biased_probabilities(query, key, bias, mask, 0.4)
        if rate:
            keep = torch.zeros_like(probabilities)
            for block in attention_blocks.row_blocks(query):
                shape = block.of(probabilities).shape
                block.of(keep).copy_(keep_mask(tuple(shape), rate, seed + block.number))
            probabilities = probabilities * keep * keep_scale(rate)
        plain = plain + probabilities @ value
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)
    weight = torch.randn(fast.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    everything = [*tensors, bias]
    for mine, theirs in zip(
        torch.autograd.grad((fast * weight).sum(), everything),
        torch.autograd.grad((plain * weight).sum(), everything),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_a_pass_for_other_inputs_leaves_nothing_to_the_bias():
    tensors, bias, _ = attention_inputs(7, False)
    gradients = []
    for value_first in (False, True):
        output = biased_attention(*tensors[:3], share_bias(bias), None, 0.4)
        if value_first:
            torch.autograd.grad(output.sum(), tensors[2], retain_graph=True)
        gradients.append(torch.autograd.grad(output.square().sum(), bias)[0])
    assert torch.equal(*gradients)


def test_layers_of_another_pass_are_no_part_of_the_sum():
    tensors, bias, _ = attention_inputs(7, False)
    shared = share_bias(bias)
    early, late = (biased_attention(*qkv, shared, None, 0.4) for qkv in (tensors[:3], tensors[3:]))
    torch.autograd.grad(early.sum(), tensors[2], retain_graph=True)
    with pytest.raises(RuntimeError, match="1 layers read the bias .* but 2 left gradients"):
        torch.autograd.grad(late.sum(), bias, retain_graph=True)
    both = torch.autograd.grad((early + late).square().sum(), bias)[0]
    plain = sum(biased_probabilities(*qkv[:2], bias, None, 0.4) @ qkv[2] for qkv in (tensors[:3], tensors[3:]))
    torch.testing.assert_close(both, torch.autograd.grad(plain.square().sum(), bias)[0])


def test_half_precision_gradients_over_many_blocks(monkeypatch):
    monkeypatch.setattr(attention_blocks, "CPU_BLOCK", HEADS * 256 * 4)
    tensors, bias, _ = attention_inputs(256, True)
    errors = []
    for plain in (True, False):
        halves = [tensor.detach().bfloat16().requires_grad_() for tensor in tensors[:3]]
        exact = [tensor.detach().double().requires_grad_() for tensor in halves]
        if plain:
            output = biased_probabilities(*halves[:2], bias.float(), None, 0.4).bfloat16() @ halves[2]
        else:
            output = biased_attention(*halves, share_bias(bias.float()), None, 0.4)
        (output.float() + output.float().square()).sum().backward()
        expected = biased_probabilities(*exact[:2], bias, None, 0.4) @ exact[2]
        (expected + expected.square()).sum().backward()
        pairs = zip(halves, exact, strict=True)
        errors.append([((half.grad - true.grad).norm() / true.grad.norm()).item() for half, true in pairs])
    for by_blocks, in_one in zip(errors[1], errors[0], strict=True):
        assert by_blocks < 1.5 * in_one


def roberta(**changes):
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        **changes,
    )
    return RobertaForTokenClassification(config).eval()


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_a_roberta_checkpoint_gives_robertas_outputs(backend, tmp_path):
    parent = roberta()
    parent.save_pretrained(tmp_path)
    model = LambertForTokenClassification.from_pretrained(tmp_path, attn_implementation=backend).eval()
    parent.set_attn_implementation(backend)
    input_ids = torch.randint(2, 99, (2, 30), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(input_ids)
    mask[1, 20:] = 0
    input_ids[1, 20:] = 1
    corners = torch.rand(2, 30, 2, 2).sort(2).values.flatten(2)
    with torch.no_grad():
        ours = model(input_ids=input_ids, bbox=corners, attention_mask=mask).logits[mask.bool()]
        theirs = parent(input_ids=input_ids, attention_mask=mask).logits[mask.bool()]
    if backend == "eager":
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_parameters_at_base_size():
    with torch.device("meta"):
        model = LambertForMaskedLM(LambertConfig())
    # RoBERTa's 124,697,433, the adapter 768 * 769, and the tables (1,025 + 200 + 200) * 12.
    assert model.num_parameters() == 124_697_433 + 768 * 769 + 1_425 * 12


def test_one_set_of_tables_for_all_layers():
    with torch.device("meta"):
        model = LambertModel(LambertConfig())
    assert len([name for name, _ in model.named_parameters() if "relative_bias" in name]) == 3


class CountResults(TorchDispatchMode):
    """How many operations made a tensor of this shape, views apart."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.count = shape, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        made = isinstance(result, torch.Tensor) and result.shape == self.shape
        self.count += made and result.untyped_storage().data_ptr() not in self.seen(args)
        return result

    def seen(self, args):
        return {value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("half", [False, True])
def test_layers_make_no_copy_of_the_bias(half):
    config = LambertConfig(
        vocab_size=10,
        hidden_size=24,
        num_hidden_layers=5,
        num_attention_heads=3,
        intermediate_size=8,
        bias_init="normal",
    )
    model = LambertModel(config).eval()
    bbox, mask = boxes(9).float(), torch.ones(2, 9)
    mask[1, 6:] = 0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        with CountResults((2, 3, 9, 9)) as made:
            fast = model(torch.full((2, 9), 7), bbox, mask).last_hidden_state
        plain = model(torch.full((2, 9), 7), bbox, mask, output_attentions=True).last_hidden_state
    assert made.count == 1 + half
    torch.testing.assert_close(fast[mask.bool()], plain[mask.bool()], atol=0.1 if half else 1e-5, rtol=0)


def test_starts_at_zero_or_as_the_authors_do():
    tiny = {
        "vocab_size": 20,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    zero = LambertModel(LambertConfig(**tiny))
    assert not zero.embeddings.layout_adapter.weight.any()
    assert not any(parameter.any() for parameter in zero.relative_bias.parameters())
    normal = LambertModel(LambertConfig(**tiny, adapter_init="normal", bias_init="normal"))
    assert normal.embeddings.layout_adapter.weight.std() > 0.01
    assert 0.8 < normal.relative_bias.sequential.weight.std() < 1.2


def test_without_sequential_embeddings_inputs_have_any_length():
    tiny = {
        "vocab_size": 20,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    model = LambertModel(LambertConfig(**tiny, use_sequential_embeddings=False, max_position_embeddings=10)).eval()
    assert model(torch.full((1, 700), 5), torch.zeros(1, 700, 4)).last_hidden_state.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 770}, "no multiple of num_attention_heads"),
        ({"num_attention_heads": 0}, "num_attention_heads=0 is too small; set it to 1 or more"),
        ({"num_attention_heads": -12}, "num_attention_heads=-12 is too small"),
        ({"hidden_size": 36}, "no multiple of 8"),
        ({"relative_bias": "t5"}, "relative_bias"),
        ({"pad_token_id": None}, "set pad_token_id"),
        ({"max_sequential_distance": 0}, "set it to 1 or more"),
        ({"attention_probs_dropout_prob": 1.0}, "attention_probs_dropout_prob=1.0 is no dropout rate"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(Exception, match=message):
        LambertConfig(**changes)
