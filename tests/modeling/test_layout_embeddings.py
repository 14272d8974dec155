import pytest
import torch
from tests.family.boxes import integer_boxes

from broadsheet.modeling.layout_embeddings import LayoutEmbeddings, PositionEmbeddings, check_bbox

ROWS, SIZE, EPS = 50, 6, 1e-12


def embeddings(centers_only: bool = False, dropout: float = 0.0) -> LayoutEmbeddings:
    torch.manual_seed(0)
    module = LayoutEmbeddings(ROWS, SIZE, EPS, dropout, centers_only).double()
    torch.nn.init.normal_(module.LayerNorm.weight)
    torch.nn.init.normal_(module.LayerNorm.bias)
    return module


def normalised(vector: torch.Tensor, norm: torch.nn.LayerNorm) -> torch.Tensor:
    centred = vector - vector.mean()
    return centred / ((centred**2).mean() + EPS) ** 0.5 * norm.weight + norm.bias


def test_equation_2_by_hand() -> None:
    module = embeddings()
    bbox = integer_boxes(9, ROWS, torch.Generator().manual_seed(1))[None]
    tables = {name: getattr(module, f"{name}_position_embeddings").weight for name in "xywh"}
    actual = module(bbox)
    assert actual.shape == (1, 9, SIZE)
    for token, (x0, y0, x1, y1) in enumerate(bbox[0].tolist()):
        total = tables["x"][x0] + tables["y"][y0] + tables["x"][x1] + tables["y"][y1]
        total = total + tables["w"][x1 - x0] + tables["h"][y1 - y0]
        torch.testing.assert_close(actual[0, token], normalised(total, module.LayerNorm))


def test_degraded_layout_by_hand() -> None:
    module = embeddings(centers_only=True)
    assert {name.split(".")[0] for name, _ in module.named_parameters()} == {
        "x_position_embeddings",
        "y_position_embeddings",
        "LayerNorm",
    }
    actual = module(torch.tensor([[[3, 10, 6, 21]]]))  # centre 4.5, 15.5: rounded down
    total = module.x_position_embeddings.weight[4] + module.y_position_embeddings.weight[15]
    torch.testing.assert_close(actual[0, 0], normalised(total, module.LayerNorm))


def test_boxes_with_one_centre_are_one_in_the_degraded_layout() -> None:
    bbox = torch.tensor([[[10, 10, 20, 20], [14, 14, 16, 16]]])
    degraded, full = embeddings(centers_only=True)(bbox)[0], embeddings()(bbox)[0]
    assert torch.equal(degraded[0], degraded[1])
    assert not torch.allclose(full[0], full[1])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_kinds_of_integers(dtype: torch.dtype) -> None:
    bbox = integer_boxes(9, ROWS, torch.Generator().manual_seed(1))[None]
    assert torch.equal(embeddings()(bbox.to(dtype)), embeddings()(bbox))


def test_dropout_comes_after_the_norm() -> None:
    module = embeddings(dropout=0.5).train()
    bbox = integer_boxes(40, ROWS, torch.Generator().manual_seed(1))[None]
    dropped, full = module(bbox), module.eval()(bbox)
    assert ((dropped == 0) | torch.isclose(dropped, 2 * full)).all()
    assert 0.3 < float((dropped == 0).double().mean()) < 0.7


def test_positions_by_hand() -> None:
    module = PositionEmbeddings(7, SIZE, EPS, 0.0).double()
    actual = module(torch.Size((2, 5)))
    assert actual.shape == (2, 5, SIZE)
    for position in range(5):
        expected = normalised(module.position_embeddings.weight[position], module.LayerNorm)
        torch.testing.assert_close(actual[0, position], expected)
        torch.testing.assert_close(actual[1, position], expected)
    assert module(torch.Size((1, 7))).shape == (1, 7, SIZE)


def test_each_document_has_a_dropout_of_its_own() -> None:
    embedding = PositionEmbeddings(70, SIZE, EPS, 0.5)(torch.Size((2, 70)))
    assert not torch.equal(embedding[0] == 0, embedding[1] == 0)


def test_more_tokens_than_positions() -> None:
    with pytest.raises(ValueError, match=r"8 tokens .* 7 positions; cut it into windows .*max_length=7"):
        PositionEmbeddings(7, SIZE, EPS, 0.0)(torch.Size((1, 8)))


def test_edges_of_the_range_are_accepted() -> None:
    bbox = torch.tensor([[[0, 0, 0, 0], [ROWS - 1] * 4, [0, 0, ROWS - 1, ROWS - 1]]])
    check_bbox(bbox, torch.Size((1, 3)), ROWS, "Processor")
    assert embeddings()(bbox).isfinite().all()


@pytest.mark.parametrize(
    ("box", "says"),
    [
        ([0, 0, ROWS, 5], rf"box \[0, 0, {ROWS}, 5\] of token 1 in row 0 is outside 0..{ROWS - 1}"),
        ([0, -3, 5, 5], r"box \[0, -3, 5, 5\] of token 1 in row 0"),
        ([9, 0, 5, 5], r"box \[9, 0, 5, 5\] .* swapped corners"),
        ([0, 9, 5, 5], r"box \[0, 9, 5, 5\] .* swapped corners"),
    ],
)
def test_boxes_at_fault(box: list[int], says: str) -> None:
    bbox = torch.tensor([[[0, 0, 1, 1], box, box]])
    with pytest.raises(ValueError, match=says + ".*pass boxes in page units and page_sizes to SomeProcessor"):
        check_bbox(bbox, torch.Size((1, 3)), ROWS, "SomeProcessor")
