"""The front of each folder: ``__all__`` says all that it offers, and each name is explained. Ruff keeps it sorted."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mpiparallel

PACKAGE = Path(mpiparallel.__file__).parent
# Importing this one starts MPI, which the process of the tests must not.
STARTS_MPI = PACKAGE / "communication" / "mpi"
MACHINERY = (
    "mpiparallel.backend.collector_pause",
    "mpiparallel.compatibility.absent_names",
    "mpiparallel.compatibility.mindspore_paths",
)
"""What serves the fronts and is not offered by them."""
FRONTS = [
    ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if "\n__all__ = " in path.read_text(encoding="utf-8") and path.parent != STARTS_MPI
]

FOLDERS = [path.parent.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("__init__.py"))]
HIDDEN = """
import importlib, pkgutil, sys
fronts = [importlib.import_module(name) for name in sys.argv[1:]]
before = {(front, name): getattr(front, name) for front in fronts for name in dir(front) if name[0] != "_"}
for module in pkgutil.walk_packages(fronts[0].__path__, "mpiparallel."):
    if not module.name.startswith(("mpiparallel.communication.mpi", "mpiparallel.__main__")):
        importlib.import_module(module.name)
sys.exit(", ".join(f"{front.__name__}.{name}" for (front, name), value in before.items()
                   if getattr(front, name) is not value) or None)
"""


def offered(front: str) -> set[str]:
    """Return the names that the ``__init__`` takes from the package or defines, except private ones."""
    tree = ast.parse(Path(str(importlib.import_module(front).__file__)).read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "mpiparallel":
            if node.module in MACHINERY:
                continue
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


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_no_file_has_the_name_of_what_its_folder_offers(folder: Path) -> None:
    # Python hangs each file into its folder when it is first imported: the file would take the place of a function.
    inside = [path for path in (PACKAGE / folder).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    files = {path.stem for path in inside}
    name = ".".join(("mpiparallel", *folder.parts))
    tree = ast.parse((PACKAGE / folder / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != name]
    listed = {alias.asname or alias.name for node in imports for alias in node.names}
    # What is put together when the folder is imported is in no list.
    module = None if PACKAGE / folder == STARTS_MPI else importlib.import_module(name)
    found = {name for name, item in vars(module).items() if not inspect.ismodule(item)} if module else set()
    assert (listed | found) & files == set()


def test_importing_every_file_hides_no_public_name() -> None:
    folders = [".".join(("mpiparallel", *folder.parts)) for folder in FOLDERS if PACKAGE / folder != STARTS_MPI]
    subprocess.run([sys.executable, "-c", HIDDEN, *folders], check=True)


def is_explained(value: object) -> bool:
    if not (inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value)):
        return True
    text = value.__doc__ or ""
    # A dataclass without a docstring is given its signature as one.
    return bool(text) and not text.startswith(f"{value.__name__}(")
