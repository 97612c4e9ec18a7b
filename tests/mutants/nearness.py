"""Which files of tests are most likely to notice a change: those whose texts speak of what it changes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

_MOST = 12
"""So many files are read by pytest in a few seconds."""
_FEW = 8
"""A name that no more files have speaks for them more than their folder does."""
_KINDS = ("tests/unit", "tests/architecture/test_public_names.py")


def near_tests(path: Path, line: int) -> list[str]:
    """Return files of tests, the likeliest first: the changed file's own examples, its test, then others.

    They are sought below the working folder, which is that of the repository's copy.
    """
    inner = path.relative_to("mpiparallel")
    folder = Path("tests/unit", inner.parent)
    while not folder.is_dir():
        folder = folder.parent
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    package, _, stem = module.rpartition(".")
    imports = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{re.escape(stem)}\b")
    named: Counter[str] = Counter()
    for name in _names_around(path, line):
        files = _files_with(name)
        named.update(dict.fromkeys(files, 3 if len(files) <= _FEW else 1))
    weights = {}
    for name, text in _texts().items():
        in_folder = Path(name).parent == folder != Path("tests/unit")
        weight = 4 * (in_folder and Path(name).stem.removeprefix("test_") == stem) + 2 * in_folder
        weight += 3 * bool(imports.search(text)) + min(3, named[name])
        if weight:
            weights[name] = weight
    chosen = sorted(weights, key=lambda name: (-weights[name], len(_texts()[name])))[:_MOST]
    return [str(path)] * (">>>" in path.read_text()) + chosen


def _names_around(path: Path, line: int) -> list[str]:
    """Return the public names of the functions and classes in which a line is; of a private one those that use it."""
    tree = ast.parse(path.read_text())
    definitions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    around = [node for node in definitions if node.lineno <= line <= (node.end_lineno or 0)]
    private = {node.name for node in around if node.name.startswith("_") and not node.name.startswith("__")}
    users = [node for node in definitions if any(f"{name}(" in ast.unparse(node) for name in private)]
    return sorted({node.name for node in (*around, *users) if not node.name.startswith("_")})


@cache
def _files_with(name: str) -> list[str]:
    word = re.compile(rf"\b{re.escape(name)}\b")
    return [file for file, text in _texts().items() if word.search(text)]


@cache
def _texts() -> dict[str, str]:
    found = {}
    for kind in map(Path, _KINDS):
        for file in sorted(kind.rglob("test_*.py") if kind.is_dir() else [kind]):
            text = file.read_text()
            if "pytest.mark.mpi" not in text:
                found[str(file)] = text
    return found
