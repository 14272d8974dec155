"""`pipeline("document-token-classification")`: the entities of documents of any length."""

from typing import Any, ClassVar

from broadsheet.pipelines.inputs import placed
from broadsheet.pipelines.streaming import DocumentPipeline, Job


class DocumentTokenClassificationPipeline(DocumentPipeline):
    """
    The entities of documents.

        tagger = pipeline("document-token-classification", model="outputs/funsd")
        tagger("form.pdf")
        [{"label": "question", "text": "Date:", "score": 0.98, "page": 0, "box": [...], "boxes": [...], "words": [7]}]

    `page` counts from 0, boxes are in the document's units, `box` surrounds the entity's words on that page, `words`
    are their places in the document. Windows and sub-words are merged by the processor, so that each word counts once.

    Args, beside those of `DocumentPipeline`:
        aggregation_strategy: "first" sub-word of each word, or the "mean" of them.
        min_score: leave out entities that score below it.
    """

    finishing: ClassVar[dict[str, Any]] = {"aggregation_strategy": "first", "min_score": 0.0}

    def postprocess(self, model_outputs: Job, **settings: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        """The entities of one document, in reading order."""
        job = model_outputs
        result = self.processor.post_process_token_classification(
            job.outputs["logits"],
            job.batch,
            job.document,
            self.model.config.id2label,
            settings["aggregation_strategy"],
        )[0]
        return [
            {"label": entity.label, "text": entity.text, "score": entity.score, **placed(entity)}
            for entity in result.entities
            if entity.score >= settings["min_score"]
        ]
