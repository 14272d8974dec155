"""Any fast tokenizer: word boundaries, special tokens, and what survives a reload."""

import pytest
from tests.tokenization.examples import make_processor
from tests.tokenizers import KINDS, SENTENCES, tiny_tokenizer
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, BertTokenizerLegacy, PreTrainedTokenizerFast, RobertaTokenizer

from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor
from broadsheet.tokenization.word_tokenization import prepare_tokenizer, special_tokens, tokenize_words

TEXT = "Invoice number of the lender total quickly"


def pieces(tokenizer, texts):
    tokens = tokenize_words(tokenizer, [texts], ["the document"])
    return tokenizer.convert_ids_to_tokens(tokens.input_ids.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_list_are_tokenized_as_in_running_text(kind):
    tokenizer = tiny_tokenizer(kind)
    prepare_tokenizer(tokenizer)
    assert pieces(tokenizer, TEXT.split()) == tokenizer.tokenize(TEXT)


def test_byte_level_bpe_without_the_setting_would_split_words_wrong():
    # The reason for the setting: without it the pieces differ, and nothing warns.
    tokenizer = tiny_tokenizer("bpe")
    assert pieces(tokenizer, TEXT.split()) != tokenizer.tokenize(TEXT)


def roberta_tokenizer(**kwargs):
    backend = tiny_tokenizer("bpe").backend_tokenizer
    merges = [tuple(merge) for merge in __import__("json").loads(backend.to_str())["model"]["merges"]]
    return RobertaTokenizer(vocab=backend.get_vocab(), merges=merges, **kwargs)


@pytest.mark.parametrize("make", [lambda: tiny_tokenizer("bpe"), roberta_tokenizer])
def test_add_prefix_space_survives_saving_and_reloading(make, tmp_path):
    plain = make()
    plain.save_pretrained(tmp_path / "plain")
    options = [
        SkimformerProcessor(make()),
        SkimformerProcessor.from_pretrained(tmp_path / "plain"),
        SkimformerProcessor.from_pretrained(tmp_path / "plain", add_prefix_space=True),
    ]
    expected = ["Ġ" + word[:1] for word in TEXT.split()]
    for index, processor in enumerate(options):
        assert processor.tokenizer.add_prefix_space is True
        processor.save_pretrained(tmp_path / str(index))
        reloaded = SkimformerProcessor.from_pretrained(tmp_path / str(index))
        tokenizer_alone = AutoTokenizer.from_pretrained(tmp_path / str(index))
        assert tokenizer_alone.add_prefix_space is True
        ids = processor(TEXT.split(), boxes=[[0, 0, 1, 1]] * 7)["input_ids"]
        assert reloaded(TEXT.split(), boxes=[[0, 0, 1, 1]] * 7)["input_ids"] == ids
        assert tokenizer_alone(TEXT.split(), is_split_into_words=True)["input_ids"] == ids
        tokens = pieces(reloaded.tokenizer, TEXT.split())
        assert [token[:2] for token in tokens if token.startswith("Ġ") and len(token) > 1] or tokens[0] == "Ġ"
        assert "".join(tokens) == "".join("Ġ" + word for word in TEXT.split())
        assert len(expected) == sum(token.startswith("Ġ") for token in tokens)


def test_a_tokenizer_without_the_setting_gets_a_normalizer_that_writes_the_space(tmp_path):
    # As Llama 3's and Qwen's: a regular expression first, then bytes.
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(SENTENCES, trainer)
    processor = SkimformerProcessor(PreTrainedTokenizerFast(tokenizer_object=backend))
    running = processor.tokenizer.tokenize(TEXT)
    assert pieces(processor.tokenizer, TEXT.split()) == running
    processor.save_pretrained(tmp_path)
    reloaded = SkimformerProcessor.from_pretrained(tmp_path)
    assert pieces(reloaded.tokenizer, TEXT.split()) == running
    assert reloaded.tokenizer.backend_tokenizer.to_str() == processor.tokenizer.backend_tokenizer.to_str()


@pytest.mark.parametrize("kind", KINDS)
def test_preparing_again_changes_nothing(kind):
    tokenizer = tiny_tokenizer(kind)
    prepare_tokenizer(tokenizer)
    state = tokenizer.backend_tokenizer.to_str()
    prepare_tokenizer(tokenizer)
    assert tokenizer.backend_tokenizer.to_str() == state


def test_special_tokens_are_read_off_the_tokenizer():
    single = special_tokens(tiny_tokenizer("wordpiece"), with_question=False)
    assert (single.prefix, single.middle, single.suffix) == (([2], [0]), ([], []), ([3], [0]))
    pair = special_tokens(tiny_tokenizer("wordpiece"), with_question=True)
    assert (pair.prefix, pair.middle, pair.suffix) == (([2], [0]), ([3], [0]), ([3], [1]))
    assert (pair.question_type, pair.words_type, len(pair)) == (0, 1, 3)
    roberta = special_tokens(tiny_tokenizer("bpe"), with_question=True)
    assert (roberta.prefix[0], roberta.middle[0], roberta.suffix[0]) == ([0], [2, 2], [2])
    assert len(special_tokens(tiny_tokenizer("bpe", special_tokens=False), with_question=True)) == 0


def test_special_tokens_of_a_vocabulary_without_common_letters():
    backend = Tokenizer(models.WordLevel({"é": 0, "ö": 1}))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert len(special_tokens(tokenizer, with_question=False)) == 0
    empty = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({})))
    with pytest.raises(InputError, match="finds no token in the entries of its own vocabulary"):
        special_tokens(empty, with_question=False)


