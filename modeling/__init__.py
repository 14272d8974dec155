"""Portable model code: configurations, models and the mathematics they import."""
