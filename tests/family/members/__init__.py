"""The members of the family, and the cases that the common tests run on."""

import pytest
from tests.family.members.bert_with_skim_embeddings import BERT_WITH_SKIM_EMBEDDINGS
from tests.family.members.formnet import FORMNET
from tests.family.members.lambert import LAMBERT
from tests.family.members.long_layoutlm import LONG_LAYOUTLM
from tests.family.members.long_skimformer import LONG_SKIMFORMER
from tests.family.members.skimformer import SKIMFORMER
from tests.family.members.skimming_mask import SKIMMING_MASK
from tests.family.spec import MODEL, Case, ModelSpec

MEMBERS: tuple[ModelSpec, ...] = (
    SKIMFORMER,
    LONG_SKIMFORMER,
    LAMBERT,
    LONG_LAYOUTLM,
    SKIMMING_MASK,
    BERT_WITH_SKIM_EMBEDDINGS,
    FORMNET,
)


def variants() -> pytest.MarkDecorator:
    """Every member in every variant, base model."""
    return _parametrize([Case(spec, variant) for spec in MEMBERS for variant in spec.variants])


def variant_heads(*without: str) -> pytest.MarkDecorator:
    """Every member in every variant with every head; `without` some heads."""
    return _parametrize(
        [
            Case(spec, variant, head)
            for spec in MEMBERS
            for variant in spec.variants
            for head in spec.heads
            if head not in without
        ]
    )


def heads(*without: str) -> pytest.MarkDecorator:
    """Every member in its first variant with every head: for what a variant does not change."""
    return _parametrize(
        [Case(spec, spec.variants[0], head) for spec in MEMBERS for head in spec.heads if head not in without]
    )


def types(head: str = MODEL) -> pytest.MarkDecorator:
    """Every member once: for the costly tests."""
    return _parametrize([Case(spec, spec.variants[0], head) for spec in MEMBERS])


def costly(head: str = MODEL) -> pytest.MarkDecorator:
    """Every member in its first variant and in those that it calls costly: for exporters."""
    return _parametrize(
        [
            Case(spec, variant, head)
            for spec in MEMBERS
            for variant in spec.variants
            if variant is spec.variants[0] or variant.name in spec.costly_variants
        ]
    )


def _parametrize(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=str)
