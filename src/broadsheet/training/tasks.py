"""The tasks that a model is fine-tuned for: what its labels are, what it reads, how it is measured."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
from datasets import ClassLabel, Dataset, List
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers.modeling_outputs import TokenClassifierOutput

from broadsheet.metrics import classification_f1, docbank_area_f1, docbank_token_f1, entity_f1
from broadsheet.metrics.entity_f1 import SCHEMES
from broadsheet.metrics.stated_values import value_corpus, value_f1
from broadsheet.modeling.viterbi import WordDecoder
from broadsheet.tokenization.bioes import bioes_names, to_bioes
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.layout_batch import WORD_ID_KEYS
from broadsheet.tokenization.merging import Decode, TokenClassificationResult
from broadsheet.tokenization.tagging import tagging_scheme
from broadsheet.training.preparation import encode


class Task(ABC):
    """One way to use a document model. All that differs between tasks stands here."""

    name: ClassVar[str]
    auto_model: ClassVar[type]
    metric: ClassVar[str] = "f1"
    """The number, of `measure`, by which checkpoints are compared."""
    answers: ClassVar[str]
    """The dataset's column that is learned and measured by."""
    scores: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1")
    """The numbers, of `measure` and of its interval, that a card tells."""

    @abstractmethod
    def labels(self, documents: Dataset) -> list[str]:
        """The names of the labels, in the dataset's order. Raises `InputError` where it has none."""

    @abstractmethod
    def encode(self, documents: Dataset, processor: Any, id2label: dict[int, str], options: dict[str, Any]) -> Dataset:
        """The documents as windows with the model's label ids."""

    def training_windows(self, windows: Dataset) -> Dataset:
        """Those of the windows that something can be learned from. Raises `InputError` where none is left."""
        return windows

    @abstractmethod
    def measure(
        self,
        logits: Any,
        windows: Dataset,
        documents: Dataset,
        processor: Any,
        id2label: dict[int, str],
        bootstrap_samples: int,
        seed: int,
    ) -> dict[str, Any]:
        """Merge the windows' logits into predictions per word, document or question, and score them."""

    def check_labels(self, documents: Dataset, id2label: dict[int, str]) -> list[str]:
        """The dataset's label names, all of which the model must know."""
        names = self.labels(documents)
        unknown = [name for name in names if name not in id2label.values()]
        if unknown:
            raise InputError(
                f"The dataset has the labels {', '.join(unknown)}, which are none of the model's "
                f"({', '.join(id2label.values())}); use a model trained for them, or another dataset."
            )
        return names


class TokenClassification(Task):
    """Label each word; measured by strict entity F1 on words, each predicted once however many windows show it."""

    name = "token_classification"
    auto_model = AutoModelForTokenClassification
    answers = "labels"

    def __init__(self, scheme: str = "IOB2"):
        self.scheme = scheme

    def labels(self, documents: Dataset) -> list[str]:
        feature = documents.features.get("labels")
        if feature is None or not isinstance(feature.feature, ClassLabel):
            raise InputError(
                f"The dataset has no word labels (its columns are {', '.join(documents.column_names)}); choose a "
                "dataset for token classification."
            )
        return feature.feature.names

    def encode(self, documents: Dataset, processor: Any, id2label: dict[int, str], options: dict[str, Any]) -> Dataset:
        names = self.check_labels(documents, id2label)
        return encode(self.in_scheme(documents), processor, word_labels=names, label=None, options=options)

    def check_labels(self, documents: Dataset, id2label: dict[int, str]) -> list[str]:
        """Also that the labels of both follow the scheme."""
        names = super().check_labels(documents, id2label)
        check_scheme([*id2label.values(), *names], self.scheme)
        return names

    def in_scheme(self, documents: Dataset) -> Dataset:
        """The documents with labels in the task's scheme: as they are, unless the task translates them."""
        return documents

    def decoder(self, id2label: dict[int, str]) -> Decode | None:
        """What chooses the labels from the words' probabilities; None for the most probable one of each word."""
        return None

    def measure(
        self,
        logits: np.ndarray,
        windows: Dataset,
        documents: Dataset,
        processor: Any,
        id2label: dict[int, str],
        bootstrap_samples: int,
        seed: int,
    ) -> dict[str, Any]:
        results = merged_predictions(logits, windows, documents, processor, id2label, self.decoder(id2label))
        names = self.labels(documents)
        true = [[names[label] for label in labels] for labels in self.in_scheme(documents)["labels"]]
        known = {*names, *id2label.values()}
        predicted = [result.labels for result in results]
        metrics = entity_f1(predicted, true, self.scheme, known, bootstrap_samples, seed=seed)
        corpus = value_corpus(documents.info.builder_name, names)
        if corpus is not None:
            entities = [result.entities for result in results]
            metrics["values"] = value_f1(corpus, entities, documents["entities"], bootstrap_samples, seed)
        return metrics


