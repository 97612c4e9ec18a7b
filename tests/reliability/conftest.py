"""Real MPI ranks, and what all tests of reliability share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import interpreters, library


@pytest.fixture(params=interpreters(), ids=library)
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI library is tested."""
    found: Path = request.param
    return found


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for checkpoints, in memory where there is a file system for that: a sync there takes no time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "checkpoints"
        return
    folder = Path(tempfile.mkdtemp(prefix="mpiparallel-reliability-", dir=memory))
    yield folder / "checkpoints"
    shutil.rmtree(folder)
