"""What came of a test, as a line of JSON in the file that MPIPARALLEL_TUTORIALS_RESULTS names."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

OUTCOME = pytest.StashKey[str]()
BRANDS = {"openmpi": "Open MPI", "mpich": "MPICH"}


class Record:
    """The line of one test, written when it has ended."""

    def __init__(self, node: pytest.Item, mpi: str) -> None:
        self._node = node
        self._begin = time.monotonic()
        self._said: dict[str, object] = {"mpi": mpi}

    def says(self, **facts: object) -> None:
        """Add facts to the line."""
        self._said |= facts

    def write(self) -> None:
        """Add the line to the file, if one is named."""
        results = os.environ.get("MPIPARALLEL_TUTORIALS_RESULTS")
        if not results:
            return
        self._said |= {
            "outcome": self._node.stash.get(OUTCOME, "failed"),
            "seconds": round(time.monotonic() - self._begin, 1),
            "date": time.strftime("%Y-%m-%d"),
        }
        with Path(results).open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._said) + "\n")
