"""Skim-attention maps: which parts of a page chosen words attend to (Figures 3 and 6 of the Skim-Attention paper)."""

from broadsheet.maps.attention import AttentionMap, BlockAttention, SkimMapper
from broadsheet.maps.blocks import text_blocks
from broadsheet.maps.picture import draw_attention
from broadsheet.maps.selection import select_label, select_text, select_words

__all__ = [
    "AttentionMap",
    "BlockAttention",
    "SkimMapper",
    "draw_attention",
    "select_label",
    "select_text",
    "select_words",
    "text_blocks",
]
