"""Models for other runtimes: ONNX, int8 ONNX, `torch.export`."""

from broadsheet.export.exporting import FORMATS, export_model
from broadsheet.export.running import ExportedEncoder, is_exported

__all__ = ["FORMATS", "ExportedEncoder", "export_model", "is_exported"]
