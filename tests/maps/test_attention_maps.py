"""Maps: the numbers by definition, selection, windows, pictures, the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.family.spec import disturb
from tests.pdfs import Text, make_pdf
from tests.tokenizers import tiny_tokenizer
from transformers import BertConfig, BertModel

from broadsheet.documents import Document, read_document
from broadsheet.maps import SkimMapper, draw_attention, select_label, select_text, select_words, text_blocks
from broadsheet.maps.command import main
from broadsheet.modeling.configuration_long_skimformer import LongSkimformerConfig
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_long_skimformer import LongSkimformerModel
from broadsheet.modeling.modeling_skimformer import (
    SkimformerForMaskedLM,
    SkimformerForTokenClassification,
    SkimformerModel,
)
from broadsheet.modeling.modeling_skimming_mask import SkimmingMaskModel
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

PROCESSOR = SkimformerProcessor(tiny_tokenizer("wordpiece"))
TEXT: dict[str, Any] = {
    "vocab_size": len(PROCESSOR.tokenizer),
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
SKIM = {"hidden_layout_size": 16, "skim_attention_head_size": 5, "num_attention_heads_layout_encoder": 4}


def skimformer(model_class: Any = SkimformerModel, config_class: Any = SkimformerConfig, **changes: Any) -> Any:
    torch.manual_seed(0)
    return disturb(model_class(config_class(**{**TEXT, **SKIM, **changes}))).eval()


def document(lines: int = 6, pages: int = 1) -> Document:
    """Lines of four words; after every second line a gap."""
    words, boxes, page_ids = [], [], []
    for page in range(pages):
        for line in range(lines):
            for place in range(4):
                x, y = 50.0 + 120 * place, 60.0 + 14 * line + 40 * (line // 2)
                words.append(["Invoice", "total", "amount,", f"due{line}"][place])
                boxes.append([x, y, x + 100, y + 11])
                page_ids.append(page)
    return Document(words, boxes, page_ids, [(612.0, 792.0)] * pages)


def by_definition(model: Any, read: Document, chosen: list[int]) -> tuple[np.ndarray, float]:
    """One window: the mean over heads and chosen tokens of the attention of each word's tokens."""
    batch = PROCESSOR(documents=read, return_tensors="pt", return_word_ids=True)
    ids = batch["token_word_ids"].flatten().tolist()
    attention = model(**batch.model_inputs, output_attentions=True).attentions[0][0].detach().numpy()
    rows = [token for token, word in enumerate(ids) if word in chosen]
    score = np.mean([attention[head, row] for head in range(2) for row in rows], axis=0)
    words = [np.mean([score[token] for token, word in enumerate(ids) if word == index]) for index in range(len(read))]
    return np.array(words), float(sum(score[token] for token, word in enumerate(ids) if word < 0))


@pytest.mark.parametrize("kind", ["skimformer", "long_skimformer"])
def test_numbers_by_definition(kind: str) -> None:
    model = skimformer()
    if kind == "long_skimformer":
        model = skimformer(LongSkimformerModel, LongSkimformerConfig, attention_window=8)
    read, chosen = document(), [4, 5, 9]
    attention = SkimMapper(model, PROCESSOR)(read, chosen)
    expected, special = by_definition(model, read, chosen)
    np.testing.assert_allclose(attention.words, expected, atol=1e-6)
    assert attention.special == pytest.approx(special, abs=1e-6)
    assert attention.totals.sum() + attention.special == pytest.approx(1, abs=1e-5)
    assert (attention.windows, attention.windows_averaged) == (1, 1)
    assert sum(block.total for block in attention.blocks) == pytest.approx(attention.totals.sum(), abs=1e-6)


def test_of_a_skimming_mask_it_is_the_skimformers() -> None:
    torch.manual_seed(1)
    text = BertModel(BertConfig(**TEXT))
    skim = skimformer()
    model = SkimmingMaskModel.from_skimformer_and_backbone(skim, text, top_k=3)
    read = document()
    expected = SkimMapper(skim, PROCESSOR)(read, [2]).words
    np.testing.assert_allclose(SkimMapper(model, PROCESSOR)(read, [2]).words, expected, atol=1e-6)


def test_windows_average_what_stands_in_one_window() -> None:
    """A word is averaged over the windows that it shares with a chosen word; one that shares none has no number."""
    model, read = skimformer(), document(lines=12, pages=2)
    attention = SkimMapper(model, PROCESSOR, max_length=40, stride=12)(read, [0, 1])
    assert attention.windows > 2
    assert attention.windows_averaged == 1
    seen = np.isfinite(attention.words)
    assert seen[0]
    assert not seen[-1]
    total = np.nansum(attention.totals) + attention.special
    assert total == pytest.approx(1, abs=1e-5)
    unseen = [block for block in attention.blocks if not seen[block.word_ids].any()]
    assert unseen
    assert all(np.isnan(block.mean) for block in unseen)
    everything = SkimMapper(model, PROCESSOR, max_length=40, stride=12)(read, range(len(read)))
    assert everything.windows_averaged == everything.windows
    assert np.isfinite(everything.words).all()
    plain = json.dumps(attention.to_dict())
    assert "NaN" not in plain


def test_blocks_are_lines_under_each_other() -> None:
    assert text_blocks(document()) == [list(range(start, start + 8)) for start in (0, 8, 16)]
    lines = document()
    shuffled = [*range(8, 24), *range(8)]
    other = Document(
        [lines.words[index] for index in shuffled],
        [lines.boxes[index] for index in shuffled],
        lines.page_ids,
        lines.page_sizes,
    )
    assert text_blocks(other) == [list(range(start, start + 8)) for start in (0, 8, 16)]
    two_pages = text_blocks(document(lines=1, pages=2))
    assert two_pages == [[0, 1, 2, 3], [4, 5, 6, 7]]
    title = Document(["Title", "text"], [[0, 0, 90, 30], [0, 35, 90, 45]], [0, 0], [(100, 100)])
    assert text_blocks(title) == [[0], [1]]


