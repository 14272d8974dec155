"""The task of a name."""

from broadsheet.training.question_answering import QuestionAnswering
from broadsheet.training.tasks import (
    BioesClassification,
    SequenceClassification,
    Task,
    TokenClassification,
    WordClassification,
)


def make_task(name: str, scheme: str) -> Task:
    """The task of that name; word labels of the scheme "plain" are one class a word, of "IOBES" are decoded."""
    if name == SequenceClassification.name:
        return SequenceClassification()
    if name == QuestionAnswering.name:
        return QuestionAnswering()
    if scheme == "plain":
        return WordClassification()
    return BioesClassification() if scheme == "IOBES" else TokenClassification(scheme)
