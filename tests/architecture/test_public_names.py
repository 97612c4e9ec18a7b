"""The front of each folder: ``__all__`` says all that it offers, and each name is explained. Ruff keeps it sorted."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import mpiparallel

PACKAGE = Path(mpiparallel.__file__).parent
# Importing this one starts MPI, which the process of the tests must not.
STARTS_MPI = PACKAGE / "communication" / "mpi"
FRONTS = [
    ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if "\n__all__ = " in path.read_text(encoding="utf-8") and path.parent != STARTS_MPI
]


def offered(front: str) -> set[str]:
    """Return the names that the ``__init__`` takes from the package or defines, except private ones."""
    tree = ast.parse(Path(str(importlib.import_module(front).__file__)).read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "mpiparallel":
            names.update(alias.asname or alias.name for alias in node.names)
    names.update(node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return {name for name in names if not name.startswith("_") or name == "__version__"}


@pytest.mark.parametrize("front", FRONTS)
def test_all_names_what_the_front_offers(front: str) -> None:
    names = importlib.import_module(front).__all__
    assert set(names) == offered(front)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("front", FRONTS)
def test_each_public_name_is_explained(front: str) -> None:
    module = importlib.import_module(front)
    values = {name: getattr(module, name) for name in module.__all__}
    assert [name for name, value in values.items() if not is_explained(value)] == []


def is_explained(value: object) -> bool:
    if not (inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value)):
        return True
    text = value.__doc__ or ""
    # A dataclass without a docstring is given its signature as one.
    return bool(text) and not text.startswith(f"{value.__name__}(")
