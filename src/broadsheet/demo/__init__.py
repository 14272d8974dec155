"""The embedded demonstration: a corpus of business documents made on the spot."""

from broadsheet.demo.corpus import ENTITY_TYPES, make_corpus, read_annotated, read_corpus

__all__ = ["ENTITY_TYPES", "make_corpus", "read_annotated", "read_corpus"]
