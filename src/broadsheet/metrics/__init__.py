"""Metrics as `evaluate.Metric` subclasses and plain functions; none needs the network."""

from broadsheet.metrics.classification_f1 import classification_f1
from broadsheet.metrics.entity_f1 import EntityF1, entity_f1
from broadsheet.metrics.perplexity import perplexity

__all__ = ["EntityF1", "classification_f1", "entity_f1", "perplexity"]
