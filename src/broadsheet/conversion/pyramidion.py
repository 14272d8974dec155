"""
`broadsheet convert pyramidion CHECKPOINT.pt OUT [--dict DICT]`: the authors' fairseq checkpoints as checkpoints of the
family that behave as their code does.
"""

import argparse
import ast
import pickle
import re
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
# Bookkeeping of fairseq, and the other names of the shared table.
LEFT_OUT = (
    r"^(encoder|decoder)\.version$",
    r"embed_positions\._float_tensor$",
    r"^decoder\.(embed_tokens|output_projection)\.weight$",
)
# Blocks whatever the pooling is, blocks where there is pooling, no blocks twice.
ATTENTION_KINDS = ("only_blockwise", "pooler", "pooler_no_block", "none")
ATTENTION = {"q_proj": "self.query", "k_proj": "self.key", "v_proj": "self.value", "out_proj": "output.dense"}
NAMES = {
    r"^encoder\.embed_tokens\.": "encoder.embeddings.word_embeddings.",
    r"^encoder\.pooler\.scorer\.(\d+)\.": r"encoder.pooling.\1.scorer.",
    r"^(encoder|decoder)\.layers\.(\d+)\.self_attn_layer_norm\.": r"\1.layer.\2.attention.output.LayerNorm.",
    r"^(encoder|decoder)\.layers\.(\d+)\.encoder_attn_layer_norm\.": r"\1.layer.\2.cross_attention.output.LayerNorm.",
    r"^(encoder|decoder)\.layers\.(\d+)\.fc1\.": r"\1.layer.\2.intermediate.dense.",
    r"^(encoder|decoder)\.layers\.(\d+)\.fc2\.": r"\1.layer.\2.output.dense.",
    r"^(encoder|decoder)\.layers\.(\d+)\.final_layer_norm\.": r"\1.layer.\2.output.LayerNorm.",
    **{
        rf"^(encoder|decoder)\.layers\.(\d+)\.{theirs}\.{part}\.": rf"\1.layer.\2.{ours}.{own}."
        for theirs, ours in (("self_attn", "attention"), ("encoder_attn", "cross_attention"))
        for part, own in ATTENTION.items()
    },
}


def convert_pyramidion(
    checkpoint: str | Path, output: str | Path, dictionary: str | Path | None = None
) -> PyramidionForConditionalGeneration:
    """
    Convert a released checkpoint and save it.

    What the authors' code does to documents before they are encoded is left to whoever encodes them: it writes `</s>`
    over the last token of each block. Documents of fewer than `max_source_positions` tokens are pooled less here,
    where their code fills them up with zeros after the first layer.

    Args:
        checkpoint: a fairseq checkpoint, one .pt file with `model` and `args` or `cfg`.
        output: the folder to write to. The Auto classes load it.
        dictionary: the fairseq dictionary, `word count` a line; with it a processor is saved too, which takes the
            pieces that the authors' preprocessing makes of words as words.

    Returns:
        The model, in evaluation mode.

    Raises:
        InputError: the file is damaged or holds more than tensors and options, an option asks for what our model does
            not do, or the parameters are not those that the options ask for; the error lists them.
    """
    path, target = Path(checkpoint), Path(output)
    weights, options = read_checkpoint(path)
    words = None if dictionary is None else read_dictionary(Path(dictionary))
    config = make_config(path, weights, options)
    if words is not None and len(words) != config.vocab_size:
        raise InputError(
            f"{dictionary} has {len(words)} entries with the special tokens, but the embeddings of {path} have "
            f"{config.vocab_size}; name the dictionary that the checkpoint was trained with."
        )
    model = PyramidionForConditionalGeneration(config)
    _fill(model, weights, path)
    model.save_pretrained(target)
    if words is not None:
        PyramidionProcessor(make_tokenizer(words)).save_pretrained(target)
    return model.eval()


