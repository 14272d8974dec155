import shutil
from pathlib import Path

import pytest
import torch
from tests.tokenizers import tiny_tokenizer
from transformers import AutoModelForTokenClassification, AutoProcessor, BertConfig, BertForMaskedLM

from broadsheet.cli import main as broadsheet
from broadsheet.conversion.combining import combine_skimming_mask, main
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_skimformer import SkimformerForMaskedLM
from broadsheet.tokenization.input_checks import InputError

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def parts(tmp_path: Path) -> tuple[str, str]:
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    skimformer = SkimformerForMaskedLM(
        SkimformerConfig(vocab_size=len(tokenizer), hidden_layout_size=8, skim_attention_head_size=4, **SIZES)
    )
    bert = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **SIZES))
    skimformer.save_pretrained(tmp_path / "skimformer")
    bert.save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    return str(tmp_path / "skimformer"), str(tmp_path / "bert")


@pytest.mark.parametrize("kind", ["skimming-mask", "skim-embeddings"])
def test_the_combined_model_can_be_fine_tuned(kind: str, parts: tuple[str, str], tmp_path: Path) -> None:
    skimformer, backbone = parts
    output = str(tmp_path / "out")
    arguments = [kind, "--skimformer", skimformer, "--backbone", backbone, "--top_k", "3", "--output_dir", output]
    assert main(arguments) == 0
    model = AutoModelForTokenClassification.from_pretrained(output, num_labels=3)
    bert = BertForMaskedLM.from_pretrained(backbone)
    embeddings = model.base_model.backbone if kind == "skimming-mask" else model.base_model
    assert torch.equal(embeddings.embeddings.word_embeddings.weight, bert.bert.embeddings.word_embeddings.weight)
    batch = AutoProcessor.from_pretrained(output)(
        text=["total", "date"], boxes=[[1, 1, 2, 2], [5, 5, 9, 9]], return_tensors="pt"
    )
    assert model(**batch).logits.shape[-1] == 3


def test_the_seed_decides_the_projections(parts: tuple[str, str], tmp_path: Path) -> None:
    weights = []
    for number, seed in enumerate((1, 1, 2)):
        output = str(tmp_path / str(number))
        main(["skim-embeddings", "--skimformer", parts[0], "--backbone", parts[1], "--seed", str(seed),
              "--output_dir", output])  # fmt: skip
        model = AutoModelForTokenClassification.from_pretrained(output)
        weights.append(torch.cat([p.flatten() for name, p in model.named_parameters() if "projection" in name]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_refuses(parts: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skimformer, backbone = parts
    with pytest.raises(InputError, match="set --top_k"):
        main(["skimming-mask", "--skimformer", skimformer, "--backbone", backbone, "--output_dir", "out"])
    with pytest.raises(InputError, match="cannot be combined: .*bert"):
        combine_skimming_mask(backbone, backbone, 3, tmp_path / "out")
    with pytest.raises(InputError, match="nowhere holds no configuration"):
        combine_skimming_mask(skimformer, str(tmp_path / "nowhere"), 3, tmp_path / "out")
    with pytest.raises(InputError, match="is not empty"):
        combine_skimming_mask(skimformer, backbone, 3, tmp_path / "bert")
    shutil.copytree(backbone, tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bare" / name).unlink()
    with pytest.raises(InputError, match="has no tokenizer"):
        combine_skimming_mask(skimformer, str(tmp_path / "bare"), 3, tmp_path / "out")
    with pytest.raises(SystemExit):
        broadsheet(["combine", "--help"])
    assert "skimming-mask" in capsys.readouterr().out
