"""
Tiny fast tokenizers for tests: trained in memory on a few sentences, in the three kinds that processors must wrap.

    tokenizer = tiny_tokenizer("wordpiece")        # or "bpe" (byte-level, RoBERTa's), "unigram" (SentencePiece's)
    tokenizer = tiny_tokenizer("bpe", special_tokens=False, model_max_length=64)

Training happens once per process and kind; every call returns a tokenizer of its own, so a test may change it.
"""

import json
from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from broadsheet.training.tokenizer import train_tokenizer

KINDS = ("wordpiece", "bpe", "unigram")

SENTENCES = (
    "Invoice number 2024-0117 of 14 March 2024, payable within thirty days.",
    "The quick brown fox jumps over the lazy dog while five wizards box quickly.",
    "Total amount due: $1,234.56 (VAT 19 % included), balance carried forward 78.90 EUR.",
    "This agreement is made between the lender and the borrower on the date written above.",
    "Name: Jane Doe  Address: 12 Main Street, Springfield  Date of birth: 01/02/1903",
    "We study attention over long documents; tokens attend to tokens that stand near them on the page.",
    "Bill to ship to purchase order item description quantity unit price amount subtotal tax total",
    "café naïve Zürich coöperate 日本語 文書 Überweisung an Ärzte und Öfen, größer",
    "question answer header other title paragraph table figure caption list footer",
)


def tiny_tokenizer(
    kind: str = "wordpiece",
    *,
    special_tokens: bool = True,
    vocab_size: int = 400,
    model_max_length: int | None = None,
    **kwargs: Any,
) -> PreTrainedTokenizerFast:
    """
    A fast tokenizer of fewer than `vocab_size` entries (400 unless told).

    Args:
        kind: "wordpiece" (BERT: lower-cased, [CLS] A [SEP] B [SEP], token types), "bpe" (RoBERTa: byte-level without
            add_prefix_space, <s> A </s></s> B </s>) or "unigram" (T5-like with Metaspace, A </s> B </s>).
        special_tokens: False leaves the post-processor out (pad and unknown token stay in the vocabulary).
        model_max_length: the tokenizer's limit; none when omitted.
        kwargs: handed to `PreTrainedTokenizerFast`, e.g. `padding_side="left"`.
    """
    backend_json, names, inputs = _trained(kind, vocab_size)
    backend = Tokenizer.from_str(backend_json)
    if not special_tokens:
        backend.post_processor = processors.Sequence([])
    if model_max_length is not None:
        kwargs["model_max_length"] = model_max_length
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=list(inputs), **{**names, **kwargs})


@cache
def _trained(kind: str, vocab_size: int) -> tuple[str, dict[str, str], tuple[str, ...]]:
    if kind == "wordpiece":
        backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        # The trainer's own vocabulary differs from run to run; this one does not.
        trained = train_tokenizer(SENTENCES, "wordpiece", vocab_size, min_frequency=0, show_progress=False)
        backend.model = models.WordPiece(trained.get_vocab(), unk_token="[UNK]")
        ids = {token: backend.token_to_id(token) for token in specials}
        backend.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
        names = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
        return backend.to_str(), dict(zip(names, specials, strict=True)), _INPUTS_WITH_TYPES
    if kind == "bpe":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        trainer: Any = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=specials,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(SENTENCES, trainer)
        ids = {token: backend.token_to_id(token) for token in specials}
        backend.post_processor = processors.RobertaProcessing(
            ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
        )
        named = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
        named |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
        return backend.to_str(), named, _INPUTS
    if kind == "unigram":
        backend = Tokenizer(models.Unigram())
        backend.normalizer = normalizers.NFKC()
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
        specials = ["<pad>", "</s>", "<unk>"]
        trainer = trainers.UnigramTrainer(
            vocab_size=vocab_size, special_tokens=specials, unk_token="<unk>", show_progress=False
        )
        backend.train_from_iterator(SENTENCES, trainer)
        # Training adds up in an order of its own each time: equal pieces, other last digits, other numbers.
        pieces = json.loads(backend.to_str())["model"]["vocab"]
        first, rest = pieces[: len(specials)], pieces[len(specials) :]
        rest = sorted(((piece, round(score, 2)) for piece, score in rest), key=lambda entry: (-entry[1], entry[0]))
        backend.model = models.Unigram([*map(tuple, first), *rest], unk_id=backend.token_to_id("<unk>"))
        backend.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", backend.token_to_id("</s>"))]
        )
        return backend.to_str(), {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}, _INPUTS
    raise ValueError(f"There is no tiny tokenizer of the kind {kind!r}; choose one of {', '.join(KINDS)}.")


_INPUTS = ("input_ids", "attention_mask")
_INPUTS_WITH_TYPES = ("input_ids", "token_type_ids", "attention_mask")
