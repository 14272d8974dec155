"""Prepared data is found again where nothing changed, and only there."""

from datasets import Dataset

from broadsheet.tokenization.processing_pyramidion import PyramidionProcessor
from broadsheet.training.fingerprints import encoding_fingerprint
from broadsheet.training.tokenizer import train_tokenizer


def test_what_counts(tmp_path):
    code = tmp_path / "code.py"
    code.write_text("first = 1\n")
    documents = Dataset.from_dict({"words": [["one", "two"]]})
    processor = PyramidionProcessor(train_tokenizer(["one two three"] * 3, vocab_size=270, kind="bpe"))
    arguments = {"processor": processor, "max_length": 8}
    first = encoding_fingerprint(documents, arguments, str(code))
    # A tokenizer remembers what it was last asked for.
    processor(text="one two", truncation=True, max_length=4)
    assert encoding_fingerprint(documents, dict(reversed(arguments.items())), str(code)) == first
    others = {
        encoding_fingerprint(documents, {**arguments, "max_length": 9}, str(code)),
        encoding_fingerprint(Dataset.from_dict({"words": [["two"]]}), arguments, str(code)),
    }
    code.write_text("first = 2\n")
    others.add(encoding_fingerprint(documents, arguments, str(code)))
    assert len(others | {first}) == 4
