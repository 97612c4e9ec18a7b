"""Every module can be read after those that it imports, also those that it imports for their types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tests.conformance.package_trees import nodes_of, trees


def imported_by(module: str) -> Iterator[str]:
    """Yield the package's modules that a module imports anywhere: at its top, in a function, or for types."""
    for node in nodes_of(module, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in trees())
    for node in nodes_of(module, ast.ImportFrom):
        if node.module in trees():
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in trees() else node.module


def cycle_in(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert cycle_in({module: set(imported_by(module)) for module in trees()}) == []
