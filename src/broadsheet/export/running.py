"""Run an exported encoder where a model would stand."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig
from transformers.utils import ModelOutput

from broadsheet.export.exporting import ONNX_FILE, TORCH_FILE, pad_inputs
from broadsheet.tokenization.input_checks import InputError


def is_exported(folder: Any) -> bool:
    """Whether a folder holds an exported graph, and no weights to load a model from."""
    folder = Path(folder)
    graph = any((folder / name).is_file() for name in (ONNX_FILE, TORCH_FILE))
    return graph and not (folder / "model.safetensors").is_file()


# Outputs of a graph of one length that have a place for each token or for each pooled one.
_BY_TOKEN = ("last_hidden_state", "attention_mask")


class ExportedEncoder:
    """
    An exported encoder, called as the model it came from; `FieldExtractor` takes it in a model's place. Inputs of a
    graph that takes one length are padded to it, and its outputs cut to what the model would return.

        model = ExportedEncoder("outputs/funsd-onnx")
        logits = model(**processor(documents=document, return_tensors="pt")).logits

    Args:
        folder: what `export_model` wrote.
        threads: of onnxruntime; its own choice when None.

    Attributes:
        length: the tokens that the graph takes; None where it takes any number.

    Raises:
        InputError: the folder holds no graph, or onnxruntime is not installed.
    """

    device = torch.device("cpu")

    def __init__(self, folder: str | Path, threads: int | None = None):
        folder = Path(folder)
        if not is_exported(folder):
            raise InputError(f"{folder} holds neither {ONNX_FILE} nor {TORCH_FILE}; write one with broadsheet export.")
        self.config = AutoConfig.from_pretrained(folder)
        if (folder / TORCH_FILE).is_file():
            program = torch.export.load(folder / TORCH_FILE)
            self._run: Any = program.module()
            self.input_names = list(program.call_spec.in_spec.child(1).context)
            shapes = {node.name: node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"}
            tokens: Any = shapes["input_ids"][1]
        else:
            self._run = _OnnxSession(folder / ONNX_FILE, threads)
            self.input_names = self._run.input_names
            tokens = self._run.tokens
        self.length = tokens if isinstance(tokens, int) else None

    def __call__(self, **inputs: Any) -> ModelOutput:
        """The outputs by name, float32 tensors on the CPU; inputs that the graph does not take are left out."""
        missing = [name for name in self.input_names if name not in inputs]
        if missing:
            raise InputError(f"{missing[0]} is missing, which the graph takes; pass what the processor returns.")
        taken = {name: inputs[name].to(self.device) for name in self.input_names}
        given = taken["input_ids"].shape[1]
        if self.length is not None:
            taken = pad_inputs(taken, self.length, self.config.pad_token_id)
        with torch.inference_mode():
            outputs = dict(self._run(**taken))
        if self.length is not None:
            outputs |= {name: outputs[name][:, :given] for name in _BY_TOKEN if name in outputs}
        return ModelOutput(**outputs)

    def eval(self) -> "ExportedEncoder":
        """Itself: a graph has no other mode."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> "ExportedEncoder":
        """Itself: a graph stays on the CPU."""
        return self


class _OnnxSession:
    def __init__(self, path: Path, threads: int | None):
        try:
            import onnxruntime
        except ImportError:
            raise InputError(f"{path} needs onnxruntime; install it with: pip install 'broadsheet[export]'.") from None
        options = onnxruntime.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own classes
            raise InputError(f"{path} cannot be loaded ({error}); export the model again.") from None
        self.graph_names = [each.name for each in self.session.get_inputs()]
        # Where an output has an input's name, the exporter writes input.NAME and output.NAME.
        self.input_names = [name.removeprefix("input.") for name in self.graph_names]
        self.output_names = [each.name for each in self.session.get_outputs()]
        self.tokens = {
            name: each.shape for name, each in zip(self.input_names, self.session.get_inputs(), strict=True)
        }["input_ids"][1]

    def __call__(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        names = zip(self.graph_names, self.input_names, strict=True)
        arrays = {graph: inputs[name].numpy() for graph, name in names}
        outputs = zip(self.output_names, self.session.run(self.output_names, arrays), strict=True)
        return {name.removeprefix("output."): torch.from_numpy(value) for name, value in outputs}
