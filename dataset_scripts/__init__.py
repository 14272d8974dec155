"""One `datasets` builder per corpus, all yielding one schema."""
