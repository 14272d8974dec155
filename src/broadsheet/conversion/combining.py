"""
`broadsheet combine`: one model made of two trained ones, saved with its processor, to be fine-tuned.

    broadsheet combine skimming-mask --skimformer SKIMFORMER --backbone BERT --top_k 128 --output_dir OUT
    broadsheet combine skim-embeddings --skimformer SKIMFORMER --backbone BERT --output_dir OUT

The two must have been trained with the same tokenizer, which is the backbone's. Only the skimming mask takes other
backbones than BERT (LayoutLM, RoBERTa, ...), with as many heads as the Skimformer.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, set_seed

from broadsheet.modeling import modeling_bert_with_skim_embeddings as skim_embeddings
from broadsheet.modeling import modeling_skimming_mask as skimming_mask
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

HEADS = ("ForMaskedLM", "ForTokenClassification", "ForSequenceClassification", "ForQuestionAnswering")


def combine_skimming_mask(skimformer: str, backbone: str, top_k: int, output: Path) -> PreTrainedModel:
    """
    Save a text encoder that attends, in every layer, to the tokens that a Skimformer attends to most.

    Args:
        skimformer: a Skimformer's checkpoint.
        backbone: the text encoder's checkpoint, with its tokenizer; its head is kept.
        top_k: how many tokens each token attends to.
        output: the folder to write.

    Raises:
        InputError: where one of the two is missing, or they do not fit each other.
    """
    cls = _class(skimming_mask, "SkimmingMask", backbone)
    return _save(lambda: cls.from_skimformer_and_backbone(skimformer, backbone, top_k), backbone, output)


def combine_skim_embeddings(skimformer: str, bert: str, output: Path) -> PreTrainedModel:
    """
    Save a BERT with a Skimformer's layout embeddings, whose projections start at random; see `set_seed`.

    Args and errors as those of `combine_skimming_mask`.
    """
    cls = _class(skim_embeddings, "BertWithSkimEmbeddings", bert)
    return _save(lambda: cls.from_bert_and_skimformer(bert, skimformer), bert, output)


def _class(module: Any, prefix: str, backbone: str) -> Any:
    """The class with the head that the backbone's checkpoint has."""
    try:
        architectures = AutoConfig.from_pretrained(backbone).architectures or []
    except (OSError, ValueError) as error:
        raise InputError(
            f"{backbone} holds no configuration that can be read ({' '.join(str(error).split())[:200]}); name the "
            "folder of a saved model."
        ) from None
    heads = [head for head in HEADS for name in architectures if name.endswith(head)]
    return getattr(module, prefix + (heads[0] if heads else "Model"))


def _save(assemble: Any, backbone: str, output: Path) -> PreTrainedModel:
    if output.exists() and any(output.iterdir()):
        raise InputError(f"{output} is not empty; name a new folder.")
    try:
        model = assemble()
    except (OSError, ValueError) as error:
        raise InputError(f"The two models cannot be combined: {' '.join(str(error).split())[:400]}") from None
    # Of a folder without any of these transformers makes an empty tokenizer.
    files = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model")
    if Path(backbone).is_dir() and not any((Path(backbone) / name).is_file() for name in files):
        raise InputError(f"{backbone} has no tokenizer; save it there with tokenizer.save_pretrained.")
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    model.save_pretrained(output)
    SkimformerProcessor(tokenizer).save_pretrained(output)
    return model


def main(argv: Sequence[str] | None = None) -> int:
    """The command `broadsheet combine`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="broadsheet combine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("skimming-mask", "skim-embeddings"), help="what to make of the two")
    parser.add_argument("--skimformer", required=True, help="a Skimformer's checkpoint: a folder or a name on the Hub")
    parser.add_argument("--backbone", required=True, help="the text encoder's, with its tokenizer; its head is kept")
    parser.add_argument("--top_k", type=int, help="skimming-mask: how many tokens each token attends to")
    parser.add_argument("--seed", type=int, default=0, help="skim-embeddings: of the projections' initial weights")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder to write the model and processor to")
    arguments = parser.parse_args(argv)
    set_seed(arguments.seed)
    if arguments.kind == "skimming-mask":
        if arguments.top_k is None:
            raise InputError("A skimming mask needs the number of tokens that each attends to; set --top_k.")
        model = combine_skimming_mask(arguments.skimformer, arguments.backbone, arguments.top_k, arguments.output_dir)
    else:
        model = combine_skim_embeddings(arguments.skimformer, arguments.backbone, arguments.output_dir)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{arguments.output_dir}: {type(model).__name__}, {parameters:,} parameters")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"Error: {error}")
