"""A rank that plain mpirun has started looks after itself: where it hangs it says so, and the job ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = [pytest.mark.mpi, pytest.mark.sample]

PROGRAM = """
import time

import numpy as np

from mpiparallel.communication import init, world

init()
everyone = world.current()
if everyone.rank == 1:
    time.sleep(3600)
everyone.all_reduce(np.ones(1))
"""


def test_who_waits_too_long_for_another_tells_for_whom_and_ends_the_job(
    mpi_run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waiting.py").write_text(PROGRAM)
    monkeypatch.setenv("MPIPARALLEL_WATCHDOG", str(patience.stretched(1)))
    said = mpi_run(2, tmp_path / "waiting.py", fails=True)
    line = next(line for line in said.splitlines() if "mpiparallel: hangs: " in line)
    assert "rank 0" in line
    assert "rank 1" in line