def test_pieces_of_documents():
    tokenizer = make_processor("bpe").tokenizer
    tokens = tokenize_words(tokenizer, [["total", "", "quickly"], ["total"]], ["a", "b"])
    assert tokens.bounds.tolist()[0] == 0
    assert tokens.bounds[-1] == len(tokens.input_ids) == len(tokens.starts)
    first = tokens.pieces == 0
    assert tokens.words[first].tolist() == [0, 1, 2, 0]
    assert tokens.documents[first].tolist() == [0, 0, 0, 1]
    assert (tokens.pieces[1:][~first[1:]] == tokens.pieces[:-1][~first[1:]] + 1).all()
    text = tokenizer.convert_ids_to_tokens(tokens.input_ids[tokens.bounds[1] :].tolist())
    assert "".join(text) == "Ġtotal"


def test_a_word_that_yields_no_token_needs_an_unknown_token():
    tokenizer = tiny_tokenizer("wordpiece", unk_token=None)
    processor = SkimformerProcessor(tokenizer)
    boxes = [[[0, 0, 1, 1]], [[0, 0, 1, 1]] * 2]
    with pytest.raises(
        InputError, match=r"turns word 1 \('\\xad'\) of document 1 into no token.*set tokenizer.unk_token"
    ):
        processor([["total"], ["due", "\u00ad"]], boxes=boxes)
    tokenizer.unk_token = "[UNK]"
    assert processor(["due", "\u00ad"], boxes=boxes[1])["input_ids"][2] == 1


def test_a_word_that_is_no_text_is_named():
    with pytest.raises(InputError, match=r"Word 1 \('\\ud800'\) of document 1 holds half a character .* replace it"):
        make_processor()([["total"], ["due", "\ud800"]], boxes=[[[0, 0, 1, 1]], [[0, 0, 1, 1]] * 2])


def test_a_vocabulary_without_its_unknown_token_is_named():
    processor = SkimformerProcessor(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"é": 0}))))
    assert processor(["é", "é"], boxes=[[0, 0, 1, 1]] * 2)["input_ids"] == [0, 0]
    with pytest.raises(InputError, match=r"cannot tokenize word 1 \('x'\) of the document .* unknown token"):
        processor(["é", "x"], boxes=[[0, 0, 1, 1]] * 2)


def test_a_slow_tokenizer_is_refused(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(tiny_tokenizer().get_vocab()), encoding="utf-8")
    with pytest.raises(InputError, match="BertTokenizerLegacy is not a fast tokenizer"):
        SkimformerProcessor(BertTokenizerLegacy(str(vocabulary)))


def test_what_is_no_tokenizer_is_refused_by_transformers():
    with pytest.raises(TypeError, match="tokenizer"):
        SkimformerProcessor("bert-base-uncased")
