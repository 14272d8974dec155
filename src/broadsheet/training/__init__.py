"""Training and evaluation: `python -m broadsheet.training.finetune recipe.yaml`, also under `accelerate launch`."""
