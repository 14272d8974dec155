"""`broadsheet prepare finetune` and `broadsheet prepare pretrain`: see `broadsheet.training.prepared`."""

from collections.abc import Sequence

from transformers import set_seed

from broadsheet.training import finetune, pretrain
from broadsheet.training.arguments import (
    DataArguments,
    FamilyTrainingArguments,
    ModelArguments,
    RunArguments,
    parse,
)
from broadsheet.training.prepared import check_empty, write_prepared
from broadsheet.training.pretraining_arguments import CorpusArguments, PretrainingArguments, PretrainingSchedule
from broadsheet.training.runs import exit_with_sentence, start_logging

_TEXT = (
    "Cut a corpus into the windows that a model reads, with what is costly in them, and write them as Parquet files: "
    "for corpora that are prepared once and trained on often, or elsewhere. Takes the recipes and flags of "
    "`broadsheet {command}`; pass the folder to it as --prepared_dir."
)


@exit_with_sentence
def main_finetune(argv: Sequence[str] | None = None) -> None:
    """Prepare for `broadsheet finetune`."""
    kinds = [RunArguments, DataArguments, ModelArguments, FamilyTrainingArguments]
    run, data, model, training = parse(kinds, argv, "broadsheet prepare finetune", _TEXT.format(command="finetune"))
    folder = check_empty(training.output_dir, run.overwrite)
    start_logging()
    set_seed(training.seed)
    documents, windows, network, processor = finetune.load_windows(run, data, model, training.seed)
    write_prepared(folder, documents, windows, processor, network.config.model_type, finetune.purpose_of(run), data)


@exit_with_sentence
def main_pretrain(argv: Sequence[str] | None = None) -> None:
    """Prepare for `broadsheet pretrain`."""
    kinds = [PretrainingArguments, CorpusArguments, ModelArguments, PretrainingSchedule]
    run, data, model, training = parse(kinds, argv, "broadsheet prepare pretrain", _TEXT.format(command="pretrain"))
    folder = check_empty(training.output_dir, run.overwrite)
    start_logging()
    set_seed(training.seed)
    texts, windows, network, processor = pretrain.load_windows(data, model)
    texts = {name: part.select_columns(["id", "words", "group"]) for name, part in texts.items()}
    write_prepared(folder, texts, windows, processor, network.config.model_type, pretrain.PURPOSE, data)
