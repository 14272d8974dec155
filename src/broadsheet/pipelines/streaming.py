"""
What the pipelines share: documents come in one after the other, are cut into windows by their processor, and windows
of whatever documents fill the batches; each document's result leaves as soon as its last window is done.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import torch
from transformers.pipelines.base import Pipeline

from broadsheet.devices import choose_device
from broadsheet.documents import Document
from broadsheet.pipelines.inputs import as_document, source_of
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.layout_batch import WORD_ID_KEYS

DEFAULT_MAX_LENGTH = 512
_NO_LIMIT = 1_000_000


@dataclass
class Job:
    """
    A document on its way.

    Attributes:
        document: as the processor read it.
        batch: what the processor returned, unpadded lists; none where the document failed.
        windows: the model's inputs, one dict for each window.
        outputs: name -> the output of each window, without padding; filled as batches are run.
        error: why the document failed.
        source: the file that it came from.
    """

    document: Any = None
    batch: dict[str, Any] = field(default_factory=dict)
    windows: list[dict[str, Any]] = field(default_factory=list)
    outputs: dict[str, list[Any]] = field(default_factory=dict)
    done: int = 0
    error: str | None = None
    source: str | None = None

    @property
    def finished(self) -> bool:
        """Whether all of its windows were run."""
        return self.done == len(self.windows)


class DocumentPipeline(Pipeline):
    """
    Base of the document pipelines.

    One input gives one result; a list gives a list; any other iterable (a generator, a dataset) gives an iterator that
    reads no further ahead than a batch.

    Args, of the pipeline or of a call:
        batch_size: windows in one forward pass, of one or of several documents; 8 when None.
        max_length: tokens of a window; the tokenizer's `model_max_length` when None, or 512 where it names none.
        stride: tokens that neighbouring windows share; a quarter of `max_length` when None.
        clip_boxes: move boxes that overhang their page to its edge, instead of refusing them.
        ocr: pages of PDF files to read with Tesseract: "never", "empty_pages" or "always".
        languages: of the text, for Tesseract.
        password: opens encrypted PDF files.
        on_error: "raise", or "return": a document that cannot be read gives {"error": sentence, "source": file} in
            place of its result, and the others go on.
    """

    model: Any
    processor: Any
    _load_processor: Any = True
    _load_tokenizer: Any = False
    _load_feature_extractor: Any = False
    _load_image_processor: Any = False

    # name of the option -> its default: of `preprocess`, of `forward`, of `postprocess`.
    preparing: ClassVar[dict[str, Any]] = {
        "max_length": None,
        "stride": None,
        "clip_boxes": True,
        "ocr": "never",
        "languages": "eng",
        "password": None,
    }
    running: ClassVar[dict[str, Any]] = {}
    finishing: ClassVar[dict[str, Any]] = {}
    output_names: ClassVar[tuple[str, ...]] = ("logits",)
    # What of a processor the pipeline calls at the end.
    needs: ClassVar[str] = "post_process_token_classification"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        on_error = kwargs.pop("on_error", "raise")
        if isinstance(kwargs.get("device"), str | torch.device):
            kwargs["device"] = choose_device(kwargs["device"])
        super().__init__(*args, **kwargs)
        self.on_error = _check_on_error(on_error)
        if not hasattr(self.processor, self.needs):
            raise InputError(
                f"{type(self.model).__name__} came without a processor of Broadsheet; save the processor beside the "
                "model with processor.save_pretrained, or pass processor=."
            )
        self.model.eval()

    def _sanitize_parameters(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        stages = (self.preparing, self.running, self.finishing)
        known = [*(name for stage in stages for name in stage), "batch_size", "on_error"]
        for name in kwargs:
            if name not in known:
                raise InputError(f"The pipeline has no option {name!r}; its options are {', '.join(known)}.")
        before, during, after = ({name: kwargs[name] for name in stage if name in kwargs} for stage in stages)
        return before, during, after

    def __call__(self, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        """One result, a list, or an iterator, as the input is one document, a list, or any other iterable."""
        batch_size = kwargs.pop("batch_size", None) or self._batch_size or 8
        on_error = _check_on_error(kwargs.pop("on_error", self.on_error))
        kwargs.pop("num_workers", None)
        inputs, kwargs = self.single_input(inputs, kwargs)
        before, during, after = self._sanitize_parameters(**kwargs)
        before = {**self.preparing, **self._preprocess_params, **before}
        during = {**self.running, **self._forward_params, **during}
        after = {**self.finishing, **self._postprocess_params, **after}
        one = isinstance(inputs, str | bytes | Document | Mapping) or not isinstance(inputs, Iterable)
        results = self._stream([inputs] if one else inputs, batch_size, on_error, before, during, after)
        if one:
            return next(iter(results))
        return list(results) if isinstance(inputs, list | tuple) else results

    def single_input(self, inputs: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The input, and the options, where some inputs are given by name."""
        if inputs is None:
            raise InputError("The pipeline got no document; pass one, a list, or an iterable of documents.")
        return inputs, kwargs

    def _stream(
        self,
        inputs: Iterable[Any],
        batch_size: int,
        on_error: str,
        before: dict[str, Any],
        during: dict[str, Any],
        after: dict[str, Any],
    ) -> Iterator[Any]:
        waiting: deque[Job] = deque()
        pool: deque[tuple[Job, int]] = deque()
        for given in inputs:
            try:
                job = self.preprocess(given, **before)
            except InputError as error:
                if on_error == "raise":
                    raise
                job = Job(error=str(error), source=source_of(given))
            waiting.append(job)
            pool.extend((job, index) for index in range(len(job.windows)))
            while len(pool) >= batch_size:
                self._run([pool.popleft() for _ in range(batch_size)], during)
            yield from self._leave(waiting, after)
        while pool:
            self._run(list(islice(iter(pool.popleft, None), min(batch_size, len(pool)))), during)
        yield from self._leave(waiting, after)

    def _leave(self, waiting: deque[Job], after: dict[str, Any]) -> Iterator[Any]:
        while waiting and waiting[0].finished:
            job = waiting.popleft()
            failed = {"error": job.error, "source": job.source}
            yield failed if job.error is not None else self.postprocess(job, **after)

    def _run(self, part: list[tuple[Job, int]], during: dict[str, Any]) -> None:
        """Run windows, and hand each its own outputs."""
        windows = [job.windows[index] for job, index in part]
        outputs = self.forward(windows, **during)
        left = self.processor.tokenizer.padding_side == "left"
        for row, (job, index) in enumerate(part):
            length = len(job.windows[index]["input_ids"])
            for name, values in outputs.items():
                own = values[row][-length:] if left else values[row][:length]
                job.outputs.setdefault(name, []).append(own[None])
            job.done += 1

    def preprocess(self, given: Any, **settings: Any) -> Job:  # type: ignore[override]
        """Read a document and cut it into windows."""
        document = as_document(given, settings["ocr"], settings["languages"], settings["password"])
        return self.windows_of(document, None, settings)

    def windows_of(self, document: Any, question: str | None, settings: dict[str, Any]) -> Job:
        """A document, with a question where there is one, cut into windows by the processor."""
        max_length, stride = window_size(self.processor, settings["max_length"], settings["stride"])
        batch = self.processor(
            text=question,
            documents=document,
            truncation=True,
            max_length=max_length,
            stride=stride,
            return_overflowing_tokens=True,
            return_word_ids=True,
            clip_boxes=settings["clip_boxes"],
        )
        inputs = [name for name in batch if name not in WORD_ID_KEYS]
        windows = [{name: batch[name][row] for name in inputs} for row in range(len(batch["input_ids"]))]
        return Job(document, dict(batch), windows, source=source_of(None, document))

    def _forward(self, model_inputs: Any, **parameters: Any) -> Any:  # type: ignore[override]
        batch = LayoutDataCollator(self.processor)(model_inputs).to(self.device)
        outputs = self.model(**batch)
        return {name: outputs[name].float().cpu().numpy() for name in self.output_names}

    def forward(self, model_inputs: Any, **parameters: Any) -> Any:
        """Run windows, padded to the longest."""
        with self.device_placement(), torch.inference_mode():
            return self._forward(model_inputs, **parameters)

    def postprocess(self, model_outputs: Any, **settings: Any) -> Any:  # type: ignore[override]
        """The result of one document."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its results are.")


def window_size(processor: Any, max_length: int | None, stride: int | None) -> tuple[int, int]:
    """Tokens of a window, and those that neighbours share, where None stands for what `DocumentPipeline` says."""
    named = processor.tokenizer.model_max_length
    length = max_length or (named if named < _NO_LIMIT else DEFAULT_MAX_LENGTH)
    return length, length // 4 if stride is None else stride


def _check_on_error(on_error: str) -> str:
    if on_error not in ("raise", "return"):
        raise InputError(f"on_error is {on_error!r}; choose 'raise' or 'return'.")
    return on_error
