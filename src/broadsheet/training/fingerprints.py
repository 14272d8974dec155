"""The names under which `datasets` keeps prepared data."""

import hashlib
import inspect
import json
import os
from typing import Any

from datasets import Dataset

import broadsheet.tokenization


def encoding_fingerprint(documents: Dataset, arguments: dict[str, Any], source_file: str) -> str:
    """
    A name for what a processor makes of documents: the same again and again, another after any change of the
    documents, the processor, its tokenizer, the arguments or the code.

    The default of `datasets` pickles the tokenizer, whose state changes as it is used, so that nothing is reused.

    Args:
        documents: what is encoded.
        arguments: those of the function that `documents.map` calls; `processor`, and others that JSON can hold.
        source_file: the file of that function (`__file__`). The tokenization package counts as its code too.

    Returns:
        32 hexadecimal digits.
    """
    processor = arguments["processor"]
    code = os.path.dirname(inspect.getfile(broadsheet.tokenization))
    digest = hashlib.sha256()
    files = [os.path.join(code, name) for name in sorted(os.listdir(code)) if name.endswith(".py")]
    for file in [*files, source_file]:
        with open(file, "rb") as source:
            digest.update(source.read())
    others = {name: value for name, value in arguments.items() if name != "processor"}
    parts = [
        documents._fingerprint,
        type(processor).__name__,
        processor.to_json_string(),
        processor.tokenizer.backend_tokenizer.to_str(),
        json.dumps(others, sort_keys=True),
    ]
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:32]
