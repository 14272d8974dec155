"""`pipeline("document-summarization")`: summaries of long documents, with Pyramidion."""

from typing import Any, ClassVar

from transformers import GenerationConfig

from broadsheet.pipelines.inputs import as_document, source_of
from broadsheet.pipelines.streaming import DocumentPipeline, Job
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.layout_batch import WORD_ID_KEYS


class DocumentSummarizationPipeline(DocumentPipeline):
    """
    A summary of each document.

        writer = pipeline("document-summarization", model="outputs/summaries", num_beams=4)
        writer("report.pdf")
        {"summary_text": "...", "words_read": 7312, "words": 9120}

    A document of more tokens than `max_length` is read from its start as far as that goes, `words_read` of `words`.

    Args, beside those of `DocumentPipeline`, of which `stride` says nothing here:
        batch_size: documents in one pass; 8 when None.
        max_length: tokens read of a document; the model's `max_source_length` when None.
        generate_kwargs: options of `generate`, in a call; at the pipeline's making they are named one by one.
    """

    _pipeline_calls_generate = True
    # `max_length` is of the document here.
    _non_generation_params = ("max_length",)
    _default_generation_config = GenerationConfig(max_new_tokens=256)
    running: ClassVar[dict[str, Any]] = {"generate_kwargs": None}
    needs: ClassVar[str] = "post_process_summaries"

    def preprocess(self, given: Any, **settings: Any) -> Job:  # type: ignore[override]
        """Read a document; it is one window."""
        document = as_document(given, settings["ocr"], settings["languages"], settings["password"])
        batch = self.processor(
            documents=[document],
            truncation=True,
            max_length=settings["max_length"] or self.model.config.max_source_length,
            return_word_ids=True,
            clip_boxes=settings["clip_boxes"],
        )
        window = {name: values[0] for name, values in batch.items() if name not in WORD_ID_KEYS}
        if not self.model.config.use_layout:
            window.pop("bbox", None)
        return Job(document, dict(batch), [window], source=source_of(given, document))

    def _run(self, part: list[tuple[Job, int]], during: dict[str, Any]) -> None:
        texts = self.forward([job.windows[index] for job, index in part], **during)
        for (job, _), text in zip(part, texts, strict=True):
            job.outputs["text"] = [text]
            job.done += 1

    def _forward(self, model_inputs: Any, **parameters: Any) -> Any:  # type: ignore[override]
        batch = LayoutDataCollator(self.processor)(model_inputs).to(self.device)
        written = self.model.generate(
            **batch, **self._prepare_generate_kwargs(dict(parameters["generate_kwargs"] or {}))
        )
        return self.processor.post_process_summaries(written)

    def postprocess(self, model_outputs: Job, **settings: Any) -> dict[str, Any]:  # type: ignore[override]
        """The summary of one document, and how much of it was read."""
        job = model_outputs
        words = job.document["words"] if isinstance(job.document, dict) else job.document.words
        read = max(job.batch["token_word_ids"][0], default=-1) + 1
        return {"summary_text": job.outputs["text"][0], "words_read": read, "words": len(words)}
