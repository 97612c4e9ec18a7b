"""``mpirun mpiparallel run``: ranks that a bare mpirun has started."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

HELLO = """
from mpiparallel.communication import get_group_size, get_rank, init
init()
print(get_rank(), get_group_size())
"""
FAILING = """
import numpy as np
from mpiparallel.communication import get_rank, init, world
init()
if get_rank() == 1:
    raise ArithmeticError("no sum")
world.current().all_reduce(np.zeros(1), "sum")
"""


def test_ranks_find_each_other_and_keep_their_logs(mpi_run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HELLO)
    printed = mpi_run(3, "mpiparallel", "run", "--log-dir", "logs", "script.py")
    assert "mpiparallel: 3 ranks by mpi" in printed
    assert "0 3\n" in printed
    logs = [(tmp_path / "logs" / f"device{rank}" / f"train.log{rank}").read_text() for rank in range(3)]
    assert logs == ["0 3\n", "1 3\n", "2 3\n"]


def test_a_rank_that_fails_ends_all_and_shows_its_error(mpi_run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FAILING)
    printed = mpi_run(3, "mpiparallel", "run", "script.py", fails=True)
    assert "mpiparallel: error: rank 1 of 3 failed: ArithmeticError: no sum" in printed
    assert 'raise ArithmeticError("no sum")' in printed


def test_another_number_of_ranks_is_refused(mpi_run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HELLO)
    printed = mpi_run(2, "mpiparallel", "run", "-n", "3", "script.py", fails=True)
    assert "has started 2 ranks; leave -n out, or give it the same" in printed
