"""Small pages in the format of DocBank's official distribution, made for tests."""

import json
import random
from pathlib import Path

LABELS = ["title", "author", "paragraph", "paragraph", "section", "paragraph"]


def line(word: str, box: tuple[int, int, int, int], label: str) -> str:
    font = "default" if word.startswith("##") else "ABCDEF+CMR10"
    return "\t".join([word, *map(str, box), "0", "0", "0", font, label])


def page(seed: int) -> list[str]:
    """Six lines of four words, one label each, and a rule between the first two."""
    words = random.Random(seed)
    lines = [line("##LTLine##", (100, 55, 900, 55), "paragraph")]
    for row, label in enumerate(LABELS):
        for column in range(4):
            x, y = 100 + 60 * column, 40 + 20 * row
            lines.append(line(words.choice(["layout", "of", "pages"]), (x, y, x + 50, y + 12), label))
    return lines


def write_page(folder: Path, name: str, lines: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.txt"
    # The official files have DOS line ends.
    path.write_bytes("".join(f"{text}\r\n" for text in lines).encode())
    return path


def write_docbank(root: Path, sizes: dict[str, int], coco: bool = False) -> dict[str, list[str]]:
    """A folder in the layout of the distribution, with its lists; the names of the pages by split, as listed."""
    names: dict[str, list[str]] = {}
    number = 0
    for split, size in sizes.items():
        names[split] = []
        for _ in range(size):
            names[split].append(f"{number % 7}.tar_1701.{number:05d}.gz_paper_v1_{number % 3}")
            write_page(root / "DocBank_500K_txt", names[split][-1], page(number))
            number += 1
        random.Random(split).shuffle(names[split])
        if coco:
            official = {"train": "train", "validation": "valid", "test": "test"}[split]
            content = {
                "images": [{"id": i, "file_name": f"{name}_ori.jpg"} for i, name in enumerate(names[split])],
                "annotations": [{"image_id": 0, "bbox": [1, 2, 3, 4]}],
                "categories": [{"id": 1, "name": "list"}],
            }
            path = root / "MSCOCO_Format_Annotation" / f"500K_{official}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        else:
            official = {"train": "train", "validation": "dev", "test": "test"}[split]
            path = root / "indexed_files" / f"500K_{official}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{name}.txt\n" for name in names[split]))
    return names
