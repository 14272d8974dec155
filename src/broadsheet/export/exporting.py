"""Write an encoder down as a graph: for every batch size and length, equal to the model at all of them."""

import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError

FORMATS = ("onnx", "int8", "torch")
_PACKAGES = {"onnx": ("onnx", "onnxscript"), "int8": ("onnx", "onnxscript", "onnxruntime"), "torch": ()}
ONNX_FILE, TORCH_FILE = "model.onnx", "model.pt2"


def export_model(
    model: Any, processor: Any, folder: str | Path, form: str = "onnx", length: int | None = None
) -> Path:
    """
    Export an encoder with its head, and save its processor and config beside the graph.

    Args:
        model: a model of the family, base or with a head, in float32.
        processor: its processor.
        folder: where to write; `model.onnx` with `model.onnx.data`, or `model.pt2`.
        form: "onnx"; "int8", ONNX with the weights of its matrix products in 8 bits; "torch", for `torch.export.load`.
        length: tokens of the documents that it is traced with; chosen by the model's windows when None. The graph
            takes any other.

    Returns:
        The graph's file.

    Raises:
        InputError: for another form, a missing package, or a model whose graph depends on its documents' lengths.
    """
    if form not in FORMATS:
        raise InputError(f"There is no form {form!r} to export to; choose one of {', '.join(FORMATS)}.")
    for package in _PACKAGES[form]:
        if importlib.util.find_spec(package) is None:
            raise InputError(f"Export to {form} needs {package}; install it with: pip install 'broadsheet[export]'.")
    check_exportable(model)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = model.eval()
    inputs = sample_inputs(model, processor, length)
    write = _write_torch if form == "torch" else _write_onnx
    write(model, inputs, folder)
    if form == "int8":
        _quantize(folder / ONNX_FILE)
    model.config.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder / (TORCH_FILE if form == "torch" else ONNX_FILE)


def check_exportable(model: Any) -> None:
    """Raise `InputError` for a model that no one graph can stand for."""
    config = model.config
    if config.is_encoder_decoder:
        raise InputError(
            f"{type(model).__name__} writes token by token, which one graph does not; export encoders, that is the "
            "family's other models."
        )
    if getattr(config, "attention_pattern", None) == "sliding_window_random":
        raise InputError(
            "The random blocks of attention_pattern='sliding_window_random' depend on each document's length, which a "
            "graph does not know; export a model of another pattern."
        )


def sample_inputs(model: Any, processor: Any, length: int | None = None) -> dict[str, torch.Tensor]:
    """Two documents, the first of about `length` tokens, the second of two thirds of it, as the model takes them."""
    config = model.config
    if length is None:
        window = getattr(config, "attention_window", None) or 8
        length = min(2 * max(window if isinstance(window, int) else max(window), 8) + 5, _most_tokens(config))
    if length < 4:
        raise InputError(f"length is {length}; trace with documents of four tokens or more.")
    features = []
    for size in (length, 2 * length // 3):
        # Words of one sub-word or more: cut to the size.
        words = ["a"] * size
        boxes = [[40.0 * (i % 12), 12.0 * (i // 12), 40.0 * (i % 12) + 30, 12.0 * (i // 12) + 9] for i in range(size)]
        sizes = [(500.0, max(700.0, boxes[-1][3]))]
        document = {"words": words, "boxes": boxes, "page_sizes": sizes}
        row = processor(documents=document, truncation=True, max_length=size)
        features.append(dict(row))
    return dict(LayoutDataCollator(processor)(features))


def _most_tokens(config: Any) -> int:
    """The most tokens that the model has positions for, with room for padding's."""
    limit = getattr(config, "max_position_embeddings", None) or 10**6
    return int(limit) - 3


def _write_onnx(model: Any, inputs: dict[str, torch.Tensor], folder: Path) -> None:
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    tensors: Any = inputs
    OnnxExporter().export(model, tensors, config=OnnxConfig(dynamic=True)).save_pretrained(folder)


def _write_torch(model: Any, inputs: dict[str, torch.Tensor], folder: Path) -> None:
    auto = torch.export.Dim.AUTO
    shapes = {name: {0: auto, 1: auto} for name in inputs}
    program = torch.export.export(model, (), inputs, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, folder / TORCH_FILE)


def _quantize(path: Path) -> None:
    """Weights of matrix products in 8 bits, one scale for each output; activations at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(dir=path.parent) as staging:
        target = Path(staging) / path.name
        quantize_dynamic(
            path, target, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True, weight_type=QuantType.QInt8
        )
        data = path.with_name(f"{path.name}.data")
        data.unlink(missing_ok=True)
        for file in Path(staging).iterdir():
            shutil.move(file, path.with_name(file.name))
