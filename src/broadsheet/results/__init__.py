"""Measured results: `results/*.json` at the root of a checkout, what RESULTS.md, README and cards quote."""
