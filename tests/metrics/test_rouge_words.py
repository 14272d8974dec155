import random
import string

import pytest

from broadsheet.metrics.rouge_words import UnicodeTokenizer, choose_tokenizer


@pytest.mark.parametrize("use_stemmer", [False, True])
def test_ascii_as_rouge_score(use_stemmer):
    theirs = pytest.importorskip("rouge_score.tokenizers").DefaultTokenizer(use_stemmer)
    ours = UnicodeTokenizer(use_stemmer)
    source = random.Random(0)
    texts = ["".join(source.choices(string.printable + "aeinrst   ", k=300)) for _ in range(200)]
    texts += ["The cats' running_shoes weren't U.S.-made: 1,234.50 m^2!", "“Quotes” – and dashes… 5 m² of ½ inch"]
    for text in texts:
        assert ours.tokenize(text) == theirs.tokenize(text)


def test_words_of_other_scripts():
    pytest.importorskip("nltk")
    words = UnicodeTokenizer(True).tokenize
    assert words("Naïve cafés, RUNNING") == ["naïve", "cafés", "run"]
    assert words("cafe\u0301") == words("café") == ["café"]
    assert words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert words("COVID新型、ウイルス2020年") == ["covid", "新", "型", "ウ", "イ", "ル", "ス", "2020", "年"]
    assert words("한국어 문서") == ["한국어", "문서"]


def test_references_choose_for_all():
    assert choose_tokenizer("auto", ["plain words " * 20 + "café", "and “more”"]) == "rouge-score"
    assert choose_tokenizer("auto", ["plain words", "und schöne Wörter"]) == "unicode"
    assert choose_tokenizer("auto", ["", "123"]) == "rouge-score"
    assert choose_tokenizer("rouge-score", ["日本"]) == "rouge-score"
