"""Metrics as `evaluate.Metric` subclasses and plain functions; none needs the network."""

from broadsheet.metrics.anls import Anls, anls, answer_similarity
from broadsheet.metrics.classification_f1 import classification_f1
from broadsheet.metrics.docbank import (
    DOCBANK_LA_CLASSES,
    DOCBANK_PAPER_CLASSES,
    DocBankF1,
    docbank_area_f1,
    docbank_token_f1,
)
from broadsheet.metrics.entity_f1 import EntityF1, entity_f1
from broadsheet.metrics.perplexity import Perplexity, corpus_perplexity, merged_loss, perplexity
from broadsheet.metrics.rouge import Rouge, rouge
from broadsheet.metrics.values import KleisterF1, SroieF1, kleister_f1, parse_values, sroie_f1

__all__ = [
    "DOCBANK_LA_CLASSES",
    "DOCBANK_PAPER_CLASSES",
    "Anls",
    "DocBankF1",
    "EntityF1",
    "KleisterF1",
    "Perplexity",
    "Rouge",
    "SroieF1",
    "anls",
    "answer_similarity",
    "classification_f1",
    "corpus_perplexity",
    "docbank_area_f1",
    "docbank_token_f1",
    "entity_f1",
    "kleister_f1",
    "merged_loss",
    "parse_values",
    "perplexity",
    "rouge",
    "sroie_f1",
]
