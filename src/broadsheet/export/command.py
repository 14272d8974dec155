"""
Export a fine-tuned encoder for other runtimes; the graph takes any batch size and length. Of a Pyramidion its encoder
is exported, for one length, which shorter documents are padded to.

    broadsheet export outputs/funsd funsd-onnx
    broadsheet export outputs/funsd funsd-int8 --format int8
    broadsheet extract form.pdf --model funsd-int8
    broadsheet export outputs/summaries encoder-onnx --length 2048

With --compare a token classifier is exported as ONNX and as int8 ONNX, and both are measured beside it on labelled
documents: labels, entity F1, time for a page.

    broadsheet export outputs/funsd compared --compare funsd --data_dir FUNSD
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import transformers

from broadsheet.export.exporting import FORMATS, export_model, graph_of
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
    parser.add_argument("--length", type=int, help="tokens to trace with; a Pyramidion's graph takes no others")
    parser.add_argument("--compare", metavar="CORPUS", help="measure both ONNX forms on this corpus, as funsd")
    parser.add_argument("--data_dir", help="with --compare: the folder of the corpus' official distribution")
    parser.add_argument("--split", default="test", help="with --compare: test (default); slices as test[:5] work")
    parser.add_argument("--repetitions", type=int, default=5, help="with --compare: turns of each runtime at a page")
    parser.add_argument("--record", action="store_true", help="with --compare: write results/onnx_CORPUS-small.json")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else list(argv))
    if arguments.compare and not arguments.data_dir:
        raise InputError(f"--compare {arguments.compare} needs the corpus' folder; set --data_dir.")
    if arguments.repetitions < 1:
        raise InputError(f"--repetitions is {arguments.repetitions}; set it to 1 or more.")
    model, processor = load(arguments.model)
    if arguments.compare:
        return print_comparison(model, processor, arguments)
    path = export_model(model, processor, arguments.folder, arguments.format, arguments.length)
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    print(f"{type(graph_of(model)).__name__} written to {path} ({size / 2**20:.1f} MiB)")
    return 0


def print_comparison(model: Any, processor: Any, arguments: argparse.Namespace) -> int:
    """Measure, print the table, and write the record where asked."""
    from broadsheet.export.comparing import compare
    from broadsheet.results.markdown import render_table
    from broadsheet.results.record import results_folder, write_record

    record = compare(model, processor, arguments)
    print(f"{record.tables[0].caption}\n\n{render_table(record.tables[0])}")
    if arguments.record:
        print(f"Written to {write_record(results_folder(), record)}")
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
