"""Train a tokenizer: `python -m broadsheet.training.tokenizer --dataset funsd --data_dir DIR --output_dir OUT`."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast

from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import TokenizerArguments, parse
from broadsheet.training.preparation import load_split
from broadsheet.training.runs import exit_with_sentence

SPECIAL_TOKENS = {
    "bert": {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    },
    "roberta": {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
    },
}


# Of a piece's score, the logarithm of its probability; and between the scores of characters that are put back.
SCORE_DIGITS, CHARACTER_STEP = 9, 1e-4


def train_tokenizer(
    texts: Iterable[str],
    kind: str = "wordpiece",
    vocab_size: int = 30522,
    lowercase: bool | None = None,
    special_tokens: str | None = None,
    min_frequency: int = 2,
    show_progress: bool = False,
) -> PreTrainedTokenizerFast:
    """
    Train a fast tokenizer that `AutoTokenizer` loads once saved.

    Args:
        texts: the corpus, in pieces of any length.
        kind: "wordpiece" (as BERT), "bpe" (byte-level, as RoBERTa; made for words in lists, each taken as if after a
            space) or "unigram" (as SentencePiece).
        vocab_size: entries of the vocabulary, special tokens included; a small corpus may give fewer.
        lowercase: lower-case the text and, for "wordpiece", strip accents; by default only for "wordpiece".
        special_tokens: "bert" ([CLS] A [SEP] B [SEP] with token types) or "roberta" (<s> A </s></s> B </s>); by
            default "bert" for "wordpiece" and "roberta" for the others.
        min_frequency: leave out pieces seen less often ("wordpiece" and "bpe").
        show_progress: draw progress bars.

    Raises:
        InputError: an unknown kind, a vocabulary too small, or an empty corpus.
    """
    if kind not in _KINDS:
        raise InputError(f"There is no tokenizer of the kind {kind!r}; choose one of {', '.join(_KINDS)}.")
    lowercase = kind == "wordpiece" if lowercase is None else lowercase
    style = special_tokens or ("bert" if kind == "wordpiece" else "roberta")
    if style not in SPECIAL_TOKENS:
        raise InputError(f"There are no special tokens {style!r}; choose one of {', '.join(SPECIAL_TOKENS)}.")
    named = SPECIAL_TOKENS[style]
    specials = list(dict.fromkeys(named.values()))
    smallest = len(specials) + (256 if kind == "bpe" else 1)
    if vocab_size < smallest:
        raise InputError(f"A vocabulary of {vocab_size} is too small for {kind}; it needs {smallest} or more.")
    backend, trainer = _KINDS[kind](named["unk_token"], lowercase)
    options: dict[str, Any] = {"vocab_size": vocab_size, "special_tokens": specials, "show_progress": show_progress}
    if kind != "unigram":
        options["min_frequency"] = min_frequency
    with _spooled(texts) as corpus:
        if kind == "wordpiece":
            backend = _train_wordpiece(backend, corpus, options)
        else:
            backend.train_from_iterator(corpus, trainer(**options))
    if kind == "unigram":
        _settle(backend, len(specials))
    backend.post_processor = _template(backend, style)
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if style == "bert" else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=inputs, **named)


@contextmanager
def _spooled(texts: Iterable[str]) -> Iterator["_Corpus"]:
    """The texts in a temporary file, to go over them more than once in little memory."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as file:
        blank = True
        for text in texts:
            blank = blank and not text.strip()
            file.write(" ".join(text.splitlines()) + "\n")
        if blank:
            raise InputError("The corpus has no text; choose another dataset, split or file.")
        yield _Corpus(file)


class _Corpus:
    def __init__(self, file: IO[str]):
        self.file = file

    def __iter__(self) -> Iterator[str]:
        self.file.seek(0)
        return iter(self.file)


def _train_wordpiece(backend: Tokenizer, corpus: _Corpus, options: dict[str, Any]) -> Tokenizer:
    """
    Train so that the same corpus always gives the same vocabulary.

    The trainer numbers the letters within words ("##a") in the order of a hash table, which differs from call to call,
    and breaks ties between merges by these numbers. Naming them beforehand, as if special, fixes the order.
    """
    letters: set[str] = set()
    for text in corpus:
        letters.update(backend.normalizer.normalize_str(text))
    inner = [letter for letter in sorted(letters) if len(backend.pre_tokenizer.pre_tokenize_str("a" + letter)) == 1]
    inner = [f"##{letter}" for letter in inner if not letter.isspace()]
    specials = options["special_tokens"]
    trainer = trainers.WordPieceTrainer(**{**options, "special_tokens": specials + inner})
    unknown = backend.model.unk_token
    draft = Tokenizer(models.WordPiece(unk_token=unknown))
    draft.normalizer, draft.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    draft.train_from_iterator(corpus, trainer)
    backend.model = models.WordPiece(draft.get_vocab(), unk_token=unknown)
    return backend


