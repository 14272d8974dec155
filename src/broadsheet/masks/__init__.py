"""What LongLayoutLM's attention patterns let the words of a document attend to."""

from broadsheet.masks.patterns import PATTERNS, PatternMask, pattern_masks
from broadsheet.masks.picture import draw_masks, draw_neighbors

__all__ = ["PATTERNS", "PatternMask", "draw_masks", "draw_neighbors", "pattern_masks"]
