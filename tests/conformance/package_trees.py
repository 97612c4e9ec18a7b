"""The package's files as syntax trees, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import mpiparallel

PACKAGE = Path(mpiparallel.__file__).parent


def module_of(path: Path) -> str:
    """Return the name by which a file of the package is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


Node = TypeVar("Node", bound=ast.AST)

FILES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
"""The files by the names of their modules."""


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module by its name."""
    return {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in FILES.items()}


@cache
def _by_kind(module: str) -> dict[type[ast.AST], list[ast.AST]]:
    found: dict[type[ast.AST], list[ast.AST]] = {}
    for node in ast.walk(trees()[module]):
        found.setdefault(type(node), []).append(node)
    return found


def nodes_of(module: str, kind: type[Node]) -> list[Node]:
    """Return a module's nodes of one kind, wherever they are; each tree is walked once for all tests."""
    return cast("list[Node]", _by_kind(module).get(kind, []))
