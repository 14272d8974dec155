"""Fields of documents: a fine-tuned token classifier and its processor, applied to whole documents."""

import os
from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Any

from transformers import AutoConfig, AutoModelForTokenClassification

from broadsheet.devices import choose_device
from broadsheet.documents import Document
from broadsheet.export import ExportedEncoder, is_exported
from broadsheet.hub.errors import hub_sentence
from broadsheet.pipelines.streaming import Job, window_size
from broadsheet.pipelines.token_classification import DocumentTokenClassificationPipeline
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.merging import TokenClassificationResult


class _WordPipeline(DocumentTokenClassificationPipeline):
    """The pipeline, with the labels of all words as its results."""

    def postprocess(self, model_outputs: Job, **settings: Any) -> TokenClassificationResult:  # type: ignore[override]
        return self.merged(model_outputs, settings["aggregation_strategy"])


class FieldExtractor:
    """
    Labels every word of a document of any length, and gathers the labels into entities: what
    `pipeline("document-token-classification")` does, with the words that are in no entity too.

    Args:
        model: a token classification model of the family or one that it is compared with, or one exported.
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
        self.max_length, self.stride = window_size(processor, max_length, stride)
        self.batch_size = batch_size
        self.device = choose_device(device)
        self.model = model.eval()
        self.processor = processor
        self._pipeline = _WordPipeline(
            model=model,
            processor=processor,
            device=self.device,
            batch_size=batch_size,
            max_length=self.max_length,
            stride=self.stride,
        )

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], **kwargs: Any) -> "FieldExtractor":
        """
        Load model and processor from a folder or a repository of the Hub, or from what `broadsheet export` wrote.

        Raises:
            InputError: there is no model, none that labels words, or no such device.
        """
        from broadsheet.training.building import load_processor

        choose_device(kwargs.get("device"))
        exported = os.path.isdir(path) and is_exported(path)
        try:
            config = AutoConfig.from_pretrained(path)
            if config.architectures or not exported:  # earlier exports may not name their head
                _check_head(config, path)
            processor = load_processor(str(path), config.model_type)
            load: Any = ExportedEncoder if exported else AutoModelForTokenClassification.from_pretrained
            model = load(path)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            sentence = None if os.path.isdir(path) else hub_sentence(error, str(path))
            raise InputError(sentence or f"The model {path} cannot be loaded: {error}") from error
        if not hasattr(processor, "post_process_token_classification"):
            raise InputError(
                f"{path} holds a model but no processor of Broadsheet; save the processor beside it with "
                "processor.save_pretrained."
            )
        return cls(model, processor, **kwargs)

    def __call__(self, document: Document | dict[str, Any]) -> TokenClassificationResult:
        """The label and score of every word of a document, and its entities in reading order."""
        return self._pipeline(document)

    def map(self, documents: Iterable[Document]) -> Iterator[tuple[Document, TokenClassificationResult]]:
        """Documents with their results, as they come; windows of several documents share batches."""
        given, read = tee(documents)
        return zip(given, self._pipeline(iter(read)), strict=True)


def _check_head(config: Any, path: str | os.PathLike[str]) -> None:
    """Refuse a model whose checkpoint has no head for words: transformers would give it one of random numbers."""
    names = config.architectures or []
    if not any(name.endswith("ForTokenClassification") for name in names):
        raise InputError(
            f"{path} holds {', '.join(names) or 'a model that does not name its head'}, not one that labels words; "
            "fine-tune it for token classification first."
        )
