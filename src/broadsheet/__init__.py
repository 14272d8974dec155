"""
Broadsheet: Transformer models that read documents by their layout, and read them whole.

Importing the package registers every model with the Auto classes of transformers.
"""

from pathlib import Path

for _folder in ("modeling", "tokenization", "dataset_scripts", "model_cards", "dataset_cards"):
    if not (Path(__file__).parent / _folder).is_dir():
        raise ImportError(
            f"broadsheet/{_folder} is no folder: this checkout lost its symbolic links (as zip files and Windows "
            "checkouts do); clone with `git clone -c core.symlinks=true`, or install the built wheel."
        )

from broadsheet.dataset_scripts.loading import load_dataset  # noqa: E402
from broadsheet.pipelines import register_pipelines  # noqa: E402
from broadsheet.registration import MODELS, register_models  # noqa: E402

register_models()
register_pipelines()

__version__ = "0.1.0"
__all__ = ["MODELS", "load_dataset"]