def read_checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """State dict and options of a fairseq checkpoint, by torch's weights_only loader, which runs no code."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; name a fairseq checkpoint, such as checkpoint_best.pt.")
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} is damaged or holds more than tensors and options, which could run code when it is read; get the "
            "checkpoint from its authors."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} is damaged or cut short ({reason}); download it again.") from error
    weights = content.get("model") if isinstance(content, dict) else None
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise InputError(f"{path} has no state dict under 'model'; name a fairseq checkpoint.")
    options = content.get("args")
    if options is None and isinstance(content.get("cfg"), dict):
        options = content["cfg"].get("model")
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    if not isinstance(options, dict):
        raise InputError(f"{path} has no options under 'args' or 'cfg'; name a fairseq checkpoint.")
    return weights, options


def make_config(path: Path, weights: dict[str, torch.Tensor], options: dict[str, Any]) -> PyramidionConfig:
    """Our config for the authors' options. Raises `InputError` for options that ask for another model."""

    def option(name: str, default: Any = None) -> Any:
        value = options.get(name)
        return default if value is None else value

    table = weights.get("encoder.embed_tokens.weight")
    if table is None:
        raise InputError(f"{path} has no encoder.embed_tokens.weight; name a checkpoint of the authors' model.")
    for refused, wanted, reason in (
        ("encoder_normalize_before", False, "the LayerNorms stand after the layers"),
        ("decoder_normalize_before", False, "the LayerNorms stand after the layers"),
        ("layernorm_embedding", False, "embeddings have no LayerNorm"),
        ("encoder_learned_pos", False, "positions are sinusoids"),
        ("decoder_learned_pos", False, "positions are sinusoids"),
        ("no_scale_embedding", False, "embeddings are scaled"),
        ("no_token_positional_embeddings", False, "encoder and decoder have positions"),
        ("cross_self_attention", False, "the decoder attends to itself and to the encoder apart"),
    ):
        if bool(option(refused, wanted)) != wanted:
            raise InputError(f"{path} was trained with {refused}, but here {reason}; it cannot be converted.")
    for name in ("embed_dim", "ffn_embed_dim", "attention_heads"):
        ours, theirs = option(f"encoder_{name}"), option(f"decoder_{name}")
        if theirs is not None and theirs != ours:
            raise InputError(f"{path} has encoder_{name}={ours} but decoder_{name}={theirs}; here both are equal.")
    scored = any(name.startswith("encoder.pooler.scorer.") for name in weights)
    pooling = str(option("encoder_pooling", "topk" if scored else "lambda"))
    if pooling not in ("topk", "lambda"):
        raise InputError(f"{path} was trained with encoder_pooling={pooling!r}; topk and lambda can be converted.")
    if pooling == "topk" and str(option("encoder_pooling_arch", "linear")) != "linear":
        raise InputError(f"{path} has another scorer than a linear one; it cannot be converted.")
    layers = int(option("encoder_layers", 6))
    source = int(option("max_source_positions", 8192))
    pooled = pooling == "topk"
    lengths = _lengths(path, option("enc_layers_and_token_width"), layers, source) if pooled else None
    if lengths and not bool(int(option("flip_right", 1))):
        raise InputError(f"{path} was trained with flip_right=0, pairs of another kind; it cannot be converted.")
    attention = str(option("use_sparse_attn", "pooler"))
    if attention not in ATTENTION_KINDS:
        raise InputError(
            f"{path} was trained with use_sparse_attn={attention!r}; {', '.join(ATTENTION_KINDS)} can be converted."
        )
    blocks = attention == "only_blockwise" or (pooled and attention == "pooler")
    hidden = int(option("encoder_embed_dim", table.shape[1]))
    try:
        return PyramidionConfig(  # type: ignore[call-arg]
            vocab_size=len(table),
            hidden_size=hidden,
            intermediate_size=int(option("encoder_ffn_embed_dim", 4 * hidden)),
            num_attention_heads=int(option("encoder_attention_heads", 8)),
            num_hidden_layers=layers,
            decoder_layers=int(option("decoder_layers", layers)),
            hidden_act=str(option("activation_fn", "relu")),
            hidden_dropout_prob=float(option("dropout", 0.1)),
            attention_probs_dropout_prob=float(option("attention_dropout", 0.0)),
            max_source_length=source,
            encoder_lengths=lengths,
            block_size=int(option("chunk_size", 512)) if blocks else None,
            peak_base=float(option("topk_softmax_base", 20.0)),
            # What their code does, whatever the paper says: padding takes part, the decoder has positions.
            preserve_order=bool(int(option("sort_back", 0))),
            mask_padding=False,
            decoder_positions=True,
            position_offset=2,
            tie_word_embeddings=_is_tied(weights),
        )
    except (StrictDataclassError, ValueError, TypeError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"The options of {path} describe no model that can be built: {reason}") from error


