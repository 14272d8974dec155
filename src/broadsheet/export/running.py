"""Run an exported encoder where a model would stand."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig
from transformers.utils import ModelOutput

from broadsheet.export.exporting import ONNX_FILE, TORCH_FILE
from broadsheet.tokenization.input_checks import InputError


def is_exported(folder: Any) -> bool:
    """Whether a folder holds an exported graph, and no weights to load a model from."""
    folder = Path(folder)
    graph = any((folder / name).is_file() for name in (ONNX_FILE, TORCH_FILE))
    return graph and not (folder / "model.safetensors").is_file()


class ExportedEncoder:
    """
    An exported encoder, called as the model it came from; `FieldExtractor` takes it in a model's place.

        model = ExportedEncoder("outputs/funsd-onnx")
        logits = model(**processor(documents=document, return_tensors="pt")).logits

    Args:
        folder: what `export_model` wrote.
        threads: of onnxruntime; its own choice when None.

    Raises:
        InputError: the folder holds no graph, or onnxruntime is not installed.
    """

    def __init__(self, folder: str | Path, threads: int | None = None):
        folder = Path(folder)
        if not is_exported(folder):
            raise InputError(f"{folder} holds neither {ONNX_FILE} nor {TORCH_FILE}; write one with broadsheet export.")
        self.config = AutoConfig.from_pretrained(folder)
        if (folder / TORCH_FILE).is_file():
            program = torch.export.load(folder / TORCH_FILE)
            self._run: Any = program.module()
            self.input_names = list(program.call_spec.in_spec.child(1).context)
        else:
            self._run = _OnnxSession(folder / ONNX_FILE, threads)
            self.input_names = self._run.input_names

    def __call__(self, **inputs: Any) -> ModelOutput:
        """The outputs by name, float32 tensors on the CPU; inputs that the graph does not take are left out."""
        missing = [name for name in self.input_names if name not in inputs]
        if missing:
            raise InputError(f"{missing[0]} is missing, which the graph takes; pass what the processor returns.")
        with torch.inference_mode():
            return ModelOutput(**dict(self._run(**{name: inputs[name] for name in self.input_names})))

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
        self.input_names = [each.name for each in self.session.get_inputs()]
        self.output_names = [each.name for each in self.session.get_outputs()]

    def __call__(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        arrays = {name: value.cpu().numpy() for name, value in inputs.items()}
        outputs = self.session.run(self.output_names, arrays)
        return {name: torch.from_numpy(value) for name, value in zip(self.output_names, outputs, strict=True)}
