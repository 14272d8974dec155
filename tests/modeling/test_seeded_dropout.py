import pytest
import torch

from broadsheet.modeling.seeded_dropout import LEVELS, Dropout, draw_seed, drop, keep_mask, keep_scale, seed_of_table


def test_the_same_seed_keeps_the_same() -> None:
    first = keep_mask((3, 5, 7), 0.4, 11)
    assert first.shape == (3, 5, 7)
    assert first.dtype == torch.bool
    torch.manual_seed(5)  # the default generator has no part in it
    assert torch.equal(first, keep_mask((3, 5, 7), 0.4, 11))
    assert not torch.equal(first, keep_mask((3, 5, 7), 0.4, 12))


def test_blocks_of_several_tables_draw_apart() -> None:
    seed = draw_seed()
    masks = {
        tuple(keep_mask((64,), 0.5, seed_of_table(seed, table) + block).tolist())
        for table in range(12)
        for block in range(100)
    }
    assert len(masks) == 1200


def test_the_default_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    keep_mask((100,), 0.5, 1)
    assert torch.equal(torch.rand(4), expected)


def test_seeds_follow_manual_seed() -> None:
    torch.manual_seed(9)
    first, second = draw_seed(), draw_seed()
    assert first != second
    torch.manual_seed(9)
    assert (first, second) == (draw_seed(), draw_seed())


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_rate(rate: float) -> None:
    """The share kept is within five standard deviations of 1 - rate, in every quarter of the 64-bit numbers."""
    kept = keep_mask((400_000,), rate, 1).view(-1, 4).double().mean(0)
    assert ((kept - (1 - rate)).abs() < 5 * (rate * (1 - rate) / 100_000) ** 0.5).all()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1, 5)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    assert keep_mask(shape, 0.5, 1).shape == shape


def test_neighbouring_seeds_and_elements_are_independent() -> None:
    first, second = (keep_mask((200_000,), 0.5, seed).double() - 0.5 for seed in (7, 8))
    for one, other in ((first, second), (first[1:], first[:-1]), (first[4:], first[:-4])):
        correlation = float((one * other).mean() / 0.25)
        assert abs(correlation) < 5 / 200_000**0.5


@pytest.mark.parametrize("rate", [0.1, 1 / 3, 0.00002, 0.99999])
def test_scale_makes_the_expectation_exact(rate: float) -> None:
    """Of all 65,536 levels, the kept ones times the scale are 65,536 again."""
    dropped = round(rate * LEVELS)
    assert keep_scale(rate) * (LEVELS - dropped) == pytest.approx(LEVELS, rel=1e-15)


def test_nothing_is_dropped_at_rate_zero() -> None:
    assert keep_mask((1000,), 0.0, 1).all()
    assert keep_scale(0.0) == 1.0


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_rates_out_of_range(rate: float) -> None:
    with pytest.raises(ValueError, match=f"dropout rate is {rate}; it must be at least 0 and below 1"):
        keep_mask((2,), rate, 1)


def test_drop_scales_what_is_kept() -> None:
    values = torch.randn(6, 35)
    keep = keep_mask((6, 35), 0.3, 5)
    torch.testing.assert_close(drop(values, 0.3, 5), torch.where(keep, values * keep_scale(0.3), 0.0))
    assert drop(values, 0.0, 5) is values


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_layer_drops_the_same_in_both_directions(dtype: torch.dtype) -> None:
    layer, values = Dropout(0.4).train(), torch.ones(50, 21, dtype=dtype, requires_grad=True)
    torch.manual_seed(2)
    dropped = layer(values)
    dropped.backward(torch.full_like(values, 2))
    assert values.grad is not None
    assert torch.equal(values.grad, 2 * dropped)
    assert 0.3 < float((dropped == 0).double().mean()) < 0.5
    torch.manual_seed(2)
    assert torch.equal(layer(values), dropped)
    assert not torch.equal(layer(values), dropped)


def test_layer_keeps_no_mask() -> None:
    saved: list[torch.Tensor] = []
    values = torch.randn(10, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor
    ):
        Dropout(0.5).train()(values)
    assert saved == []


def test_layer_does_nothing_in_evaluation_and_at_rate_zero() -> None:
    values = torch.randn(10)
    assert torch.equal(Dropout(0.5).eval()(values), values)
    assert torch.equal(Dropout(0.0).train()(values), values)


def test_gradient_of_the_gradient_through_the_layer() -> None:
    layer, values = Dropout(0.5).train(), torch.randn(9, dtype=torch.float64, requires_grad=True)

    def function(inputs: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(4)
        return layer(inputs.square())

    assert torch.autograd.gradcheck(function, values)
    assert torch.autograd.gradgradcheck(function, values)
