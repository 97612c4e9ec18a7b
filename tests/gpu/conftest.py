"""All tests here need a CUDA device: without one they are skipped, and say why."""

from __future__ import annotations

import pytest

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.errors import ConfigurationError


@pytest.fixture(scope="session", autouse=True)
def backend() -> CupyBackend:
    """CuPy on the device."""
    try:
        return CupyBackend()
    except ConfigurationError as error:
        pytest.skip(str(error))
