"""SkimmingMask: what it takes from its two models, and that nothing else decides who attends to whom."""

from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from tests.family.boxes import integer_boxes
from tests.family.placement import offloaded, replica
from tests.family.spec import disturb
from tests.tokenizers import tiny_tokenizer
from transformers import (
    AutoModel,
    AutoModelForDocumentQuestionAnswering,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoProcessor,
    BertConfig,
    DistilBertConfig,
    GPT2Config,
    LayoutLMConfig,
    LongformerConfig,
    RobertaConfig,
)

from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.configuration_skimming_mask import SkimmingMaskConfig
from broadsheet.modeling.modeling_long_skimformer import LongSkimformerConfig, LongSkimformerModel
from broadsheet.modeling.modeling_skimformer import SkimformerForMaskedLM, SkimformerModel
from broadsheet.modeling.modeling_skimming_mask import (
    SkimmingMaskForMaskedLM,
    SkimmingMaskForQuestionAnswering,
    SkimmingMaskForSequenceClassification,
    SkimmingMaskForTokenClassification,
    SkimmingMaskModel,
)
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

TEXT = {
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 60,
}
BACKBONES = {"bert": BertConfig, "layoutlm": LayoutLMConfig, "roberta": RobertaConfig}
HEADS = {
    "model": (SkimmingMaskModel, AutoModel),
    "lm": (SkimmingMaskForMaskedLM, AutoModelForMaskedLM),
    "tokens": (SkimmingMaskForTokenClassification, AutoModelForTokenClassification),
    "sequence": (SkimmingMaskForSequenceClassification, AutoModelForSequenceClassification),
    "questions": (SkimmingMaskForQuestionAnswering, AutoModelForQuestionAnswering),
}


def skimformer(model_class: Any = SkimformerModel, seed: int = 0, **changes: Any) -> Any:
    torch.manual_seed(seed)
    config = {"hidden_layout_size": 16, "skim_attention_head_size": 5, "num_attention_heads_layout_encoder": 4}
    return disturb(model_class(SkimformerConfig(**{**TEXT, **config, **changes}))).eval()


def backbone(model_type: str, auto_class: Any = AutoModel, **changes: Any) -> Any:
    torch.manual_seed(1)
    labels = {"num_labels": 2 if "Question" in auto_class.__name__ else 3}
    return disturb(auto_class.from_config(BACKBONES[model_type](**{**TEXT, **labels, **changes}))).eval()


def batch(length: int = 14) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, 9:] = 0
    return {
        "input_ids": torch.randint(5, 60, (2, length), generator=generator),
        "bbox": torch.stack([integer_boxes(length, 1001, generator) for _ in range(2)]) * mask[..., None],
        "attention_mask": mask,
    }


def real(outputs: Any, mask: torch.Tensor) -> torch.Tensor:
    value = outputs[0]
    return value[mask.bool()] if value.shape[:2] == mask.shape else value


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("model_type", BACKBONES)
def test_with_all_tokens_it_is_the_backbone(model_type: str, head: str, tmp_path: Path) -> None:
    """Put together from models, and from their checkpoints: encoder and head arrive, and k = n changes nothing."""
    ours, auto_class = HEADS[head]
    with_head = auto_class
    if (model_type, head) == ("layoutlm", "questions"):
        with_head = AutoModelForDocumentQuestionAnswering
    source, skim = backbone(model_type, with_head), skimformer(SkimformerForMaskedLM)
    source.save_pretrained(tmp_path / "backbone")
    skim.save_pretrained(tmp_path / "skimformer")
    inputs = batch()
    theirs = {name: value for name, value in inputs.items() if name != "bbox" or model_type == "layoutlm"}
    with torch.no_grad():
        expected = source(**theirs)
    for parts in ((skim, source), (tmp_path / "skimformer", tmp_path / "backbone")):
        model = ours.from_skimformer_and_backbone(*parts, top_k=14)
        assert not model.training
        with torch.no_grad():
            torch.testing.assert_close(
                real(model(**inputs), inputs["attention_mask"]), real(expected, inputs["attention_mask"])
            )
        if head == "model":
            with torch.no_grad():
                torch.testing.assert_close(model(**inputs).pooler_output, expected.pooler_output)
        model.save_pretrained(tmp_path / "ours")
        reloaded = auto_class.from_pretrained(tmp_path / "ours")
        for name, value in model.state_dict().items():
            assert torch.equal(reloaded.state_dict()[name], value), name


