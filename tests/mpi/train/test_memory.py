"""Resident memory with real processes: of a state that has moved, and of a resume, as the kernel counts them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = pytest.mark.mpi

# Large beside what the allocator keeps, so that a tenth of it is nothing that comes by chance.
MEGABYTES = 250


def test_after_a_move_ranks_hold_the_state_that_was_planned_and_spares_none_of_it(mpi_run, pytestconfig, tmp_path):
    file = tmp_path / "figures.json"
    mpi_run(4, pytestconfig.rootpath / "benchmarks" / "compiling" / "ranks.py", "memory", MEGABYTES, file)
    found = json.loads(file.read_text(encoding="utf-8"))
    state = found["MB of state"]
    assert state == pytest.approx(MEGABYTES, rel=0.1), found
    assert found["MB after"] == pytest.approx(state, rel=0.1), found
    assert found["MB on spares"] < 0.1 * state, found


def test_a_training_that_fits_fits_its_own_resume(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    program, file = pytestconfig.rootpath / "benchmarks" / "compile_time.py", tmp_path / "figures.json"
    command = [sys.executable, str(program), "--only", "^resume$", "--json", str(file)]
    done = patience.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(file.read_text(encoding="utf-8")).values()
    assert found["ratio"] <= 1.3, found