class BioesClassification(TokenClassification):
    """
    Label each word in BIOES, whether the dataset has IOB2, BIOES or BILOU; Viterbi chooses the labels, so that every
    sequence is legal.
    """

    def __init__(self) -> None:
        super().__init__("IOBES")

    def labels(self, documents: Dataset) -> list[str]:
        return bioes_names(super().labels(documents))

    def in_scheme(self, documents: Dataset) -> Dataset:
        names = super().labels(documents)
        if names == self.labels(documents):
            return documents
        # From all the names: a document may have no E- and S- of its own.
        scheme = tagging_scheme(names)
        features = documents.features.copy()
        features["labels"] = List(ClassLabel(names=self.labels(documents)))

        def translate(row: dict[str, Any]) -> dict[str, Any]:
            return {"labels": to_bioes([names[label] for label in row["labels"]], scheme)}

        return documents.map(translate, features=features, desc="Labels to BIOES")

    def decoder(self, id2label: dict[int, str]) -> Decode | None:
        return WordDecoder(id2label)


class WordClassification(TokenClassification):
    """
    Give each word one class, without B- and I-, as in DocBank; measured by word, and by area as DocBank does.

    The averages are over the classes that occur, but O and figure: DocBank-LA leaves the words that mark figures out.
    """

    def __init__(self) -> None:
        super().__init__("plain")

    def measure(
        self,
        logits: np.ndarray,
        windows: Dataset,
        documents: Dataset,
        processor: Any,
        id2label: dict[int, str],
        bootstrap_samples: int,
        seed: int,
    ) -> dict[str, Any]:
        predicted = word_predictions(logits, windows, documents, processor, id2label)
        names = self.labels(documents)
        true = [[names[label] for label in labels] for labels in documents["labels"]]
        averaged = [name for name in names if name not in ("O", "figure")]
        options: dict[str, Any] = {"classes": averaged, "bootstrap_samples": bootstrap_samples, "seed": seed}
        by_word = docbank_token_f1(predicted, true, **options)
        return {**by_word, "area": docbank_area_f1(predicted, true, documents["boxes"], **options)}


def check_scheme(labels: Collection[str], scheme: str) -> None:
    """Raise `InputError` at an unknown tagging scheme, or at the first label that is none of it; "plain" has any."""
    if scheme == "plain":
        return
    if scheme not in SCHEMES:
        raise InputError(f"There is no tagging scheme {scheme!r}; set --scheme to plain, {', '.join(SCHEMES)}.")
    strange = _strange(labels, scheme)
    if strange:
        fitting = next((name for name in ("IOB2", "IOBES", "BILOU") if not _strange(labels, name)), "plain")
        raise InputError(
            f"The label {strange[0]!r} does not follow the tagging scheme {scheme}; set --scheme to that of the "
            f"labels, {fitting} by the looks of them."
        )


def _strange(labels: Collection[str], scheme: str) -> list[str]:
    """The labels that are none of the scheme."""
    prefixes = SCHEMES[scheme].allowed_prefix.name.split("|")
    return [label for label in labels if label[:1] not in prefixes or label[1:2] not in ("", "-")]


def word_predictions(
    logits: np.ndarray, windows: Dataset, documents: Dataset, processor: Any, id2label: dict[int, str]
) -> list[list[str]]:
    """The label of each word of each document; arguments as `merged_predictions`."""
    return [result.labels for result in merged_predictions(logits, windows, documents, processor, id2label)]