@pytest.mark.parametrize("contextualize", [False, True])
@pytest.mark.parametrize("model_type", BACKBONES)
def test_each_head_attends_to_the_k_that_the_skimformer_attends_to(model_type: str, contextualize: bool) -> None:
    skim = skimformer(contextualize_layout=contextualize).double()
    model = SkimmingMaskModel.from_skimformer_and_backbone(skim, backbone(model_type), top_k=4).double()
    inputs = batch()
    with torch.no_grad():
        probabilities = skim(**inputs, output_attentions=True).attentions[0]
        attentions = model(**inputs, output_attentions=True).attentions
    assert len(attentions) == 2
    keys = inputs["attention_mask"].bool()
    for attention in attentions:
        attended = attention > 0
        assert (attended.sum(-1) == 4).all()
        assert not attended.transpose(2, 3)[~keys[:, None].expand(-1, 2, -1)].any()
        least = probabilities.masked_fill(~attended, torch.inf).amin(-1)
        most = probabilities.masked_fill(attended, -1).amax(-1)
        assert (least >= most - 1e-12).all()


def test_a_token_need_not_attend_to_itself_nor_to_the_first() -> None:
    model = SkimmingMaskModel.from_skimformer_and_backbone(skimformer(), backbone("bert"), top_k=2)
    inputs = batch()
    mask = model.attended_tokens(inputs["bbox"], inputs["attention_mask"], inputs["input_ids"].shape)
    assert not mask.diagonal(dim1=2, dim2=3).all()
    assert not mask[..., 0].all()


def test_the_pattern_is_clean_in_training_and_the_skim_module_frozen(tmp_path: Path) -> None:
    skim = skimformer(contextualize_layout=True, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    model = SkimmingMaskForTokenClassification.from_skimformer_and_backbone(skim, backbone("bert"), 3, num_labels=3)
    model.save_pretrained(tmp_path)
    inputs = batch()
    for each in (model, SkimmingMaskForTokenClassification.from_pretrained(tmp_path)):
        base = each.base_model
        expected = base.eval().attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14))
        each.train()
        assert torch.equal(base.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14)), expected)
        assert base.backbone.training
        assert not any(module.training for module in base.skim.modules())
        assert not any(parameter.requires_grad for parameter in base.skim.parameters())
        assert all(parameter.requires_grad for parameter in base.backbone.parameters())
        each(**inputs, labels=torch.zeros(2, 14, dtype=torch.long)).loss.backward()
        assert all(parameter.grad is None for parameter in base.skim.parameters())


def test_the_pattern_is_the_same_in_every_precision() -> None:
    model = SkimmingMaskModel.from_skimformer_and_backbone(skimformer(), backbone("bert"), 3).to(torch.bfloat16)
    inputs = batch()
    expected = model.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14)), expected)
    model.float()
    assert torch.equal(model.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14)), expected)
    model.config.skim_precision = "float32"
    single = model.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14))
    assert (single != expected).float().mean() < 0.01


@pytest.mark.parametrize("skim_input", ["layout", "position"])
@pytest.mark.parametrize("elsewhere", [replica, offloaded])
def test_the_pattern_is_the_same_wherever_the_weights_are(elsewhere: Any, skim_input: str) -> None:
    skim = skimformer(skim_input=skim_input, contextualize_layout=skim_input == "layout")
    model = SkimmingMaskModel.from_skimformer_and_backbone(skim, backbone("bert"), 3).to(torch.bfloat16)
    inputs = batch(40)
    expected = model.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 40))
    moved = elsewhere(model)
    for _ in range(2):
        found = moved.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 40))
        assert torch.equal(found, expected)
    assert not any(not each.is_meta for each in moved.skim.parameters())


def test_auto_takes_the_sparse_form_where_it_skips_enough() -> None:
    skim, text = skimformer(), backbone("bert", max_position_embeddings=300)
    model = SkimmingMaskModel.from_skimformer_and_backbone(skim, text, top_k=3)
    generator = torch.Generator().manual_seed(0)
    boxes = integer_boxes(300, 1001, generator)[None]
    assert model.skimming_pattern(boxes, None, torch.Size((1, 300))).tables is not None
    model.config.attention_form = "dense"
    assert model.skimming_pattern(boxes, None, torch.Size((1, 300))).tables is None
    model.config.attention_form, model.config.top_k = "auto", 250
    assert model.skimming_pattern(boxes, None, torch.Size((1, 300))).tables is None


def test_processor_of_a_byte_level_tokenizer() -> None:
    """A RoBERTa reads words as RoBERTa's tokenizer writes them: no token types, padding token 1."""
    processor = SkimformerProcessor(tiny_tokenizer("bpe"))
    pad = processor.tokenizer.pad_token_id
    text = backbone("roberta", vocab_size=len(processor.tokenizer), pad_token_id=pad)
    model = SkimmingMaskForTokenClassification.from_skimformer_and_backbone(skimformer(), text, 3, num_labels=3)
    documents = [
        {"words": ["Total", "due", "now"], "boxes": [[1, 2, 30, 9], [40, 2, 60, 9], [70, 2, 90, 9]]},
        {"words": ["Invoice"], "boxes": [[1, 2, 30, 9]]},
    ]
    documents = [{**each, "page_ids": [0] * len(each["words"]), "page_sizes": [(100, 100)]} for each in documents]
    inputs = processor(documents=documents, padding=True, return_tensors="pt")
    assert "token_type_ids" not in inputs
    alone = processor(documents=documents[1], return_tensors="pt")
    with torch.no_grad():
        together, single = model(**inputs).logits, model(**alone).logits
    torch.testing.assert_close(together[1:, : single.shape[1]], single, rtol=0, atol=1e-5)


