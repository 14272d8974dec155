"""One `datasets` builder per corpus, all yielding one schema."""

from broadsheet.dataset_scripts.builder import skipped_files
from broadsheet.dataset_scripts.loading import load_dataset
from broadsheet.dataset_scripts.schema import document_features

__all__ = ["document_features", "load_dataset", "skipped_files"]