def test_selection() -> None:
    read = document(lines=2)
    assert select_text(read, "total AMOUNT") == [1, 2, 5, 6]
    assert select_text(read, "amount due1") == [6, 7]
    assert select_words(read, "3-5,0") == [0, 3, 4, 5]
    assert select_words(read, " 7 ") == [7]
    for text, says in (("tax", "'tax' stands nowhere in the document"), (" , ", "has no word to look for")):
        with pytest.raises(InputError, match=says):
            select_text(read, text)
    for ranges, says in (("3-9", "no words 3-9 in the document; its words are 0-7"), ("x", "write it as 3-17")):
        with pytest.raises(InputError, match=says):
            select_words(read, ranges)
    with pytest.raises(InputError, match="There are no words 5-3"):
        select_words(read, "5-3")


def save(folder: Path, model: Any) -> Path:
    model.save_pretrained(folder)
    PROCESSOR.save_pretrained(folder)
    return folder


def test_by_label(tmp_path: Path) -> None:
    labels = {0: "O", 1: "B-author", 2: "I-author"}
    model = skimformer(SkimformerForTokenClassification, id2label=labels, label2id={n: i for i, n in labels.items()})
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 9.0, 0.0]))
    folder = save(tmp_path / "model", model)
    assert select_label(document(lines=1), "Author", folder) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="knows no label 'title'; its labels are O, author"):
        select_label(document(lines=1), "title", folder)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([9.0, 0.0, 0.0]))
    with pytest.raises(InputError, match="labels no word of the document as 'author'"):
        select_label(document(lines=1), "author", save(tmp_path / "other", model))


def test_picture_is_darkest_where_the_attention_is() -> None:
    model, read = skimformer(), document()
    attention = SkimMapper(model, PROCESSOR)(read, [4, 5])
    (picture,) = draw_attention(read, attention, "two words", blocks=False)
    scale = picture.width / 612
    least, most = int(np.argmin(attention.words)), int(np.argmax(attention.words))

    def background(index: int) -> tuple[int, ...]:
        x0, y0, _, _ = read.boxes[index]
        return picture.getpixel((round(x0 * scale) + 3, round(y0 * scale) + 3))  # type: ignore[return-value]

    assert sum(background(most)) < sum(background(least)) < 3 * 255
    assert picture.getpixel((5, 5)) == (255, 255, 255)
    with_blocks = draw_attention(read, attention)[0]
    assert np.abs(np.asarray(with_blocks).astype(int) - np.asarray(picture).astype(int)).sum() > 0


def test_picture_shows_the_pages_that_were_read() -> None:
    read = document(lines=12, pages=2)
    attention = SkimMapper(skimformer(), PROCESSOR, max_length=40, stride=12)(read, [0])
    pictures = draw_attention(read, attention)
    assert [picture.info["page"] for picture in pictures] == [0]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save(tmp_path / "model", skimformer(SkimformerForMaskedLM))
    pdf = tmp_path / "invoice.pdf"
    make_pdf(pdf, [[Text("Invoice total", 72, 700), Text("Amount due 78.90", 72, 650)]])
    picture = tmp_path / "map.png"
    assert main([str(pdf), "--model", str(folder), "--select", "total", "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "Invoice total" in printed
    assert "special tokens get" in printed
    assert Image.open(picture).width > 100
    assert main([str(pdf), "--model", str(folder), "--words", "0-1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["selected"] == [0, 1]
    assert len(found["words"]) == len(read_document(pdf)) == 5
    for arguments, says in (
        ([], "you gave none"),
        (["--select", "a", "--words", "1"], "you gave --select and --words"),
        (["--select", "nothing"], "stands nowhere"),
        (["--words", "0", "--max-length", "0"], "max_length"),
    ):
        with pytest.raises(InputError, match=says):
            main([str(pdf), "--model", str(folder), *arguments])


def test_text_like_markup_and_a_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save(tmp_path / "model", skimformer(SkimformerForMaskedLM))
    pdf = make_pdf(tmp_path / "locked.pdf", [[Text("[/x] Doe", 72, 700)]], password="sesame")
    flags = ["--model", str(folder), "--words", "0", "--picture", str(tmp_path / "map.png")]
    with pytest.raises(InputError, match="--password"):
        main([str(pdf), *flags])
    assert main([str(pdf), *flags, "--password", "sesame"]) == 0
    assert "* [/x] Doe" in capsys.readouterr().out
    assert Image.open(tmp_path / "map.png").width > 100


def test_a_missing_device() -> None:
    with pytest.raises(InputError, match="no device 'gpu' on this machine"):
        SkimMapper(skimformer(), PROCESSOR, device="gpu")


def test_refuses_models_without_skim_attention(tmp_path: Path) -> None:
    BertModel(BertConfig(**TEXT)).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a 'bert', which has no skim-attention"):
        SkimMapper.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="cannot be loaded"):
        SkimMapper.from_pretrained(tmp_path / "nothing")
    skimformer().save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match=r"cannot be loaded|no processor_config.json"):
        SkimMapper.from_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="more than the 20 tokens"):
        SkimMapper(skimformer(skim_input="position", max_position_embeddings=20), PROCESSOR, max_length=30)
    mapper = SkimMapper(skimformer(), PROCESSOR)
    with pytest.raises(InputError, match="No words are chosen"):
        mapper(document(), [])
    with pytest.raises(InputError, match="no word 99 in a document of 24 words"):
        mapper(document(), [99])
