"""
LoRA for the family's models (PEFT, an optional extra: `pip install 'broadsheet[peft]'`).

    from peft import get_peft_model
    model = get_peft_model(model, lora_config(model, r=16))
    ...train...
    model = model.merge_and_unload()        # the family's own model again
"""

from typing import Any

from broadsheet.registration import MODELS
from broadsheet.tokenization.input_checks import InputError

# Queries and values, as in LoRA's paper (section 4.2). Skimformer's layers have values alone, and share the queries of
# its one layout attention. What only chooses tokens has no gradient: the skim module of SkimmingMask.
# What has global tokens projects them by queries and values of their own, which are all that a document's label reads
# in the last layer.
_PROJECTIONS = ["query", "value"]
_WITH_GLOBAL = [*_PROJECTIONS, "query_global", "value_global"]
LORA_TARGETS: dict[str, list[str] | str] = {
    **dict.fromkeys(MODELS, _PROJECTIONS),
    "long_skimformer": _WITH_GLOBAL,
    "long_layoutlm": _WITH_GLOBAL,
    "skimming_mask": r".*backbone\..*\.(query|value)",
}
_TASKS = {
    "ForTokenClassification": "TOKEN_CLS",
    "ForSequenceClassification": "SEQ_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
}
_HEADS = ("classifier", "qa_outputs")


def lora_config(model: Any, **settings: Any) -> Any:
    """
    A `LoraConfig` with the model type's targets; a new head is trained whole beside the adapters.

    Args:
        model: a model of the family.
        settings: fields of `peft.LoraConfig` (`r`, `lora_alpha`, `lora_dropout`, ...); they win over the defaults.

    Raises:
        InputError: PEFT is not installed, or the model is none of the family.
    """
    try:
        from peft import LoraConfig
    except ImportError:
        raise InputError("LoRA needs PEFT; install it with: pip install 'broadsheet[peft]'.") from None
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type not in LORA_TARGETS:
        raise InputError(
            f"There are no LoRA targets for a {model_type!r}; the family's types are {', '.join(MODELS)}."
        )
    name = type(model).__name__
    task = next((task for end, task in _TASKS.items() if name.endswith(end)), None)
    heads = [head for head in _HEADS if hasattr(model, head)]
    defaults = {"target_modules": LORA_TARGETS[model_type], "task_type": task, "modules_to_save": heads or None}
    return LoraConfig(**{**defaults, **settings})
