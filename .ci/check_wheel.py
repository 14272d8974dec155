"""Check a built wheel: it holds every module of the source folders, and nothing else."""

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def expected_files() -> set[str]:
    """The package's files: those under src/broadsheet, with the symlinked top-level folders followed."""
    package = ROOT / "src" / "broadsheet"
    folders = [package, *(entry for entry in package.iterdir() if entry.is_symlink())]
    files: set[str] = set()
    for folder in folders:
        for path in folder.rglob("*"):
            inside = path.relative_to(package)
            if path.is_file() and (path.suffix in {".py", ".yaml", ".md", ".jinja"} or path.name == "py.typed"):
                files.add(f"broadsheet/{inside.as_posix()}")
    return files


def main() -> int:
    """Compare; print what differs."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = expected_files()
    for name in sorted(expected - packed):
        print(f"missing from the wheel: {name}")
    for name in sorted(packed - expected):
        print(f"unexpected in the wheel: {name}")
    print(f"{len(packed)} files in {Path(sys.argv[1]).name}")
    return int(packed != expected)


if __name__ == "__main__":
    sys.exit(main())
