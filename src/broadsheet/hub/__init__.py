"""Checkpoints, processors and datasets on the Hub: `push`, and what the Hub's errors mean."""

from broadsheet.hub.code import add_code
from broadsheet.hub.errors import hub_sentence
from broadsheet.hub.push import push

__all__ = ["add_code", "hub_sentence", "push"]
