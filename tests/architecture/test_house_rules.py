"""What every file of the package keeps to; each test lists the places that do not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mpiparallel

PACKAGE = Path(mpiparallel.__file__).parent
LONGEST = 400
SOURCES = {
    str(path.relative_to(PACKAGE.parent)): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.stem.endswith("_pb2")
}
TREES = {name: ast.parse(source, name) for name, source in SOURCES.items()}


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield ``file:line`` and the node, for each node of these kinds."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield f"{name}:{getattr(node, 'lineno', 1)}", node


def test_nothing_is_checked_by_assert_which_python_may_leave_out() -> None:
    assert [place for place, _ in nodes(ast.Assert)] == []


def test_no_exception_is_caught_unnamed() -> None:
    assert [place for place, node in nodes(ast.ExceptHandler) if getattr(node, "type", None) is None] == []


def test_each_import_says_what_and_from_where_in_full() -> None:
    imports = [(place, node) for place, node in nodes(ast.ImportFrom) if isinstance(node, ast.ImportFrom)]
    assert [place for place, node in imports if node.level or node.names[0].name == "*"] == []


def test_each_file_opens_with_what_it_is() -> None:
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_no_file_is_too_long_to_be_one_thought() -> None:
    lengths = {name: len(source.splitlines()) for name, source in SOURCES.items()}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}
