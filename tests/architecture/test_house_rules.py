"""What every file of the package keeps to; each test lists the places that do not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields

from mpiparallel.parallel.configuration import ParallelConfiguration
from tests.conformance.package_trees import FILES, Node, nodes_of, trees

LONGEST = 400
WRITTEN = [name for name in FILES if not name.endswith("_pb2")]
"""All modules but those that the compiler of protobuf has written."""


def nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    """Yield the file with the line, and the node, for each node of this kind."""
    for name in WRITTEN:
        for node in nodes_of(name, kind):
            yield f"{FILES[name]}:{getattr(node, 'lineno', 1)}", node


def test_nothing_is_checked_by_assert_which_python_may_leave_out() -> None:
    assert [place for place, _ in nodes(ast.Assert)] == []


def test_no_exception_is_caught_unnamed() -> None:
    assert [place for place, node in nodes(ast.ExceptHandler) if node.type is None] == []


def test_each_import_says_what_and_from_where_in_full() -> None:
    assert [place for place, node in nodes(ast.ImportFrom) if node.level or node.names[0].name == "*"] == []


def test_each_file_opens_with_what_it_is() -> None:
    assert [name for name in WRITTEN if not ast.get_docstring(trees()[name])] == []


def test_no_file_is_too_long_to_be_one_thought() -> None:
    lengths = {name: len(FILES[name].read_text(encoding="utf-8").splitlines()) for name in WRITTEN}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_each_setting_of_a_compilation_is_read_somewhere() -> None:
    read = {node.attr for _, node in nodes(ast.Attribute) if isinstance(node.ctx, ast.Load)}
    assert {one.name for one in fields(ParallelConfiguration)} - read == set()
