"""``mpiparallel calibrate`` on real ranks: what it measures is kept, said, and what a search prices strategies by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiparallel.search.machine.kept import kept_machine
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.machine import COLLECTIVES, Machine
from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, interpreters

pytestmark = pytest.mark.mpi


def test_a_machine_is_measured_kept_and_said(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without compiled loops, which would take longest here."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    ended = patience.run(
        [str(interpreters()[0]), "-m", "mpiparallel", "calibrate", "--ranks=2", "--json"],
        cwd=tmp_path,
        env=environment(pytestconfig.rootpath),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    found = kept_machine()
    assert Path(told["kept"]).is_relative_to(tmp_path)
    assert (
        (found.hosts, found.ranks_per_host) == (told["machine"]["hosts"], told["machine"]["ranks_per_host"]) == (1, 2)
    )
    assert [(one.kind, one.ranks) for one in found.collectives] == [(kind, 2) for kind in COLLECTIVES]
    assert found.inside != Machine().inside
    names = {one.name for one in found.kernels}
    assert {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "MaxPool", "ApplyMomentum"} <= names
    assert all(one != KernelTimes(one.name) for one in found.kernels)
