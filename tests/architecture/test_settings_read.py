"""No setting is kept that nobody reads."""

from __future__ import annotations

import ast
from dataclasses import fields

from mpiparallel.parallel.configuration import ParallelConfiguration
from tests.conformance.package_trees import trees


def attributes_read() -> set[str]:
    """Return every attribute that the package reads of anything."""
    nodes = (node for tree in trees().values() for node in ast.walk(tree))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_each_setting_of_a_compilation_has_a_reader() -> None:
    assert {one.name for one in fields(ParallelConfiguration)} - attributes_read() == set()
