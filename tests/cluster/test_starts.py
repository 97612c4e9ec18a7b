"""Jobs that cannot start on one of their four hosts: they end, and name it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.cluster.job import RANKS
from tests.conformance.mpi_launcher import library
from tests.reliability.counts import record_failure

pytestmark = pytest.mark.cluster

_END_SECONDS = 30.0


def _lose_installation(cluster: Hosts, interpreter: Path) -> None:
    folder = interpreter.parent.parent
    assert cluster.run(["mount", "-t", "tmpfs", "none", folder], "n3").code == 0


EVENTS: dict[str, Callable[[Hosts, Path], None]] = {
    "a host is down": lambda cluster, _: cluster.crash("n3"),
    "a host is unplugged": lambda cluster, _: cluster.cut("n3"),
    "a host lacks the virtual environment": _lose_installation,
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_job_that_cannot_start_on_a_host_ends_and_names_it(
    event: str, ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\n")
    EVENTS[event](ssh_cluster, interpreter)
    begun = time.monotonic()
    try:
        ended = ssh_cluster.run(
            [interpreter, "-m", "mpiparallel", "run", "-n", RANKS, "--hostfile", ssh_cluster.hostfile(2), "script.py"],
            folder=tmp_path,
            timeout=_END_SECONDS,
        )
    finally:
        ssh_cluster.run(["umount", "--lazy", interpreter.parent.parent], "n3")
    seconds = time.monotonic() - begun
    said = next((line for line in ended.errors.splitlines() if "n3" in line), "")
    record_failure(f"start: {event}", library(interpreter), len(ssh_cluster.names), seconds, ended.code, said)
    assert ended.code not in (0, -9), ended.errors
    assert said, ended.errors
    assert ssh_cluster.left_after(3, "launch.worker") == {}
