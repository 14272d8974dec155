"""Checkpoints of the papers' authors as checkpoints of the family."""
