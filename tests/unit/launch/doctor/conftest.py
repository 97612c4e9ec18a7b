from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from tests.unit.launch.doctor.faked_machine import fake


@pytest.fixture
def faked(tmp_path: Path) -> Callable[..., ExaminedMachine]:
    """Make a faked machine in a folder of the test; see `fake`."""
    return partial(fake, tmp_path)
