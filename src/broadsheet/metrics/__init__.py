"""Metrics as `evaluate.Metric` subclasses and plain functions; none needs the network."""

from broadsheet.metrics.bootstrap import bootstrap_weights, interval
from broadsheet.metrics.entity_f1 import EntityF1, entity_f1
from broadsheet.metrics.perplexity import perplexity

__all__ = ["EntityF1", "bootstrap_weights", "entity_f1", "interval", "perplexity"]
