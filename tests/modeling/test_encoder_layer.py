"""The shared layer against transformers' BERT, whose names its parameters carry."""

import pytest
import torch
from tests.family.spec import disturb
from transformers import BertConfig
from transformers.masking_utils import create_bidirectional_mask
from transformers.models.bert.modeling_bert import BertLayer

from broadsheet.modeling.encoder_layer import EncoderLayer, SelfAttention, eager_attention, merge_heads, split_heads

CONFIG = {
    "hidden_size": 12,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def layers(backend: str, dropout: float = 0.0) -> tuple[EncoderLayer, BertLayer]:
    config = BertConfig(**CONFIG, attn_implementation=backend)
    theirs = disturb(BertLayer(config)).double()
    attention = SelfAttention(config, 12, 3, dropout)
    ours = EncoderLayer(attention, 12, 12, 20, "gelu", config.layer_norm_eps, dropout).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("length", [1, 9])
def test_is_berts_layer(backend: str, masked: bool, length: int) -> None:
    ours, theirs = layers(backend)
    states = torch.randn(2, length, 12, dtype=torch.float64)
    mask = torch.ones(2, length, dtype=torch.long)
    if masked and length > 1:
        mask[0, length // 2 :] = 0
    extended = create_bidirectional_mask(theirs.attention.self.config, states, mask)
    results = []
    for layer in (ours, theirs):
        inputs = states.clone().requires_grad_()
        output = layer(inputs, extended)
        output = output[0] if isinstance(output, tuple) else output
        output.sin().sum().backward()
        results.append((output, inputs.grad, {name: value.grad for name, value in layer.named_parameters()}))
    # transformers' eager softmax rounds to float32.
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_parameters_have_berts_names() -> None:
    ours, theirs = layers("sdpa")
    assert ours.state_dict().keys() == theirs.state_dict().keys()


def test_eager_attention_by_hand() -> None:
    query, key, value = torch.randn(3, 2, 3, 5, 4, dtype=torch.float64)
    mask = torch.zeros(2, 1, 1, 5, dtype=torch.float64)
    mask[0, ..., 3:] = torch.finfo(torch.float64).min
    output, probabilities = eager_attention(torch.nn.Identity(), query, key, value, mask, scaling=0.7)
    assert output.shape == (2, 5, 3, 4)
    for b, h, i in ((0, 1, 2), (1, 2, 4)):
        scores = torch.stack([query[b, h, i] @ key[b, h, j] * 0.7 for j in range(3 if b == 0 else 5)]).exp()
        weights = scores / scores.sum()
        torch.testing.assert_close(probabilities[b, h, i, : len(weights)], weights)
        torch.testing.assert_close(output[b, i, h], weights @ value[b, h, : len(weights)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_eager_attention_of_padding_alone_is_finite(dtype: torch.dtype) -> None:
    query, key, value = torch.randn(3, 1, 2, 4, 3).to(dtype)
    mask = torch.full((1, 1, 4, 4), torch.finfo(dtype).min, dtype=dtype)
    output, probabilities = eager_attention(torch.nn.Identity(), query, key, value, mask, scaling=1.0)
    assert output.dtype == probabilities.dtype == dtype
    assert output.isfinite().all()


def test_split_and_merge_heads() -> None:
    states = torch.arange(2 * 3 * 8).view(2, 3, 8)
    split = split_heads(states, 4)
    assert split.shape == (2, 2, 3, 4)
    assert split[1, 1, 2].tolist() == states[1, 2, 4:].tolist()
    assert torch.equal(merge_heads(split), states)


def test_dropout_is_off_in_evaluation() -> None:
    ours, _ = layers("eager", dropout=0.5)
    states = torch.randn(1, 6, 12, dtype=torch.float64)
    assert torch.equal(ours.eval()(states), ours(states))
    assert not torch.equal(ours.train()(states), ours(states))
