"""What is said of a path on the command line that the system refuses, wherever in a command that shows."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.cluster.json_document import shown


def unusable(error: OSError, arguments: argparse.Namespace) -> str:
    """Return who, what and where of an ``error`` that names a file: which of the ``arguments`` led there."""
    path = from_root(os.fsdecode(error.filename))
    reason = f"{shown(str(path))}: {error.strerror}"
    for name, given in _paths(arguments):
        if path.is_relative_to(from_root(given)):
            return f"{name} {shown(given)}: {reason}; give a path that can be used"
    return f"{reason}; mpiparallel --debug shows where"


def _paths(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield all that may be a path, the deepest first: one folder is often in another."""
    given = []
    for name, value in vars(arguments).items():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str | Path) and str(word):
                given.append((name.replace("_", "-"), str(word)))
    yield from sorted(given, key=lambda item: -len(from_root(item[1]).parts))