def test_saved_beside_its_processor(tmp_path: Path) -> None:
    model = SkimmingMaskModel.from_skimformer_and_backbone(skimformer(), backbone("layoutlm"), 3)
    model.save_pretrained(tmp_path)
    SkimformerProcessor(tiny_tokenizer("wordpiece")).save_pretrained(tmp_path)
    assert type(AutoProcessor.from_pretrained(tmp_path)) is SkimformerProcessor
    config = AutoModel.from_pretrained(tmp_path).config
    assert type(config) is SkimmingMaskConfig
    assert type(config.backbone_config) is LayoutLMConfig
    assert type(config.skim_config) is SkimformerConfig
    assert config.top_k == 3


def test_number_of_labels_of_its_own() -> None:
    source = backbone("bert", AutoModelForTokenClassification)
    kept = SkimmingMaskForTokenClassification.from_skimformer_and_backbone(skimformer(), source, 3)
    assert torch.equal(kept.classifier.weight, source.classifier.weight)
    other = SkimmingMaskForTokenClassification.from_skimformer_and_backbone(skimformer(), source, 3, num_labels=5)
    assert other.classifier.weight.shape == (5, 24)
    assert other.config.num_labels == 5


def test_refuses_what_cannot_take_its_part() -> None:
    with pytest.raises(ValueError, match="Skimformer has 3 heads but the backbone has 2"):
        SkimmingMaskModel.from_skimformer_and_backbone(skimformer(num_attention_heads=3), backbone("bert"), 3)
    long = LongSkimformerModel(
        LongSkimformerConfig(**TEXT, hidden_layout_size=16, num_attention_heads_layout_encoder=4)
    )
    with pytest.raises(ValueError, match="'long_skimformer' was passed as the Skimformer"):
        SkimmingMaskModel.from_skimformer_and_backbone(long, backbone("bert"), 3)
    with pytest.raises(ValueError, match="top_k=0 leaves no token"):
        SkimmingMaskModel.from_skimformer_and_backbone(skimformer(), backbone("bert"), 0)
    skim = skimformer().config.to_dict()
    with pytest.raises(StrictDataclassError, match="wraps encoders"):
        SkimmingMaskConfig(backbone_config={**TEXT, "model_type": "bert", "is_decoder": True}, skim_config=skim)
    with pytest.raises(ValueError, match="'no-such-model', which transformers does not know"):
        SkimmingMaskConfig(backbone_config={"model_type": "no-such-model"}, skim_config=skim)
    longformer = LongformerConfig(**TEXT, attention_window=4)
    with pytest.raises(ValueError, match="attention of its own"):
        SkimmingMaskModel(SkimmingMaskConfig(backbone_config=longformer, skim_config=skim))


def test_a_backbone_without_pooler_and_token_types() -> None:
    """DistilBERT: other field names, no token types, no pooler; the family's pooler takes its place."""
    text = DistilBertConfig(vocab_size=60, dim=24, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=60)
    config = SkimmingMaskConfig(backbone_config=text, skim_config=skimformer().config.to_dict(), top_k=3)
    assert config.hidden_size == 24
    assert config.hidden_dropout_prob == text.dropout
    model = SkimmingMaskModel(config).eval()
    inputs = batch()
    results = []
    for form in ("dense", "sparse"):
        model.config.attention_form = form
        results.append(model(**inputs))
    assert results[0].pooler_output.shape == (2, 24)
    torch.testing.assert_close(results[0].last_hidden_state, results[1].last_hidden_state, rtol=0, atol=1e-5)
    changed = {**inputs, "input_ids": inputs["input_ids"].clone()}
    mask = model.attended_tokens(inputs["bbox"], inputs["attention_mask"], (2, 14))
    unread = (~mask[0].any(0).any(0)).nonzero().flatten()
    if len(unread):
        changed["input_ids"][0, unread[-1]] = 7
        torch.testing.assert_close(
            model(**changed).last_hidden_state[0, : unread[-1]], results[1].last_hidden_state[0, : unread[-1]]
        )


def test_a_decoder_is_no_backbone() -> None:
    skim = skimformer().config.to_dict()
    with pytest.raises(ValueError, match="causal|encoder"):
        SkimmingMaskModel(SkimmingMaskConfig(backbone_config=GPT2Config(n_head=2, n_embd=24), skim_config=skim))


def test_the_base_model_is_its_own() -> None:
    """transformers looks for `base_model_prefix` on every model: nothing else may have that name."""
    model = SkimmingMaskModel.from_skimformer_and_backbone(skimformer(), backbone("bert"), 3)
    assert model.base_model is model
