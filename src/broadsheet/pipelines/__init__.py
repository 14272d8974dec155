"""
Pipelines of transformers for documents; importing broadsheet registers them.

    tagger = pipeline("document-token-classification", model="outputs/funsd")
    for entities in tagger(path for path in Path("inbox").glob("*.pdf")): ...

    reader = pipeline("document-extractive-qa", model="outputs/questions")
    reader(question="Who signs?", document="contract.pdf")

    writer = pipeline("document-summarization", model="outputs/summaries")
    writer("report.pdf")
"""

from typing import Any

from transformers import (
    AutoModelForDocumentQuestionAnswering,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForTokenClassification,
)
from transformers.pipelines import PIPELINE_REGISTRY

from broadsheet.pipelines.question_answering import DocumentQuestionAnsweringPipeline
from broadsheet.pipelines.summarization import DocumentSummarizationPipeline
from broadsheet.pipelines.token_classification import DocumentTokenClassificationPipeline

__all__ = [
    "PIPELINES",
    "DocumentQuestionAnsweringPipeline",
    "DocumentSummarizationPipeline",
    "DocumentTokenClassificationPipeline",
    "register_pipelines",
]

PIPELINES: dict[str, tuple[type, Any]] = {
    "document-token-classification": (DocumentTokenClassificationPipeline, (AutoModelForTokenClassification,)),
    "document-extractive-qa": (
        DocumentQuestionAnsweringPipeline,
        (AutoModelForQuestionAnswering, AutoModelForDocumentQuestionAnswering),
    ),
    "document-summarization": (DocumentSummarizationPipeline, (AutoModelForSeq2SeqLM,)),
}


def register_pipelines() -> None:
    """Register all; calling it again changes nothing."""
    for task, (pipeline_class, auto_models) in PIPELINES.items():
        if task not in PIPELINE_REGISTRY.supported_tasks:
            PIPELINE_REGISTRY.register_pipeline(task, pipeline_class, pt_model=auto_models, type="multimodal")
