import subprocess
import sys

import pytest
from transformers import AutoTokenizer

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
from broadsheet.training.tokenizer import main, train_tokenizer

TEXTS = ["The total amount of the invoice is 400 dollars.", "Name: Ann Smith, born 12 May 1970.", "Größe, café"] * 5
WORDS = ["Total", "invoice", "Größe", "12"]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
@pytest.mark.parametrize("style", ["bert", "roberta"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_reloads_equal(tmp_path, kind, style, lowercase):
    tokenizer = train_tokenizer(TEXTS, kind, 330, lowercase, style)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in (TEXTS[0], "two three"):
        assert again(text).input_ids == tokenizer(text).input_ids
    assert again(WORDS, is_split_into_words=True) == tokenizer(WORDS, is_split_into_words=True)
    assert again(["a"], ["b"], is_split_into_words=False) == tokenizer(["a"], ["b"], is_split_into_words=False)
    assert ("token_type_ids" in again.model_input_names) == (style == "bert")
    assert again.mask_token_id is not None
    assert (again("TOTAL").input_ids == again("total").input_ids) == lowercase
    processor = SkimformerProcessor(again)
    boxes = [[0, 0, 1, 1]] * len(WORDS)
    batch = processor(text=WORDS, boxes=boxes, return_word_ids=True)
    assert sorted(set(batch["token_word_ids"])) == [-1, 0, 1, 2, 3]


def test_special_tokens():
    bert = train_tokenizer(TEXTS, vocab_size=120)
    assert bert.convert_ids_to_tokens(bert("name", "ann").input_ids) == ["[CLS]", "name", "[SEP]", "ann", "[SEP]"]
    assert bert("name", "ann").token_type_ids == [0, 0, 0, 1, 1]
    roberta = train_tokenizer(TEXTS, "bpe", vocab_size=400)
    tokens = roberta.convert_ids_to_tokens(roberta("Ann", "the").input_ids)
    assert tokens[0] == "<s>"
    assert tokens.count("</s>") == 3
    assert len(bert) <= 120
    assert bert.decode(bert("Ann Smith").input_ids, skip_special_tokens=True) == "ann smith"


def test_bad_arguments():
    with pytest.raises(InputError, match="no tokenizer of the kind 'word'"):
        train_tokenizer(TEXTS, "word")
    with pytest.raises(InputError, match="vocabulary of 100 is too small for bpe; it needs 261"):
        train_tokenizer(TEXTS, "bpe", 100)
    with pytest.raises(InputError, match="no special tokens 't5'"):
        train_tokenizer(TEXTS, special_tokens="t5")
    with pytest.raises(InputError, match="corpus has no text"):
        train_tokenizer(["", "  "], vocab_size=100)


def test_main(funsd, cache, tmp_path, capsys):
    out = tmp_path / "tokenizer"
    flags = ["--dataset", "funsd", "--data_dir", str(funsd), "--cache_dir", cache, "--vocab_size", "90"]
    main([*flags, "--output_dir", str(out)])
    assert "Saved a wordpiece tokenizer of" in capsys.readouterr().out
    assert "application" in AutoTokenizer.from_pretrained(out).get_vocab()
    with pytest.raises(SystemExit, match="is not empty; choose another, or set --overwrite"):
        main([*flags, "--output_dir", str(out)])
    text = tmp_path / "corpus.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    main(["--text_files", str(text), "--kind", "bpe", "--vocab_size", "300", "--output_dir", str(tmp_path / "b")])
    assert len(AutoTokenizer.from_pretrained(tmp_path / "b")) == 300
    with pytest.raises(SystemExit, match="Set either --dataset"):
        main(["--output_dir", str(tmp_path / "c")])
    with pytest.raises(SystemExit, match="nowhere.txt cannot be read as UTF-8 text"):
        main(["--text_files", "nowhere.txt", "--output_dir", str(tmp_path / "d")])


def test_the_same_corpus_gives_the_same_unigram_in_another_process():
    code = (
        "from broadsheet.training.tokenizer import train_tokenizer\n"
        "words = [f'{a}{b}{c}' for a in ('in', 'out') for b in ('vo', 'bo', 'to') for c in ('ice', 'und', 'tal')]\n"
        "texts = [' '.join(words[i % 18 :: 1 + i % 5]) for i in range(200)]\n"
        "print(train_tokenizer(texts, 'unigram', 60).backend_tokenizer.to_str())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
