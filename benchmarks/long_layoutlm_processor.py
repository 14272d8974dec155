"""
LongLayoutLM's processor (neighbours and block tables included) beside transformers' LayoutLMv3 tokenizer alone, on
windows of real documents.

Every document is new to a contestant when it is timed, as in preprocessing; what it may know are the words of those
before. Times are the processor's, of one thread. LayoutLMv3's tokenizer gets boxes that are already whole numbers in
0..1000, ours those of the PDF. All have the same vocabulary, each a tokenizer of its own, and return padded tensors.
"""

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from transformers import LayoutLMv3Tokenizer, PreTrainedTokenizerFast

from benchmarks.clock import interleave, paired_ratio, summarise
from benchmarks.entry import Study
from broadsheet.dataset_scripts import load_dataset
from broadsheet.results.environment import describe_environment, today
from broadsheet.results.record import Record, ResultTable, write_record
from broadsheet.tokenization.boxes import grid_boxes
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_long_layoutlm import LongLayoutLMProcessor
from broadsheet.training.tokenizer import train_tokenizer

NAME = "long-layoutlm-processor"
PEER = "LayoutLMv3's tokenizer alone"
DISTANCE, UNION = "distance", "union"
PATTERNS = ("sliding_window", DISTANCE, UNION)

Document = dict[str, Any]
Call = Callable[[Sequence[Document]], Any]


class Case(NamedTuple):
    """Windows of `length` tokens, `at_once` in a call, `documents` in a round; `warm_up` rounds are not timed."""

    length: int
    at_once: int
    documents: int
    rounds: int
    warm_up: int

    def __str__(self) -> str:
        return f"{self.length} tokens, {'one by one' if self.at_once == 1 else f'{self.at_once} at once'}"


class Promise(NamedTuple):
    """A pattern takes at most so many times what the peer takes, or so many milliseconds for a document."""

    contestant: str
    case: Case
    unit: str
    at_most: float

    def sentence(self, found: float) -> str:
        """For people."""
        word = "holds" if found <= self.at_most else "FAILS"
        number, bound = (
            (f"{found:.2f}x of {PEER}", f"{self.at_most:g}x")
            if self.unit == "x"
            else (f"{found:.0f} ms", f"{self.at_most:g} ms")
        )
        return f"{word}: {self.contestant}, {self.case}: {number}, promised at most {bound}"


BATCH, SINGLE = Case(512, 16, 16, 21, 5), Case(512, 1, 16, 21, 5)
LONG = Case(4096, 1, 1, 15, 3)
CASES = (BATCH, SINGLE, LONG)
PROMISES = (
    *(Promise(pattern, case, "x", 1.0) for case in (BATCH, SINGLE) for pattern in (DISTANCE, UNION)),
    *(Promise(pattern, LONG, "ms", 150) for pattern in (DISTANCE, UNION)),
)
QUICK = (Case(24, 2, 2, 2, 1), Case(64, 1, 1, 2, 1))


def read_documents() -> list[Document]:
    """The real PDFs of four kinds in the folder that BROADSHEET_DATA names."""
    folder = os.environ.get("BROADSHEET_DATA")
    if not folder:
        raise InputError(
            f"{NAME} measures on real documents; set BROADSHEET_DATA to the folder that holds their corpora."
        )
    rows = load_dataset("document_classes", data_dir=folder, split="train", max_per_class=70, validation=0.0)
    keys = ("words", "boxes", "page_ids", "page_sizes")
    return [{key: row[key] for key in keys} for row in rows]


