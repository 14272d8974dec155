"""
What the family's common tests have to know of a model type. A new member writes one file in `members/` and adds its
`ModelSpec` to `members/__init__.py`; every test of this folder then runs on it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from transformers import PreTrainedConfig, PreTrainedModel

Batch = dict[str, torch.Tensor]
Shape = tuple[int, ...]

# The heads of an encoder; the key of `ModelSpec.heads`, and the end of the class's name.
MODEL, MASKED_LM, TOKENS, SEQUENCE, QUESTIONS = (
    "Model",
    "ForMaskedLM",
    "ForTokenClassification",
    "ForSequenceClassification",
    "ForQuestionAnswering",
)


@dataclass(frozen=True)
class Variant:
    """
    A setting of the config worth a run of the cheap tests.

    Args:
        config: what it changes in the tiny config.
        backends: the attention backends that must agree.
        zero_gradients: patterns of parameters (after the head's name) whose gradient is zero by the mathematics, and
            why.
        leaks_padding: why padding changes the outputs of real tokens here by design; the tests then want to see it.
        skips: checks that do not apply, and why.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    backends: tuple[str, ...] = ("eager", "sdpa")
    zero_gradients: Mapping[str, str] = field(default_factory=dict)
    leaks_padding: str | None = None
    skips: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BadInput:
    """A batch that the model must refuse: how it is spoiled, and what the error's sentence must say."""

    name: str
    spoil: Callable[[Batch], Any]
    says: tuple[str, ...]
    variants: tuple[str, ...] | None = None  # None for every variant


@dataclass(frozen=True)
class Parent:
    """
    A model type of transformers whose checkpoints a member starts from.

    Args:
        config_class: the parent's.
        config: its tiny config, dropout 0; with other values than ours wherever a field has to be translated.
        heads: our head -> the parent's class with the same head; both must give equal outputs.
        additions: patterns of the parameters of our encoder that the parent lacks, our names.
        dropped: patterns of the parent's weights that we have no use for, as transformers reports them.
        overrides: config fields of ours that a user may set at `from_pretrained`, and their values.
        translated: our config fields after loading, and their values.
        inputs: the names of our tensors that the parent takes too.
    """

    config_class: type[PreTrainedConfig]
    config: Mapping[str, Any]
    heads: Mapping[str, type[PreTrainedModel]]
    additions: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    translated: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")

    @property
    def model_type(self) -> str:
        return self.config_class.model_type


@dataclass(frozen=True)
class ModelSpec:
    """
    One model type.

    Args:
        config: tiny config, dropout 0, three labels.
        heads: "Model", "ForMaskedLM", ... -> class.
        make_document: (config, length, generator) -> the document's tensors `[length, ...]`, all but attention_mask.
        pad_values: the pad value of each of these tensors.
        hidden_states: config -> how many hidden states the base model returns.
        attentions: (config, batch, length) -> the shapes of its attentions.
        bad_inputs: what it must refuse.
        processor: a function that makes its processor with a tiny tokenizer; None while there is none.
        parents: the model types whose checkpoints it starts from.
        token_limit: config -> the most tokens that it takes, None for any number.
        costly_variants: further variants (beside the first) that are other graphs to an exporter.
        add_batch_tensors: what its collator computes for a whole batch, if anything.
        skips: checks that do not apply to this type, and why.
    """

    config_class: type[PreTrainedConfig]
    config: Mapping[str, Any]
    variants: tuple[Variant, ...]
    heads: Mapping[str, type[PreTrainedModel]]
    make_document: Callable[[Any, int, torch.Generator], Batch]
    pad_values: Mapping[str, float]
    hidden_states: Callable[[Any], int]
    attentions: Callable[[Any, int, int], list[Shape]]
    bad_inputs: tuple[BadInput, ...] = ()
    processor: Callable[[], Any] | None = None
    parents: tuple[Parent, ...] = ()
    token_limit: Callable[[Any], int | None] | None = None
    costly_variants: tuple[str, ...] = ()
    add_batch_tensors: Callable[[Any, Batch], Batch] | None = None
    skips: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_type(self) -> str:
        return self.config_class.model_type

    def documents(self, config: Any, lengths: Sequence[int], seed: int = 0) -> list[Batch]:
        """Documents of the given lengths; the i-th depends on `seed` and i alone."""
        generators = [torch.Generator().manual_seed(1000 * seed + index) for index in range(len(lengths))]
        return [
            self.make_document(config, length, generator)
            for length, generator in zip(lengths, generators, strict=True)
        ]

    def collate(
        self, config: Any, documents: Sequence[Batch], pad_to: int | None = None, garbage: int | None = None
    ) -> Batch:
        """
        Pad to the longest document, or to `pad_to`, on the right. With `garbage`, a seed, the padded positions hold
        another document's tensors instead of the pad values.
        """
        lengths = [len(document["input_ids"]) for document in documents]
        length = max([*lengths, pad_to or 0])
        batch: Batch = {}
        for name in documents[0]:
            rows = []
            for index, document in enumerate(documents):
                row = document[name]
                missing = length - lengths[index]
                if missing:
                    tail = row.new_full((missing, *row.shape[1:]), self.pad_values[name])
                    if garbage is not None:
                        generator = torch.Generator().manual_seed(garbage + index)
                        tail = self.make_document(config, missing, generator)[name]
                    row = torch.cat([row, tail])
                rows.append(row)
            batch[name] = torch.stack(rows)
        batch["attention_mask"] = (torch.arange(length) < torch.tensor(lengths)[:, None]).long()
        return self.add_batch_tensors(config, batch) if self.add_batch_tensors else batch


@dataclass(frozen=True)
class Case:
    """A model type in one variant, with one head where the test wants one."""

    spec: ModelSpec
    variant: Variant
    head: str = MODEL

    def config(self, **changes: Any) -> Any:
        """The tiny config."""
        return self.spec.config_class(**{**self.spec.config, **self.variant.config, **changes})

    def model(self, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any) -> Any:
        """A model in eval mode, every parameter away from its initial value; `changes` go to the config."""
        torch.manual_seed(seed)
        return disturb(self.spec.heads[self.head](self.config(**changes))).to(dtype).eval()

    def batch(self, config: Any, lengths: Sequence[int] = (11, 6, 13), seed: int = 0, **kwargs: Any) -> Batch:
        """Inputs without labels."""
        return self.spec.collate(config, self.spec.documents(config, lengths, seed), **kwargs)

    def labelled_batch(self, config: Any, lengths: Sequence[int] = (11, 6, 13), seed: int = 0) -> Batch:
        """Inputs with the head's labels; the base model has none."""
        batch = self.batch(config, lengths, seed)
        return {**batch, **make_labels(self.head, config, batch, seed)}

    def skip_unless(self, check: str) -> None:
        """Skip the test where the spec says that the check does not apply."""
        reason = {**self.spec.skips, **self.variant.skips}.get(check)
        if reason:
            pytest.skip(reason)

    def zero_gradient(self, parameter: str) -> bool:
        """Whether the parameter's gradient is declared zero."""
        return any(re.search(pattern, f"{self.head} {parameter}") for pattern in self.variant.zero_gradients)

    def __str__(self) -> str:
        return f"{self.spec.model_type}-{self.variant.name}-{self.head}"


@torch.no_grad()
def disturb(model: Any, seed: int = 1) -> Any:
    """Move every parameter: no zero bias, no LayerNorm of ones, no zero-initialised addition can hide a fault."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter.dtype)
    return model


def make_labels(head: str, config: Any, batch: Batch, seed: int = 0) -> Batch:
    """Labels of a head for a batch: about a third of the tokens without one, padding never with one."""
    generator = torch.Generator().manual_seed(seed)
    mask = batch["attention_mask"].bool()
    if head == MODEL:
        return {}
    if head in (MASKED_LM, TOKENS):
        classes = config.vocab_size if head == MASKED_LM else config.num_labels
        labels = torch.randint(classes, mask.shape, generator=generator)
        unlabelled = torch.rand(mask.shape, generator=generator) < 0.33
        unlabelled[:, 0] = False
        return {"labels": labels.masked_fill(unlabelled | ~mask, -100)}
    if head == SEQUENCE:
        return {"labels": torch.randint(config.num_labels, mask.shape[:1], generator=generator)}
    if head == QUESTIONS:
        ends = mask.sum(1) - 1
        return {"start_positions": ends // 2, "end_positions": ends}
    raise ValueError(f"There are no labels for {head}: add them to make_labels.")


def predictions(outputs: Any, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """What must not depend on padding: per token, the outputs of real tokens `[tokens, ...]`; per document, all."""
    found = {}
    for name, value in outputs.items():
        if name == "loss" or not isinstance(value, torch.Tensor):
            continue
        per_token = value.shape[:2] == attention_mask.shape
        found[name] = value[attention_mask.bool()] if per_token else value
    assert found, "the model returned nothing to compare"
    return found


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Both near, relative to the largest expected value of each tensor, NaN nowhere; mappings key by key."""
    if isinstance(expected, Mapping):
        assert actual.keys() == expected.keys()
        for name in expected:
            try:
                assert_close(actual[name], expected[name], tolerance)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
        return
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance * scale, check_dtype=False)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """Gradients by parameter name, zeros where there is none."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
    }


def probe_loss(outputs: Any, mask: torch.Tensor) -> torch.Tensor:
    """A scalar that depends on every output of the real tokens, each with a weight of its own."""
    total = torch.zeros((), dtype=torch.float64)
    for value in predictions(outputs, mask).values():
        weights = torch.sin(torch.arange(value.numel(), dtype=torch.float64)).view(value.shape)
        total = total + (value * weights).sum()
    return total
