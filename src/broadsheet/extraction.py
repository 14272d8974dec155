"""Fields of documents: a fine-tuned token classifier and its processor, applied to whole documents."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from transformers import AutoModelForTokenClassification, AutoProcessor

from broadsheet.documents import Document
from broadsheet.export import ExportedEncoder, is_exported
from broadsheet.hub.errors import hub_sentence
from broadsheet.modeling.viterbi import WordDecoder, is_bioes
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.merging import TokenClassificationResult

DEFAULT_MAX_LENGTH = 512


class FieldExtractor:
    """
    Labels every word of a document of any length, and gathers the labels into entities.

    Args:
        model: a token classification model of the family, or one exported.
        processor: its processor.
        max_length: tokens of a window; the tokenizer's `model_max_length` when None, or 512 where it names none.
        stride: tokens that neighbouring windows share; a quarter of `max_length` when None.
        batch_size: windows in one forward pass.
        device: where to run; a GPU if there is one, when None.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        max_length: int | None = None,
        stride: int | None = None,
        batch_size: int = 8,
        device: str | None = None,
    ):
        named_length = processor.tokenizer.model_max_length
        self.max_length = max_length or (named_length if named_length < 1_000_000 else DEFAULT_MAX_LENGTH)
        self.stride = self.max_length // 4 if stride is None else stride
        self.batch_size = batch_size
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = model.eval().to(self.device)
        self.processor = processor

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], **kwargs: Any) -> "FieldExtractor":
        """
        Load model and processor from a folder or a repository of the Hub, or from what `broadsheet export` wrote.

        Raises:
            InputError: there is no model, or none that labels words.
        """
        try:
            exported = os.path.isdir(path) and is_exported(path)
            load: Any = ExportedEncoder if exported else AutoModelForTokenClassification.from_pretrained
            model = load(path)
            processor = AutoProcessor.from_pretrained(path)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            sentence = None if os.path.isdir(path) else hub_sentence(error, str(path))
            raise InputError(sentence or f"The model {path} cannot be loaded: {error}") from error
        if not hasattr(processor, "post_process_token_classification"):
            raise InputError(
                f"{path} holds a model but no processor_config.json; save the processor beside it with "
                "processor.save_pretrained."
            )
        return cls(model, processor, **kwargs)

    @torch.inference_mode()
    def __call__(self, document: Document | dict[str, Any]) -> TokenClassificationResult:
        """The label and score of every word of a document, and its entities in reading order."""
        batch = self.processor(
            documents=document,
            truncation=True,
            max_length=self.max_length,
            stride=self.stride,
            padding=True,
            return_overflowing_tokens=True,
            return_word_ids=True,
            clip_boxes=True,
            return_tensors="pt",
        )
        inputs = batch.model_inputs.to(self.device)
        logits = []
        for start in range(0, len(batch["input_ids"]), self.batch_size):
            windows = {name: tensor[start : start + self.batch_size] for name, tensor in inputs.items()}
            logits.append(self.model(**windows).logits.float().cpu())
        id2label = self.model.config.id2label
        decode = WordDecoder(id2label) if is_bioes(list(id2label.values())) else None
        merge = self.processor.post_process_token_classification
        return merge(torch.cat(logits), batch, document, id2label, decode=decode)[0]

    def map(self, documents: Iterable[Document]) -> Iterator[tuple[Document, TokenClassificationResult]]:
        """Documents with their results, one after the other, as they come."""
        for document in documents:
            yield document, self(document)
