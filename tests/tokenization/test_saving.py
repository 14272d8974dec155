"""Saving and loading processors: settings, Auto classes, and code that travels with a checkpoint."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.tokenization.examples import make_document, make_processor
from tests.tokenizers import KINDS, tiny_tokenizer
from transformers import AutoProcessor, AutoTokenizer

import broadsheet  # noqa: F401  (registers the processors)
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = make_document(["Invoice", "number", "2024-0117", "", "日本語"])


def test_settings_survive(tmp_path):
    processor = make_processor(subword_boxes="split", only_label_first_subword=False, id2label=["O", "B-X"])
    processor.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "processor_config.json").read_text(encoding="utf-8"))
    assert saved == {
        "id2label": {"0": "O", "1": "B-X"},
        "only_label_first_subword": False,
        "processor_class": "SkimformerProcessor",
        "subword_boxes": "split",
    }
    reloaded = SkimformerProcessor.from_pretrained(tmp_path)
    assert reloaded.subword_boxes == "split"
    assert reloaded.only_label_first_subword is False
    assert reloaded.id2label == {0: "O", 1: "B-X"}
    changed = SkimformerProcessor.from_pretrained(tmp_path, subword_boxes="word", id2label={0: "A"})
    assert changed.subword_boxes == "word"
    assert changed.id2label == {0: "A"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special_tokens", [True, False])
def test_a_reloaded_processor_gives_the_same(kind, special_tokens, tmp_path):
    processor = make_processor(kind, special_tokens=special_tokens, model_max_length=128, padding_side="left")
    processor.save_pretrained(tmp_path)
    expected = processor(documents=[DOCUMENT], padding="max_length", return_word_ids=True).data
    for reloaded in (SkimformerProcessor.from_pretrained(tmp_path), AutoProcessor.from_pretrained(tmp_path)):
        assert type(reloaded) is SkimformerProcessor
        assert reloaded(documents=[DOCUMENT], padding="max_length", return_word_ids=True).data == expected


def test_a_folder_with_a_tokenizer_alone_makes_a_processor(tmp_path):
    tiny_tokenizer("bpe").save_pretrained(tmp_path)
    SkimformerConfig().save_pretrained(tmp_path)
    processor = SkimformerProcessor.from_pretrained(tmp_path)
    expected = make_processor("bpe")(documents=DOCUMENT).data
    assert processor(documents=DOCUMENT).data == expected
    processor.save_pretrained(tmp_path)
    assert AutoProcessor.from_pretrained(tmp_path)(documents=DOCUMENT).data == expected
    assert AutoTokenizer.from_pretrained(tmp_path)(["Invoice"], is_split_into_words=True)["input_ids"]


def test_an_empty_folder_is_refused_by_transformers(tmp_path):
    with pytest.raises((OSError, ValueError)):
        SkimformerProcessor.from_pretrained(tmp_path)


STRANGER = """
    import importlib.abc, json, sys

    class Absent(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("broadsheet", "__editable___broadsheet"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent())
    try:
        import broadsheet
    except ModuleNotFoundError:
        pass
    else:
        raise SystemExit("broadsheet is importable")

    import numpy as np
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(sys.argv[1], trust_remote_code=True)
    assert "transformers_modules" in type(processor).__module__, type(processor).__module__
    document = json.loads(sys.argv[2])
    batch = processor(documents=[document], padding=True, return_word_ids=True, return_tensors="pt")
    logits = np.zeros((*batch["input_ids"].shape, 2))
    logits[..., 1] = 1
    (result,) = processor.post_process_token_classification(logits, batch, [document])
    processor.save_pretrained(sys.argv[3])
    again = AutoProcessor.from_pretrained(sys.argv[3], trust_remote_code=True)
    assert again(documents=document).data == processor(documents=document).data
    assert not [name for name in sys.modules if name.split(".")[0] == "broadsheet"]
    print(json.dumps({"batch": {key: value.tolist() for key, value in batch.items()}, "labels": result.labels}))
"""


@pytest.mark.slow
def test_code_travels_with_a_checkpoint_to_where_broadsheet_is_not(tmp_path):
    # A process of its own also for saving: register_for_auto_class marks the class for good.
    save = f"""
        from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
        from tests.tokenization.examples import make_processor
        SkimformerProcessor.register_for_auto_class()
        make_processor("bpe", id2label=["O", "X"]).save_pretrained({str(tmp_path / "checkpoint")!r})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(save)], cwd=ROOT, check=True, timeout=300)
    checkpoint = tmp_path / "checkpoint"
    files = {path.name for path in checkpoint.glob("*.py")}
    assert {"processing_skimformer.py", "processing_layout.py", "boxes.py", "collation.py"} <= files
    config = json.loads((checkpoint / "processor_config.json").read_text(encoding="utf-8"))
    assert config["auto_map"] == {"AutoProcessor": "processing_skimformer.SkimformerProcessor"}

    (tmp_path / "stranger.py").write_text(textwrap.dedent(STRANGER), encoding="utf-8")
    ran = subprocess.run(
        [
            *(sys.executable, "-I", str(tmp_path / "stranger.py")),
            *(str(checkpoint), json.dumps(DOCUMENT), str(tmp_path / "again")),
        ],
        cwd=tmp_path,
        env={"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    processor = make_processor("bpe", id2label=["O", "X"])
    expected = processor(documents=[DOCUMENT], padding=True, return_word_ids=True)
    assert answer == {"batch": expected.data, "labels": ["X"] * 5}
