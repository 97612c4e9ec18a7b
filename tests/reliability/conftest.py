"""Real MPI ranks, and what all tests of reliability share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import interpreters, library


@pytest.fixture(params=interpreters(), ids=library)
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI library is tested."""
    found: Path = request.param
    return found