def _lengths(path: Path, told: Any, layers: int, source: int) -> list[int]:
    """The length after each layer, from {2: 2048, 3: 512}, a dict or its text; where it is empty, halves of halves."""
    if isinstance(told, str) and told.strip():
        try:
            told = ast.literal_eval(told)
        except (ValueError, SyntaxError):
            raise InputError(f"{path} has enc_layers_and_token_width={told!r}, which is no dictionary.") from None
    if not told:
        return [source // 2 ** (layer + 1) for layer in range(layers)]
    try:
        widths = {int(layer): int(width) for layer, width in dict(told).items()}
    except (ValueError, TypeError):
        raise InputError(
            f"{path} has enc_layers_and_token_width={told!r}, which is no dictionary of numbers."
        ) from None
    if max(widths) >= layers or min(widths) < 0:
        raise InputError(f"{path} has enc_layers_and_token_width={told!r} but {layers} encoder layers, 0 the first.")
    lengths, current = [], source
    for layer in range(layers):
        current = widths.get(layer, current)
        lengths.append(current)
    return lengths


def _is_tied(weights: dict[str, torch.Tensor]) -> bool:
    table, output = weights["encoder.embed_tokens.weight"], weights.get("decoder.output_projection.weight")
    return output is None or torch.equal(output, table)


def _fill(model: Any, weights: dict[str, torch.Tensor], path: Path) -> None:
    table, read = weights["encoder.embed_tokens.weight"], weights.get("decoder.embed_tokens.weight")
    if read is not None and not torch.equal(read, table):
        raise InputError(f"Encoder and decoder of {path} read different embeddings; here they share one table.")
    own = model.state_dict()
    renamed = {}
    for name, value in weights.items():
        if any(re.search(pattern, name) for pattern in LEFT_OUT):
            continue
        ours = name
        for pattern, replacement in NAMES.items():
            ours, changed = re.subn(pattern, replacement, ours)
            if changed:
                break
        renamed[f"pyramidion.{ours}"] = (name, value)
    if not model.config.tie_word_embeddings:
        renamed["lm_head.weight"] = ("decoder.output_projection.weight", weights["decoder.output_projection.weight"])
    if model.config.encoder_lengths is None:
        renamed = {name: value for name, value in renamed.items() if ".pooling." not in name}
    missing = sorted(set(own) - set(renamed) - set(model.all_tied_weights_keys))
    shapes = [
        f"{theirs} {list(value.shape)} instead of {list(own[ours].shape)}"
        for ours, (theirs, value) in renamed.items()
        if ours in own and own[ours].shape != value.shape
    ]
    unknown = [theirs for ours, (theirs, _) in renamed.items() if ours not in own]
    faults = {"unknown": unknown, "missing (our names)": missing, "of another shape": shapes}
    if any(faults.values()):
        told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names)
        raise InputError(f"The parameters of {path} are not those of its options; {told}.")
    with torch.no_grad():
        for ours, (_, value) in renamed.items():
            own[ours].copy_(value)


def read_dictionary(path: Path) -> list[str]:
    """The entries of a fairseq dictionary in the order of their ids, the special ones first."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a dictionary ({error}); name fairseq's dict.txt.") from None
    words = list(SPECIALS)
    for number, line in enumerate(lines, start=1):
        word, space, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            raise InputError(f"Line {number} of {path} is {line!r:.60}; a line of a dictionary is a word and a count.")
        words.append(word)
    return words


def make_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that takes what stands between spaces as an entry of the dictionary, as fairseq does."""
    vocabulary: dict[str, int] = {}
    for place, word in enumerate(words):
        # fairseq pads its dictionaries with entries that may repeat; the first of equal ones is found.
        vocabulary.setdefault(word, place)
    for place, word in enumerate(words):
        if vocabulary[word] != place:
            vocabulary[f"{word}#{place}"] = place
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
    )


def main(argv: list[str] | None = None) -> int:
    """The command `broadsheet convert pyramidion`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="broadsheet convert pyramidion", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, help="fairseq checkpoint, a .pt file, as released")
    parser.add_argument("output", type=Path, help="folder to write the converted model to")
    parser.add_argument("--dict", type=Path, dest="dictionary", help="fairseq dictionary; saves a processor too")
    arguments = parser.parse_args(argv)
    model = convert_pyramidion(arguments.checkpoint, arguments.output, arguments.dictionary)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{arguments.output}: {type(model).__name__}, {parameters:,} parameters")
    if arguments.dictionary is None:
        print("There is no processor without --dict; save one beside the model before you use it on documents.")
    return 0