def _wordpiece(unknown: str, lowercase: bool) -> tuple[Tokenizer, Callable[..., Any]]:
    backend = Tokenizer(models.WordPiece(unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return backend, trainers.WordPieceTrainer


def _byte_level_bpe(unknown: str, lowercase: bool) -> tuple[Tokenizer, Callable[..., Any]]:
    backend = Tokenizer(models.BPE())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return backend, lambda **options: trainers.BpeTrainer(initial_alphabet=alphabet, **options)


def _unigram(unknown: str, lowercase: bool) -> tuple[Tokenizer, Callable[..., Any]]:
    backend = Tokenizer(models.Unigram())
    steps = [normalizers.NFKC(), normalizers.Lowercase()] if lowercase else [normalizers.NFKC()]
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return backend, lambda **options: trainers.UnigramTrainer(unk_token=unknown, **options)


def _settle(backend: Tokenizer, specials: int) -> None:
    """
    Make of a trained Unigram the same one in every process.

    Its scores are sums in an order that changes, in their last digits: they are rounded, and equal ones ordered by
    their text. Characters that it dropped are put back in any order, each a step above the lowest score: they get
    these scores in their own order.
    """
    model = json.loads(backend.to_str())["model"]
    scored = [(piece, round(score, SCORE_DIGITS)) for piece, score in model["vocab"]]
    pieces = dict(scored[specials:])
    lowest = min(pieces.values(), default=0.0)
    steps = {piece: (score - lowest) / CHARACTER_STEP for piece, score in pieces.items() if len(piece) == 1}
    put_back = [piece for piece, step in steps.items() if step < len(steps) and abs(step - round(step)) < 1e-3]
    pieces |= dict(zip(sorted(put_back), sorted(pieces[piece] for piece in put_back), strict=True))
    ordered = sorted(pieces.items(), key=lambda entry: (-entry[1], entry[0]))
    backend.model = models.Unigram([*scored[:specials], *ordered], model["unk_id"], model["byte_fallback"])


_KINDS = {"wordpiece": _wordpiece, "bpe": _byte_level_bpe, "unigram": _unigram}


def _template(backend: Tokenizer, style: str) -> Any:
    if style == "bert":
        tokens = ["[CLS]", "[SEP]"]
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    else:
        tokens = ["<s>", "</s>"]
        single, pair = "<s> $A </s>", "<s> $A </s> </s> $B </s>"
    ids = [(token, backend.token_to_id(token)) for token in tokens]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def _texts(arguments: TokenizerArguments) -> Iterator[str]:
    """The corpus: each line of the files, or each document of the dataset."""
    if arguments.text_files:
        for path in tqdm(arguments.text_files, desc="Reading files", unit="file"):
            try:
                with open(path, encoding="utf-8") as lines:
                    yield from lines
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(
                    f"{path} cannot be read as UTF-8 text ({error}); correct the path or the file."
                ) from None
    else:
        documents = load_split(arguments, arguments.split)
        for words in tqdm(documents.select_columns("words"), desc="Reading documents", unit="document"):
            yield " ".join(words["words"])


@exit_with_sentence
def main(argv: Sequence[str] | None = None) -> None:
    """Train a tokenizer as the arguments say, and save it."""
    description = "Train a tokenizer on the words of a dataset or on text files."
    (arguments,) = parse([TokenizerArguments], argv, "broadsheet train-tokenizer", description)
    if (arguments.dataset is None) == (arguments.text_files is None):
        raise InputError("Set either --dataset (with --data_dir) or --text_files, to say what to train on.")
    if arguments.output_dir is None:
        raise InputError("There is no --output_dir to save the tokenizer in; set it.")
    if os.path.isdir(arguments.output_dir) and os.listdir(arguments.output_dir) and not arguments.overwrite:
        raise InputError(f"The folder {arguments.output_dir} is not empty; choose another, or set --overwrite.")
    tokenizer = train_tokenizer(
        _texts(arguments),
        arguments.kind,
        arguments.vocab_size,
        arguments.lowercase,
        arguments.special_tokens,
        arguments.min_frequency,
        show_progress=True,
    )
    tokenizer.save_pretrained(arguments.output_dir)
    print(f"Saved a {arguments.kind} tokenizer of {len(tokenizer)} entries in {arguments.output_dir}.")


if __name__ == "__main__":
    main()
