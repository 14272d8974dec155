"""The model card that a pre-training run leaves beside its model."""

from typing import Any

from broadsheet.cards import fill
from broadsheet.training.baselines import loading_code


def pretraining_card(results: dict[str, Any]) -> str:
    """A README.md with the front matter of the Hub, from the content of results.json."""
    data, budget, masking = results["data"], results["budget"], results["masking"]
    front = {
        "library_name": "transformers",
        "tags": ["broadsheet", results["model_type"], "masked-lm", "document-understanding"],
        "pipeline_tag": "fill-mask",
    }
    rows = ["| split | perplexity | interval | documents | tokens predicted |", "|---|---|---|---|---|"]
    for name, metrics in results["metrics"].items():
        interval = metrics["interval"]
        between = "{:.2f} to {:.2f}".format(*interval["perplexity"]) if interval else ""
        rows.append(
            f"| {name} | {metrics['perplexity']:.2f} | {between} | {metrics['documents']} | {metrics['tokens']} |"
        )
    sizes = data["splits"]
    training = {
        "data": ", ".join(f"{part['documents']} {name} documents" for name, part in sizes.items()),
        "windows": f"{sizes['train']['windows']:,} of at most {data['max_length']} tokens, within each {data['unit']}",
        "hidden": f"{masking['probability']:.0%} of the {'words' if masking['whole_words'] else 'tokens'}",
        "steps": f"{budget['steps']} of {budget['batch_size']} windows ({budget['epochs']:.2f} epochs)",
        "learning rate": f"{budget['learning_rate']:g}, {budget['schedule']}, weight decay {budget['weight_decay']:g}",
        "seed": results["seeds"]["training"],
        "wall time": f"{results['wall_time_s'] / 60:.1f} min on {results['environment']['device']}",
    }
    imports, processor = loading_code(results["model_type"], "AutoModelForMaskedLM")
    return fill(
        "model_cards/templates/pretrained.md",
        front,
        imports=imports,
        processor=processor,
        title=results["name"],
        model_type=results["model_type"],
        dataset=data["name"],
        start=f"from `{results['start']}`" if results["start"] else "from scratch",
        parameters=results["parameters"],
        path=results["name"],
        results="\n".join(rows) if results["metrics"] else "None were measured: there was no held-out data.",
        remarks="".join(f"{sentence}\n\n" for sentence in results["remarks"]),
        mask_seed=results["seeds"]["masks"],
        training="\n".join(f"| {key} | {value} |" for key, value in training.items()),
    )
