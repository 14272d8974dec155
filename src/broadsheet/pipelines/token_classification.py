"""`pipeline("document-token-classification")`: the entities of documents of any length."""

from typing import Any, ClassVar

from broadsheet.modeling.viterbi import WordDecoder, is_bioes
from broadsheet.pipelines.inputs import placed
from broadsheet.pipelines.streaming import DocumentPipeline, Job
from broadsheet.tokenization.merging import TokenClassificationResult


class DocumentTokenClassificationPipeline(DocumentPipeline):
    """
    The entities of documents.

        tagger = pipeline("document-token-classification", model="outputs/funsd")
        tagger("form.pdf")
        [{"label": "question", "text": "Date:", "score": 0.98, "page": 0, "box": [...], "boxes": [...], "words": [7]}]

    `page` counts from 0, boxes are in the document's units, `box` surrounds the entity's words on that page, `words`
    are their places in the document. Windows and sub-words are merged by the processor, so that each word counts once.
    Labels in BIOES are chosen by Viterbi, so that every sequence is legal.

    Args, beside those of `DocumentPipeline`:
        aggregation_strategy: "first" sub-word of each word, or the "mean" of them.
        min_score: leave out entities that score below it.
    """

    finishing: ClassVar[dict[str, Any]] = {"aggregation_strategy": "first", "min_score": 0.0}

    def postprocess(self, model_outputs: Job, **settings: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        """The entities of one document, in reading order."""
        return [
            {"label": entity.label, "text": entity.text, "score": entity.score, **placed(entity)}
            for entity in self.merged(model_outputs, settings["aggregation_strategy"]).entities
            if entity.score >= settings["min_score"]
        ]

    def merged(self, job: Job, aggregation_strategy: str = "first") -> TokenClassificationResult:
        """The label and score of every word of a document whose windows were run, and its entities."""
        id2label = self.model.config.id2label
        return self.processor.post_process_token_classification(
            job.outputs["logits"],
            job.batch,
            job.document,
            id2label,
            aggregation_strategy,
            decode=WordDecoder(id2label) if is_bioes(list(id2label.values())) else None,
        )[0]