def made_up_documents(number: int = 8, words: int = 200) -> list[Document]:
    """Random words on two pages, for smoke runs."""
    generator = np.random.default_rng(0)
    documents = []
    for _ in range(number):
        corner = np.sort(generator.uniform(0, 100, (words, 2)).round(2), axis=0)
        documents.append(
            {
                "words": ["".join(generator.choice(list("aeiostnr"), 5)) for _ in range(words)],
                "boxes": np.concatenate([corner, corner + [5, 1]], 1).tolist(),
                "page_ids": (np.arange(words) >= words // 2).astype(int).tolist(),
                "page_sizes": [[110.0, 110.0]] * 2,
            }
        )
    return documents


def cut_documents(documents: Sequence[Document], tokenizer: Any, length: int, most: int = 4) -> list[Document]:
    """Consecutive full windows of documents, at most `most` of each, every one a document by itself, shuffled."""
    capacity, cut = length - tokenizer.num_special_tokens_to_add(), []
    for document in documents:
        words = tokenizer(document["words"], is_split_into_words=True, add_special_tokens=False).word_ids()
        start = 0
        for _ in range(most):
            end = start + capacity
            if end >= len(words):
                break
            while end > start and words[end] == words[end - 1]:
                end -= 1
            if end == start:
                break
            cut.append(_part(document, words[start], words[end - 1] + 1))
            start = end
    random.Random(0).shuffle(cut)
    return cut


def _part(document: Document, first: int, last: int) -> Document:
    pages = document["page_ids"][first:last]
    return {
        "words": document["words"][first:last],
        "boxes": document["boxes"][first:last],
        "page_ids": [page - pages[0] for page in pages],
        "page_sizes": document["page_sizes"][pages[0] : pages[-1] + 1],
    }


def whole_boxes(document: Document) -> list[list[int]]:
    """A document's boxes as LayoutLMv3 wants them."""
    boxes, pages, sizes = (np.asarray(document[key]) for key in ("boxes", "page_ids", "page_sizes"))
    grid: list[list[int]] = grid_boxes(boxes, pages, sizes, 1000).tolist()
    return grid


def make_contestants(
    tokenizer: PreTrainedTokenizerFast, documents: Sequence[Document], length: int
) -> dict[str, Call]:
    """Name -> call on a list of documents, each with a tokenizer of its own."""
    backend = tokenizer.backend_tokenizer
    model = json.loads(backend.to_str())["model"]
    merges: list[Any] = [tuple(merge) for merge in model["merges"]]
    peer = LayoutLMv3Tokenizer(vocab=model["vocab"], merges=merges)
    boxes = {id(document): whole_boxes(document) for document in documents}
    options: dict[str, Any] = {
        "truncation": True,
        "max_length": length,
        "padding": "max_length",
        "return_tensors": "pt",
    }

    def of(pattern: str) -> Call:
        own = PreTrainedTokenizerFast(
            tokenizer_object=type(backend).from_str(backend.to_str()),
            **{name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        )
        processor = LongLayoutLMProcessor(own, attention_pattern=pattern)
        return lambda rows: processor(documents=rows, **options)

    calls: dict[str, Call] = {
        PEER: lambda rows: peer([row["words"] for row in rows], boxes=[boxes[id(row)] for row in rows], **options)
    }
    return calls | {pattern: of(pattern) for pattern in PATTERNS}


def measure(
    case: Case, documents: Sequence[Document], tokenizer: PreTrainedTokenizerFast
) -> dict[str, dict[str, Any]]:
    """Per contestant `cpu_s` and `wall_s` for a document, `words_per_s`, and `ratio` to the peer within a round."""
    cut = cut_documents(documents, tokenizer, case.length)
    rounds = case.rounds + case.warm_up
    if len(cut) < rounds * case.documents:
        raise InputError(
            f"There are {len(cut)} windows of {case.length} tokens, but {rounds * case.documents} are needed; "
            "set BROADSHEET_DATA to a folder with more documents."
        )
    cut = cut[: rounds * case.documents]
    calls = make_contestants(tokenizer, cut, case.length)
    with _one_thread():
        times = interleave(
            {name: _steps(call, cut, case) for name, call in calls.items()},
            case.rounds,
            torch.device("cpu"),
            warm_up=case.warm_up,
            collect=False,
        )
    timed = cut[case.warm_up * case.documents :]
    words = [
        sum(len(document["words"]) for document in timed[start : start + case.documents])
        for start in range(0, len(timed), case.documents)
    ]
    results = {}
    for name in calls:
        cpu, wall = times[name]["cpu"], times[name]["wall"]
        results[name] = {
            "cpu_s": summarise([value / case.documents for value in cpu]),
            "wall_s": summarise([value / case.documents for value in wall]),
            "words_per_s": summarise([number / value for number, value in zip(words, cpu, strict=True)]),
            "ratio": paired_ratio(cpu, times[PEER]["cpu"]),
        }
    return results


def _steps(call: Call, documents: Sequence[Document], case: Case) -> Callable[[], None]:
    """A step that takes the next documents each time, a round's worth."""
    starts = iter(range(0, len(documents), case.documents))

    def step() -> None:
        start = next(starts)
        for first in range(start, start + case.documents, case.at_once):
            call(documents[first : first + case.at_once])

    return step


@contextmanager
def _one_thread() -> Iterator[None]:
    """Products of matrices and the tokenizers in this thread alone."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before


def run(quick: bool, folder: Path, progress: Callable[[str], None] = lambda text: None) -> list[str]:
    """Measure and write the record; returns the promises' sentences, none if quick."""
    progress(f"{NAME}: documents")
    documents = made_up_documents() if quick else read_documents()
    texts = (" ".join(document["words"]) for document in documents)
    tokenizer = train_tokenizer(texts, "bpe", 300 if quick else 30_000, min_frequency=1)
    measured: dict[Case, dict[str, dict[str, Any]]] = {}
    for case in QUICK if quick else CASES:
        progress(f"{NAME}: {case}")
        measured[case] = measure(case, documents, tokenizer)
    promises = () if quick else PROMISES
    found = [_found(measured[promise.case][promise.contestant], promise) for promise in promises]
    sentences = [promise.sentence(number) for promise, number in zip(promises, found, strict=True)]
    record = Record(
        name=NAME,
        title="LongLayoutLM's processor beside LayoutLMv3's tokenizer alone",
        kind="benchmark",
        command=f"broadsheet bench {NAME} --threads 1",
        date=today(),
        data="made-up words"
        if quick
        else f"{len(documents)} PDFs: agreements, papers, FARA amendments, FCC ad buys; full windows, each seen once",
        budget={"cases": [case._asdict() for case in measured], "vocabulary": len(tokenizer), "quick": quick},
        seeds={"order of documents": 0},
        environment=describe_environment(),
        measurements={
            "peer": PEER,
            "cases": {str(case): result for case, result in measured.items()},
            "promises": [
                {**promise._asdict(), "case": str(promise.case), "found": number, "holds": number <= promise.at_most}
                for promise, number in zip(promises, found, strict=True)
            ],
        },
        tables=[_table(measured)],
        notes=[f"{sentence}." for sentence in sentences]
        + [
            "Ours does: words to sub-words, checks, page stacking, 128 nearest tokens, block tables, padded "
            "tensors. Each document is new when it is timed. Both sides remember words of the documents before, those "
            "of the rounds that warm up included; nothing else is kept."
        ],
    )
    write_record(folder, record)
    return sentences


def _found(result: dict[str, Any], promise: Promise) -> float:
    found: float = result["ratio"]["median"] if promise.unit == "x" else 1e3 * result["cpu_s"]["median"]
    return found


def _table(measured: dict[Case, dict[str, dict[str, Any]]]) -> ResultTable:
    rows = []
    for case, results in measured.items():
        for name, result in results.items():
            time, ratio = result["cpu_s"], result["ratio"]
            low, high = (f"{1e3 * value:.2f}" for value in time["quartiles"])
            rows.append(
                [
                    name,
                    str(case),
                    f"{1e3 * time['median']:.2f} ms ({low}-{high})",
                    f"{result['words_per_s']['median']:,.0f}",
                    f"{ratio['median']:.2f}x ({ratio['quartiles'][0]:.2f}-{ratio['quartiles'][1]:.2f})",
                ]
            )
    caption = (
        "LongLayoutLM's processor under three attention patterns: processor time for a document, one thread, medians "
        f"of {', '.join(str(case.rounds) for case in measured)} interleaved rounds (quartiles in brackets), ratios to "
        f"{PEER} within a round."
    )
    return ResultTable(caption, ["contestant", "windows", "time a document", "words a second", "ratio"], rows)


STUDY = Study(
    name=NAME,
    title="LongLayoutLM's processor beside LayoutLMv3's tokenizer alone",
    promised=tuple(
        f"{promise.contestant}, {promise.case}: <= {promise.at_most:g}{' ms' if promise.unit == 'ms' else 'x'}"
        for promise in PROMISES
    ),
    tests=("tests/tokenization",),
    run=run,
)
