"""The model card that a run leaves beside its model."""

from collections.abc import Sequence
from typing import Any

from broadsheet.cards import fill
from broadsheet.training.baselines import loading_code

_TITLES = {"f1": "F1", "anls": "ANLS", "exact": "exact match"}
_UNITS = {
    "token_classification": "words: each counts",
    "sequence_classification": "documents: each counts",
    "question_answering": "answers: each question counts",
}


def model_card(results: dict[str, Any], auto_model: str, scores: Sequence[str]) -> str:
    """
    A README.md with the front matter of the Hub.

    Args:
        results: the content of results.json.
        auto_model: name of the Auto class that loads the model.
        scores: the metrics to tell; the interval is of F1 or ANLS.
    """
    data, budget = results["data"], results["budget"]
    task = results["task"]
    measured = results["metrics"]
    split = "test" if "test" in measured else "validation" if "validation" in measured else None
    front: dict[str, Any] = {
        "library_name": "transformers",
        "tags": ["broadsheet", results["model_type"], task.replace("_", "-"), "document-understanding"],
        "pipeline_tag": task.replace("_", "-").replace("sequence", "text"),
    }
    if split:
        values = [{"type": name, "name": name, "value": round(measured[split][name], 4)} for name in scores]
        front["model-index"] = [
            {
                "name": results["name"],
                "results": [
                    {
                        "task": {"type": task.replace("_", "-")},
                        "dataset": {"name": data["name"], "type": data["name"], "split": split},
                        "metrics": values,
                    }
                ],
            }
        ]
    main = "anls" if "anls" in scores else "f1"
    titles = [_TITLES.get(name, name) for name in scores]
    rows = [
        f"| split | {' | '.join(titles)} | interval of {_TITLES[main]} | documents |",
        "|---" * (len(scores) + 3) + "|",
    ]
    for name, metrics in measured.items():
        cells = [f"{100 * metrics[key]:.2f}" for key in scores]
        interval = metrics["interval"]
        cells.append("{:.2f} to {:.2f}".format(*(100 * x for x in interval[main])) if interval else "")
        rows.append(f"| {name} | {' | '.join(cells)} | {metrics['documents']} |")
    confidence = next((f"{100 * m['interval']['confidence']:g} %" for m in measured.values() if m["interval"]), "95 %")
    documents = ", ".join(f"{part['documents']} {name}" for name, part in data["splits"].items())
    training = {
        "documents": documents,
        "epochs": f"{budget['epochs']:g} ({budget['steps']} steps of {budget['batch_size']} windows)",
        "learning rate": f"{budget['learning_rate']:g}, {budget['schedule']}, weight decay {budget['weight_decay']:g}",
        "seed": results["seeds"]["training"],
        "wall time": f"{results['wall_time_s'] / 60:.1f} min on {results['environment']['device']}",
    }
    imports, processor = loading_code(results["model_type"], auto_model)
    return fill(
        "model_cards/templates/finetuned.md",
        front,
        imports=imports,
        processor=processor,
        title=results["name"],
        model_type=results["model_type"],
        task=task.replace("_", " "),
        dataset=data["name"],
        start=f"from `{results['start']}`" if results["start"] else "from scratch",
        parameters=results["parameters"],
        auto_model=auto_model,
        path=results["name"],
        box_level=data["box_level"],
        max_length=data["max_length"],
        stride=data["stride"],
        results="\n".join(rows) if measured else "None were measured: the data had neither validation nor test split.",
        unit=_UNITS[task],
        confidence=confidence,
        training="\n".join(f"| {key} | {value} |" for key, value in training.items()),
        labels="Labels: " + ", ".join(f"`{label}`" for label in results["labels"]) + "." if results["labels"] else "",
    )
