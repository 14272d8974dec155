"""The family's members, and their registration with the Auto classes of transformers."""

from typing import NamedTuple

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForDocumentQuestionAnswering,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoProcessor,
    PreTrainedConfig,
    PreTrainedModel,
    ProcessorMixin,
)

from broadsheet.modeling.configuration_bert_with_skim_embeddings import BertWithSkimEmbeddingsConfig
from broadsheet.modeling.configuration_formnet import FormNetConfig
from broadsheet.modeling.configuration_lambert import LambertConfig
from broadsheet.modeling.configuration_long_layoutlm import LongLayoutLMConfig
from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.configuration_skimming_mask import SkimmingMaskConfig
from broadsheet.modeling.modeling_bert_with_skim_embeddings import (
    BertWithSkimEmbeddingsForMaskedLM,
    BertWithSkimEmbeddingsForQuestionAnswering,
    BertWithSkimEmbeddingsForSequenceClassification,
    BertWithSkimEmbeddingsForTokenClassification,
    BertWithSkimEmbeddingsModel,
)
from broadsheet.modeling.modeling_formnet import (
    FormNetForMaskedLM,
    FormNetForQuestionAnswering,
    FormNetForSequenceClassification,
    FormNetForTokenClassification,
    FormNetModel,
)
from broadsheet.modeling.modeling_lambert import (
    LambertForMaskedLM,
    LambertForQuestionAnswering,
    LambertForSequenceClassification,
    LambertForTokenClassification,
    LambertModel,
)
from broadsheet.modeling.modeling_long_layoutlm import (
    LongLayoutLMForMaskedLM,
    LongLayoutLMForQuestionAnswering,
    LongLayoutLMForSequenceClassification,
    LongLayoutLMForTokenClassification,
    LongLayoutLMModel,
)
from broadsheet.modeling.modeling_long_skimformer import (
    LongSkimformerForMaskedLM,
    LongSkimformerForQuestionAnswering,
    LongSkimformerForSequenceClassification,
    LongSkimformerForTokenClassification,
    LongSkimformerModel,
)
from broadsheet.modeling.modeling_pyramidion import (
    PyramidionForConditionalGeneration,
    PyramidionForSequenceClassification,
    PyramidionModel,
)
from broadsheet.modeling.modeling_skimformer import (
    SkimformerForMaskedLM,
    SkimformerForQuestionAnswering,
    SkimformerForSequenceClassification,
    SkimformerForTokenClassification,
    SkimformerModel,
)
from broadsheet.modeling.modeling_skimming_mask import (
    SkimmingMaskForMaskedLM,
    SkimmingMaskForQuestionAnswering,
    SkimmingMaskForSequenceClassification,
    SkimmingMaskForTokenClassification,
    SkimmingMaskModel,
)
from broadsheet.tokenization.processing_formnet import FormNetProcessor
from broadsheet.tokenization.processing_lambert import LambertProcessor
from broadsheet.tokenization.processing_long_layoutlm import LongLayoutLMProcessor
from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor


class FamilyMember(NamedTuple):
    """A model type: its config, its processor, and the Auto classes that lead to its models."""

    config: type[PreTrainedConfig]
    processor: type[ProcessorMixin]
    models: dict[type, type[PreTrainedModel]]


MODELS: dict[str, FamilyMember] = {
    "skimformer": FamilyMember(
        SkimformerConfig,
        SkimformerProcessor,
        {
            AutoModel: SkimformerModel,
            AutoModelForMaskedLM: SkimformerForMaskedLM,
            AutoModelForTokenClassification: SkimformerForTokenClassification,
            AutoModelForSequenceClassification: SkimformerForSequenceClassification,
            AutoModelForQuestionAnswering: SkimformerForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: SkimformerForQuestionAnswering,
        },
    ),
    "lambert": FamilyMember(
        LambertConfig,
        LambertProcessor,
        {
            AutoModel: LambertModel,
            AutoModelForMaskedLM: LambertForMaskedLM,
            AutoModelForTokenClassification: LambertForTokenClassification,
            AutoModelForSequenceClassification: LambertForSequenceClassification,
            AutoModelForQuestionAnswering: LambertForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: LambertForQuestionAnswering,
        },
    ),
    "long_layoutlm": FamilyMember(
        LongLayoutLMConfig,
        LongLayoutLMProcessor,
        {
            AutoModel: LongLayoutLMModel,
            AutoModelForMaskedLM: LongLayoutLMForMaskedLM,
            AutoModelForTokenClassification: LongLayoutLMForTokenClassification,
            AutoModelForSequenceClassification: LongLayoutLMForSequenceClassification,
            AutoModelForQuestionAnswering: LongLayoutLMForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: LongLayoutLMForQuestionAnswering,
        },
    ),
    "long_skimformer": FamilyMember(
        LongSkimformerConfig,
        SkimformerProcessor,
        {
            AutoModel: LongSkimformerModel,
            AutoModelForMaskedLM: LongSkimformerForMaskedLM,
            AutoModelForTokenClassification: LongSkimformerForTokenClassification,
            AutoModelForSequenceClassification: LongSkimformerForSequenceClassification,
            AutoModelForQuestionAnswering: LongSkimformerForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: LongSkimformerForQuestionAnswering,
        },
    ),
    "skimming_mask": FamilyMember(
        SkimmingMaskConfig,
        SkimformerProcessor,
        {
            AutoModel: SkimmingMaskModel,
            AutoModelForMaskedLM: SkimmingMaskForMaskedLM,
            AutoModelForTokenClassification: SkimmingMaskForTokenClassification,
            AutoModelForSequenceClassification: SkimmingMaskForSequenceClassification,
            AutoModelForQuestionAnswering: SkimmingMaskForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: SkimmingMaskForQuestionAnswering,
        },
    ),
    "bert_with_skim_embeddings": FamilyMember(
        BertWithSkimEmbeddingsConfig,
        SkimformerProcessor,
        {
            AutoModel: BertWithSkimEmbeddingsModel,
            AutoModelForMaskedLM: BertWithSkimEmbeddingsForMaskedLM,
            AutoModelForTokenClassification: BertWithSkimEmbeddingsForTokenClassification,
            AutoModelForSequenceClassification: BertWithSkimEmbeddingsForSequenceClassification,
            AutoModelForQuestionAnswering: BertWithSkimEmbeddingsForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: BertWithSkimEmbeddingsForQuestionAnswering,
        },
    ),
    "pyramidion": FamilyMember(
        PyramidionConfig,
        PyramidionProcessor,
        {
            AutoModel: PyramidionModel,
            AutoModelForSeq2SeqLM: PyramidionForConditionalGeneration,
            AutoModelForSequenceClassification: PyramidionForSequenceClassification,
        },
    ),
    "formnet": FamilyMember(
        FormNetConfig,
        FormNetProcessor,
        {
            AutoModel: FormNetModel,
            AutoModelForMaskedLM: FormNetForMaskedLM,
            AutoModelForTokenClassification: FormNetForTokenClassification,
            AutoModelForSequenceClassification: FormNetForSequenceClassification,
            AutoModelForQuestionAnswering: FormNetForQuestionAnswering,
            AutoModelForDocumentQuestionAnswering: FormNetForQuestionAnswering,
        },
    ),
}


def register_models() -> None:
    """Register all members; calling it again changes nothing."""
    for model_type, member in MODELS.items():
        AutoConfig.register(model_type, member.config, exist_ok=True)
        AutoProcessor.register(member.config, member.processor, exist_ok=True)
        for auto_class, model in member.models.items():
            auto_class.register(member.config, model, exist_ok=True)  # type: ignore[attr-defined]
