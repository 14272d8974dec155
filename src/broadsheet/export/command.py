"""
Export a fine-tuned encoder for other runtimes; the graph takes any batch size and length.

    broadsheet export outputs/funsd funsd-onnx
    broadsheet export outputs/funsd funsd-int8 --format int8
    broadsheet extract form.pdf --model funsd-int8
"""

import argparse
import sys
from collections.abc import Sequence

import transformers

from broadsheet.export.exporting import FORMATS, export_model
from broadsheet.hub.errors import hub_sentence
from broadsheet.tokenization.input_checks import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line; None for the process' own arguments.

    Raises:
        InputError: for a model that cannot be loaded or exported.
    """
    parser = argparse.ArgumentParser(
        prog="broadsheet export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a folder, or a repository of the Hub, with its processor")
    parser.add_argument("folder", help="where to write the graph, the config and the processor")
    parser.add_argument("--format", choices=FORMATS, default="onnx", help="onnx (default), int8 ONNX, or torch.export")
    parser.add_argument("--length", type=int, help="tokens to trace with; the graph takes any other too")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else list(argv))
    model, processor = load(arguments.model)
    path = export_model(model, processor, arguments.folder, arguments.format, arguments.length)
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    print(f"{type(model).__name__} written to {path} ({size / 2**20:.1f} MiB)")
    return 0


def load(path: str) -> tuple[transformers.PreTrainedModel, transformers.ProcessorMixin]:
    """
    The model with the head that its checkpoint was saved with, and its processor.

    Raises:
        InputError: where one of them is missing or of no member of the family.
    """
    from broadsheet.registration import MODELS

    try:
        config = transformers.AutoConfig.from_pretrained(path)
        if config.model_type not in MODELS:
            raise InputError(f"{path} is a {config.model_type}; the family's types are {', '.join(MODELS)}.")
        models = {cls.__name__: cls for cls in MODELS[config.model_type].models.values()}
        name = (config.architectures or [""])[0]
        if name not in models:
            raise InputError(f"{path} does not say which head it has; save it again with save_pretrained.")
        model = models[name].from_pretrained(path, dtype="float32")
        processor = transformers.AutoProcessor.from_pretrained(path)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(hub_sentence(error, path) or f"The model {path} cannot be loaded: {error}") from error
    if not hasattr(processor, "tensor_specs"):
        raise InputError(f"{path} has no processor_config.json; save the processor beside the model.")
    return model, processor


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"Error: {error}")
