"""Portable input code: processors and the geometry they share."""
