"""Small forms in the format of FUNSD's official distribution, made for tests."""

import json
import random
import struct
import zlib
from pathlib import Path


def write_png(path: Path, width: int, height: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress((b"\0" + b"\xff" * width) * height)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def block(index: int, label: str, words: list[str], x: int, y: int, linking: list[list[int]]) -> dict:
    """A block of words on one line, 40 by 12 pixels each."""
    boxes = [[x + 45 * i, y, x + 45 * i + 40, y + 12] for i in range(len(words))]
    return {
        "id": index,
        "label": label,
        "text": " ".join(words),
        "box": [boxes[0][0], y, boxes[-1][2], y + 12],
        "words": [{"text": word, "box": box} for word, box in zip(words, boxes, strict=True)],
        "linking": linking,
    }


def form(seed: int, fields: int = 3) -> list[dict]:
    """A header, then lines of a question at the left with its answer at the right, and a footer."""
    random_words = random.Random(seed)
    blocks = [block(0, "header", ["APPLICATION", "FORM"], 100, 20, [])]
    for line in range(fields):
        question, answer = len(blocks), len(blocks) + 1
        link = [[question, answer]]
        name = random_words.choice([["Name:"], ["Date", "of", "birth:"], ["Amount:"]])
        value = random_words.choice([["Smith"], ["12", "May"], ["400", "dollars", "paid"]])
        blocks.append(block(question, "question", name, 20, 60 + 30 * line, link))
        blocks.append(block(answer, "answer", value, 250, 60 + 30 * line, link))
    blocks.append(block(len(blocks), "other", ["page", "one"], 100, 250, []))
    return blocks


def write_form(folder: Path, name: str, blocks: list[dict], size: tuple[int, int] | None = (500, 300)) -> Path:
    path = folder / "annotations" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"form": blocks}))
    if size is not None:
        write_png(folder / "images" / f"{name}.png", *size)
    return path


def write_funsd(root: Path, train: int = 6, test: int = 3) -> Path:
    """A folder in the layout of dataset.zip."""
    for number in range(train):
        write_form(root / "dataset" / "training_data", f"form{number:03d}", form(number))
    for number in range(test):
        write_form(root / "dataset" / "testing_data", f"test{number:03d}", form(1000 + number))
    return root
