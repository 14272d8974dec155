"""The matrix products of a step alone: what is recorded of them is replayed without anything between."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

PRODUCTS = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::mv",
    "aten::addmv",
    "mkldnn::_linear_pointwise",
    "aten::_scaled_dot_product",  # the fused kernels, forward and backward; the unfused one is made of bmm
)


class TensorLike(NamedTuple):
    """What a product depends on in a tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class Product(NamedTuple):
    """A recorded call, with `TensorLike` where tensors stood."""

    function: Any
    args: Any
    kwargs: Any


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []
        self.flops = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        is_product = function._schema.name.startswith(PRODUCTS)
        if not is_product and torch.is_inference_mode_enabled():
            # There, nn.functional.linear and its like arrive in one piece.
            with self:
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = function(*args, **kwargs)
        if is_product:
            self.products.append(Product(function, _describe(args), _describe(kwargs)))
            self.flops += _flops(function, args, kwargs, result)
        return result


def record(step: Callable[[], None]) -> tuple[list[Product], int]:
    """The matrix products of a step, in order, and the floating point operations in them."""
    with _Recorder() as recorder:
        step()
    return recorder.products, recorder.flops


def make_replay(products: list[Product]) -> Callable[[], None]:
    """
    A step that computes the products and nothing else.

    Tensors are random, and one serves all products that take its like: memory stays small, and the caches a little
    warmer than within the model.
    """
    tensors: dict[tuple[TensorLike, int], torch.Tensor] = {}

    def realise(call: Product) -> Product:
        place = iter(range(100))

        def tensor(like: TensorLike) -> torch.Tensor:
            key = (like, next(place))
            if key not in tensors:
                tensors[key] = _random(like)
            return tensors[key]

        args, kwargs = tree_map_only(
            TensorLike, tensor, (call.args, call.kwargs), is_leaf=lambda leaf: isinstance(leaf, TensorLike)
        )
        return Product(call.function, args, kwargs)

    calls = [realise(call) for call in products]

    def replay() -> None:
        with torch.no_grad():
            for function, args, kwargs in calls:
                function(*args, **kwargs)

    return replay


def _describe(values: Any) -> Any:
    return tree_map_only(
        torch.Tensor, lambda t: TensorLike(tuple(t.shape), tuple(t.stride()), t.dtype, t.device), values
    )


def _random(like: TensorLike) -> torch.Tensor:
    tensor = torch.empty_strided(like.shape, like.stride, dtype=like.dtype, device=like.device)
    # Fused kernels take seeds and counts as integers.
    return tensor.normal_() if like.dtype.is_floating_point else tensor.zero_()


def _flops(function: Any, args: Any, kwargs: Any, result: Any) -> int:
    # What torch's counter does not know.
    if function is torch.ops.mkldnn._linear_pointwise.default:
        return 2 * args[0].numel() * args[1].shape[0]
    if function is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
        return flop_counter.sdpa_flop_count(*(tensor.shape for tensor in args[:3]))
    if function is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default:
        return flop_counter.sdpa_backward_flop_count(*(tensor.shape for tensor in args[:4]))
    formula = flop_counter.flop_registry.get(function._overloadpacket)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=result))
