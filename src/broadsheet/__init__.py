"""Broadsheet: Transformer models that read documents by their layout, and read them whole."""
