"""Real MPI ranks, and what all tests of reliability share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.memory_folder import memory_folder
from tests.conformance.mpi_launcher import interpreters, library


@pytest.fixture(params=interpreters(), ids=library)
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI library is tested."""
    found: Path = request.param
    return found


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for checkpoints, in memory where there is room."""
    with memory_folder() as memory:
        yield (memory or tmp_path) / "checkpoints"
