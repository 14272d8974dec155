"""The rules that keep model and processor code portable: it must load from one flat folder beside a checkpoint."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PORTABLE = {
    "modeling": {"torch", "transformers", "huggingface_hub", "safetensors"},
    "tokenization": {"numpy", "scipy", "sklearn", "tokenizers", "transformers"},
}
STANDARD_LIBRARY = set(__import__("sys").stdlib_module_names)
FILES = [path for folder in PORTABLE for path in sorted((ROOT / folder).glob("*.py"))]


def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("folder", ["modeling", "tokenization", "dataset_scripts"])
def test_top_level_folder_is_flat_and_linked_into_the_package(folder):
    assert not [entry for entry in (ROOT / folder).iterdir() if entry.is_dir() and entry.name != "__pycache__"]
    link = ROOT / "src" / "broadsheet" / folder
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == (ROOT / folder).resolve()


def test_no_file_name_stands_in_both_portable_folders():
    names = [{path.name for path in (ROOT / folder).glob("*.py")} - {"__init__.py"} for folder in PORTABLE]
    assert not names[0] & names[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_portable_file_imports_only_neighbours_and_named_libraries(path):
    top_level = ast.parse(path.read_text(encoding="utf-8")).body
    lines = {node.lineno for node in top_level}
    for node in imports(path):
        # Processors work without torch; a function may import it where the caller has tensors already.
        inside_function = node.lineno not in lines
        allowed = PORTABLE[path.parent.name] | STANDARD_LIBRARY | ({"torch"} if inside_function else set())
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1, f"line {node.lineno}: only `from .file import name`"
            assert node.module is not None, f"line {node.lineno}: `from . import x` breaks remote code"
            assert "." not in node.module, f"line {node.lineno}: the folder is flat"
            assert (path.parent / f"{node.module}.py").is_file(), f"line {node.lineno}: no such neighbour"
            assert not any(alias.name == "*" for alias in node.names)
        else:
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for module in modules:
                assert module.split(".")[0] in allowed, f"line {node.lineno}: {module} is not allowed here"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_text_that_looks_like_a_relative_import_resolves(path):
    # transformers finds the files that travel with a checkpoint by this pattern, in docstrings too.
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"^\s*(?:from|import)\s+\.(\S+)", text, flags=re.MULTILINE):
        assert (path.parent / f"{name}.py").is_file()


@pytest.mark.parametrize("path", sorted((ROOT / "modeling").glob("*.py")), ids=lambda path: path.name)
def test_modeling_files_keep_annotations_evaluated(path):
    # Postponed annotations turn `config_class` into a string.
    assert "from __future__ import annotations" not in path.read_text(encoding="utf-8")


def source_files() -> list[Path]:
    folders = ["src", "modeling", "tokenization", "dataset_scripts", "tests", "benchmarks"]
    return sorted({path.resolve() for folder in folders for path in (ROOT / folder).rglob("*.py")})


def test_nothing_imports_a_bare_folder():
    for path in source_files():
        for node in imports(path):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            for module in modules:
                assert module.split(".")[0] not in {"modeling", "tokenization", "dataset_scripts"}, path


def test_files_are_under_500_lines():
    long = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in source_files()}
    assert {name: lines for name, lines in long.items() if lines >= 500} == {}


# First folders of absolute paths that are no machine's: of the system, of a web server or share, made up in tests.
NO_MACHINES = {"a", "api", "d", "etc", "host", "not", "proc"}


def test_source_names_no_machine():
    for path in source_files():
        text = re.sub(r"https?://\S+", "", path.read_text(encoding="utf-8"))
        assert set(re.findall(r"(?<![\w.<)}\]*?+\\-])/([a-z][\w.-]*)/", text)) <= NO_MACHINES, path
