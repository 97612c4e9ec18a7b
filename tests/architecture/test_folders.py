"""A folder reads like a table of contents, and each file in it is a thought of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_ENTRIES = 25
FEWEST_LINES = 25
FILES = sorted(
    path
    for place in ("mpiparallel", "tests", "benchmarks", "examples", "docs")
    for path in (ROOT / place).rglob("*.py")
    if "shipped" not in path.parts
)
READ = [path for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts]
FOLDERS = sorted({path.parent for path in (*FILES, *READ)})
OPENED_BY_NAME = ("__init__", "__main__", "conftest", "version")
"""Doors of Python, of pytest, and of the build, which writes the version."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_can_be_seen_at_once(folder: Path) -> None:
    entries = [path.name for path in folder.iterdir() if path.name not in ("__init__.py", "__pycache__", "py.typed")]
    assert len(entries) <= MOST_ENTRIES, f"{len(entries)} entries; group those of one subject in a folder"


def test_only_doors_are_short() -> None:
    """A door is opened from outside: by its name, as a program, or as a module of MindSpore's names."""
    short = [path for path in FILES if length(path) < FEWEST_LINES and path.stem not in OPENED_BY_NAME]
    assert [str(path.relative_to(ROOT)) for path in short if not (is_program(path) or has_names_alone(path))] == []


def length(path: Path) -> int:
    """Return the lines of a file, and of the stub that says what is put together in it at import."""
    stub = path.with_suffix(".pyi")
    return sum(len(one.read_text(encoding="utf-8").splitlines()) for one in (path, stub) if one.is_file())


def is_program(path: Path) -> bool:
    return '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")


def has_names_alone(path: Path) -> bool:
    """Tell whether a file hands out what others define, and does nothing else."""
    first, *rest = ast.parse(path.read_text(encoding="utf-8")).body
    named = (ast.Import, ast.ImportFrom, ast.Assign)
    inside = [one for node in rest for one in (node.body if isinstance(node, ast.If) else [node])]
    return isinstance(first, ast.Expr) and all(isinstance(node, named) for node in inside)
