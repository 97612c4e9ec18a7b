"""A benchmark starts in the checkout as its page types it, without PYTHONPATH: its path is put right by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS_OF_ROOT = ("benchmarks", "docs", "examples", "tests")
"""Folders that Python finds only where the root of the checkout is on its path; a program's own folder always is."""
PROGRAMS = sorted((ROOT / "benchmarks").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COMMAND = re.compile(r"\bpython (benchmarks/[\w/]+\.py)")


def imported(statement: ast.stmt) -> Iterator[str]:
    """Yield the first names of the modules that a statement imports, wherever in it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)


def early_imports(text: str, parents: int) -> list[str]:
    """Return what a program imports from the root before it has put the root, so many folders up, on its path."""
    found = []
    for statement in ast.parse(text).body:
        if ast.unparse(statement) == f"sys.path.insert(0, str(Path(__file__).parents[{parents}]))":
            break
        found += [name for name in imported(statement) if name in FOLDERS_OF_ROOT]
    return found


def test_an_import_from_the_root_is_early_unless_the_root_is_on_the_path() -> None:
    line = "from tests.conformance import hand_plans\n"
    path = "sys.path.insert(0, str(Path(__file__).parents[1]))\n"
    assert early_imports(line, 1) == early_imports(line + path, 1) == early_imports(path + line, 2) == ["tests"]
    assert early_imports(path + line, 1) == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.relative_to(ROOT)))
def test_a_benchmark_imports_from_the_root_only_what_is_on_its_path(program: Path) -> None:
    parents = len(program.relative_to(ROOT).parts) - 1
    assert early_imports(program.read_text(encoding="utf-8"), parents) == []


def test_each_benchmark_that_a_page_types_is_there() -> None:
    typed = {command for page in PAGES for command in COMMAND.findall(page.read_text(encoding="utf-8"))}
    assert typed
    assert [command for command in sorted(typed) if not (ROOT / command).is_file()] == []
