"""
Write an encoder down as a graph, equal to the model: for every batch size and length, and of Pyramidion, whose pooling
is fixed in the graph, for every batch size at one length that shorter documents are padded to. Its pooling compares
scores: where rounding alone tells two of them apart, another runtime may let the other one pass.
"""

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
        model: a model of the family, base or with a head, in float32. Of a Pyramidion that writes, its encoder is
            exported, whose `attention_mask` tells which of the pooled representations are none.
        processor: its processor.
        folder: where to write; `model.onnx` with `model.onnx.data`, or `model.pt2`.
        form: "onnx"; "int8", ONNX with the weights of its matrix products in 8 bits; "torch", for `torch.export.load`.
        length: tokens of the documents that it is traced with; chosen by the model's windows when None. The graph
            takes any other. Of Pyramidion the one length that the graph takes, `max_source_length` when None;
            `ExportedEncoder` pads to it.

    Returns:
        The graph's file.

    Raises:
        InputError: for another form, a missing package, or a model that draws at random.
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
    write = _write_torch if form == "torch" else _write_onnx
    if model.config.is_encoder_decoder:
        with _fixed_length(model.config, length):
            write(graph_of(model), fixed_inputs(model, processor), folder, {0})
    else:
        write(model, sample_inputs(model, processor, length), folder, {0, 1})
    if form == "int8":
        _quantize(folder / ONNX_FILE)
    model.config.architectures = [type(model).__name__]  # as `model.save_pretrained` says it
    model.config.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder / (TORCH_FILE if form == "torch" else ONNX_FILE)


def graph_of(model: Any) -> Any:
    """The part of a model that is exported: the whole, but of an encoder-decoder that writes its encoder."""
    if not model.config.is_encoder_decoder or type(model).__name__.endswith("ForSequenceClassification"):
        return model
    return model.base_model.encoder


def check_exportable(model: Any) -> None:
    """Raise `InputError` for a model that no one graph can stand for."""
    config = model.config
    if getattr(config, "operator", None) == "random" and config.encoder_lengths:
        raise InputError(
            "operator='random' draws its tokens anew in every call, which no graph equals; export a model of another "
            "operator."
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
        # Of words of more than one sub-word, those are cut that do not fit.
        count = max(1, size - processor.tokenizer.num_special_tokens_to_add())
        words = ["a"] * count
        boxes = [[40.0 * (i % 12), 12.0 * (i // 12), 40.0 * (i % 12) + 30, 12.0 * (i // 12) + 9] for i in range(count)]
        sizes = [(500.0, max(700.0, boxes[-1][3]))]
        document = {"words": words, "boxes": boxes, "page_sizes": sizes}
        row = processor(documents=document, truncation=True, max_length=size)
        features.append(dict(row))
    return dict(LayoutDataCollator(processor)(features))


def fixed_inputs(model: Any, processor: Any) -> dict[str, torch.Tensor]:
    """Two documents as `sample_inputs` makes them, padded to `max_source_length`."""
    config = model.config
    inputs = sample_inputs(model, processor, config.max_source_length)
    if not config.use_layout:
        inputs.pop("bbox", None)
    return pad_inputs(inputs, config.max_source_length, config.pad_token_id)


def pad_inputs(inputs: dict[str, torch.Tensor], length: int, pad_token_id: int | None) -> dict[str, torch.Tensor]:
    """
    Inputs `[batch, tokens, ...]` of a model, padded on the right to `length` tokens.

    Raises:
        InputError: there are more.
    """
    tokens = inputs["input_ids"].shape[1]
    if tokens > length:
        raise InputError(
            f"The documents have {tokens} tokens, and the graph takes {length}; pass max_length={length} and "
            "truncation=True to the processor, or export with a larger length."
        )
    padded = {}
    for name, tensor in inputs.items():
        value = (pad_token_id or 0) if name == "input_ids" else 0
        sizes = (*(0,) * (2 * (tensor.dim() - 2)), 0, length - tokens)
        padded[name] = torch.nn.functional.pad(tensor, sizes, value=value)
    return padded


@contextmanager
def _fixed_length(config: Any, length: int | None) -> Iterator[None]:
    """Have a Pyramidion traced for this length."""
    own = config.max_source_length
    config.max_source_length = length or own
    try:
        yield
    finally:
        config.max_source_length = own


def _most_tokens(config: Any) -> int:
    """The most tokens that the model has positions for, with room for padding's."""
    limit = getattr(config, "max_position_embeddings", None) or 10**6
    return int(limit) - 3


def _write_onnx(model: Any, inputs: dict[str, torch.Tensor], folder: Path, dynamic: set[int]) -> None:
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    tensors: Any = inputs
    shapes = None if dynamic == {0, 1} else {name: dict.fromkeys(dynamic, torch.export.Dim.AUTO) for name in inputs}
    config = OnnxConfig(dynamic=True, dynamic_shapes=shapes)
    exported = OnnxExporter().export(model, tensors, config=config)
    exported.config = None  # the model's own is saved by `export_model`
    exported.save_pretrained(folder)


def _write_torch(model: Any, inputs: dict[str, torch.Tensor], folder: Path, dynamic: set[int]) -> None:
    shapes = {name: dict.fromkeys(dynamic, torch.export.Dim.AUTO) for name in inputs}
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