def merged_predictions(
    logits: np.ndarray,
    windows: Dataset,
    documents: Dataset,
    processor: Any,
    id2label: dict[int, str],
    decode: Decode | None = None,
) -> list[TokenClassificationResult]:
    """
    Labels, scores and entities of the words of each document.

    Args:
        logits: `[windows, length, labels]`, padded to any length.
        windows: what `encode` returned, in the order of the logits.
        documents: what was encoded.
        processor: what it was encoded by.
        id2label: the model's labels.
        decode: chooses the labels of the words; the most probable ones when None.
    """
    columns = [name for name in ("input_ids", "attention_mask", *WORD_ID_KEYS) if name in windows.column_names]
    rows = windows.select_columns(columns).to_list()
    batch = LayoutDataCollator(processor)(rows)
    batch["overflow_to_sample_mapping"] = np.asarray(windows["document"])
    length = batch["input_ids"].shape[1]
    outputs = TokenClassifierOutput(logits=batch["input_ids"].new_tensor(logits[:, :length], dtype=float))
    rows = documents.select_columns(["words", "boxes", "page_ids", "page_sizes"]).to_list()
    return processor.post_process_token_classification(outputs, batch, rows, id2label, decode=decode)


class SequenceClassification(Task):
    """Classify documents; the class probabilities of a document are the mean over its windows."""

    name = "sequence_classification"
    auto_model = AutoModelForSequenceClassification
    metric = "accuracy"
    answers = "label"

    def labels(self, documents: Dataset) -> list[str]:
        feature = documents.features.get("label")
        if not isinstance(feature, ClassLabel):
            raise InputError(
                f"The dataset has no document classes (its columns are {', '.join(documents.column_names)}); choose "
                "a dataset for classification, or labels_from_folders=True with pdf_folder."
            )
        return feature.names

    def encode(self, documents: Dataset, processor: Any, id2label: dict[int, str], options: dict[str, Any]) -> Dataset:
        ids = {name: index for index, name in id2label.items()}
        model_ids = [ids[name] for name in self.check_labels(documents, id2label)]
        return encode(documents, processor, word_labels=None, label=model_ids, options=options)

    def measure(
        self,
        logits: np.ndarray,
        windows: Dataset,
        documents: Dataset,
        processor: Any,
        id2label: dict[int, str],
        bootstrap_samples: int,
        seed: int,
    ) -> dict[str, Any]:
        exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
        sums = np.zeros((len(documents), logits.shape[-1]))
        np.add.at(sums, np.asarray(windows["document"]), exponentials / exponentials.sum(axis=-1, keepdims=True))
        predicted = [id2label[int(index)] for index in sums.argmax(axis=-1)]
        names = self.labels(documents)
        true = [names[label] for label in documents["label"]]
        lengths = [len(words) for words in documents["words"]]
        return classification_f1(predicted, true, lengths, bootstrap_samples, seed=seed)


def metric_table(metrics: dict[str, Any]) -> str:
    """The metrics of `measure` as a table for the terminal, in per cent."""
    if "anls" in metrics:
        return _answer_table(metrics)
    interval = metrics["interval"]
    rows: list[tuple[str, ...]] = [("", "precision", "recall", "F1", "support")]
    if "area" in metrics:
        means = [("micro", metrics["micro"]), ("macro", metrics), ("macro, by area", metrics["area"])]
    else:
        means = [("micro", metrics), ("macro", metrics["macro"])]
    for name, row in [*metrics["types"].items(), *((f"all ({name})", row) for name, row in means)]:
        support = f"{row['support']:.0f}" if "support" in row else ""
        rows.append((name, *(f"{100 * row[key]:.2f}" for key in ("precision", "recall", "f1")), support))
    if "values" in metrics:
        rows.append(("values", *(f"{100 * metrics['values'][key]:.2f}" for key in ("precision", "recall", "f1")), ""))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if interval:
        lines.append(_interval_line("F1", "f1", metrics))
    for least, row in metrics.get("by_length", {}).items():
        lines.append(f"accuracy {100 * row['accuracy']:.2f} of {row['documents']} documents of {least} words or more")
    return "\n".join(lines)


def _answer_table(metrics: dict[str, Any]) -> str:
    lines = [
        f"{metrics['questions']} questions about {metrics['documents']} documents; the answers of "
        f"{metrics['questions'] - metrics['located']} stand nowhere in the words",
        f"ANLS {100 * metrics['anls']:.2f}, exact {100 * metrics['exact']:.2f}",
    ]
    if metrics["interval"]:
        lines.append(_interval_line("ANLS", "anls", metrics))
    return "\n".join(lines)


def _interval_line(title: str, key: str, metrics: dict[str, Any]) -> str:
    interval = metrics["interval"]
    low, high = (100 * value for value in interval[key])
    return (
        f"{title} {100 * metrics[key]:.2f}, {100 * interval['confidence']:g} % interval {low:.2f} to {high:.2f} "
        f"({metrics['documents']} documents resampled {interval['samples']} times)"
    )
