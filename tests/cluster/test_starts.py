"""Jobs that cannot start on one of their four hosts: they end, and say why."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.cluster.job import RANKS
from tests.conformance.mpi_launcher import library
from tests.reliability.counts import record_failure

pytestmark = pytest.mark.cluster

_END_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Event:
    """What is wrong with n3, how it is mended, and what must be said: any of the ``words``."""

    happen: Callable[[Hosts, Path], object]
    mend: Callable[[Hosts, Path], object]
    words: tuple[str, ...]


def _mounted(*what: object) -> Event:
    """Return the event that something else is mounted where the Python, or its virtual environment, is."""
    return Event(
        lambda cluster, path: cluster.run(["mount", *what, path], "n3"),
        lambda cluster, path: cluster.run(["umount", "--lazy", path], "n3"),
        # Open MPI's mpirun says the host, MPICH's what the shell there said.
        (
            "Remote host:   n3",
            "hydra_pmi_proxy: No such file",
            "had not begun",
            "before it had begun",
            "no rank has begun",
        ),
    )


EVENTS = {
    "a host is down": Event(lambda cluster, _: cluster.crash("n3"), lambda cluster, _: None, ("host n3",)),
    "a host is unplugged": Event(lambda cluster, _: cluster.cut("n3"), lambda cluster, _: None, ("host n3",)),
    "a host lacks the virtual environment": _mounted("-t", "tmpfs", "none"),
    "the Python of a host does not start": _mounted("--bind", "/bin/false"),
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_job_that_cannot_start_on_a_host_ends_and_says_why(
    event: str, ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\n")
    path = interpreter.resolve() if "Python" in event else interpreter.parent.parent
    EVENTS[event].happen(ssh_cluster, path)
    launcher = [interpreter, "-m", "mpiparallel", "run"]
    begun = time.monotonic()
    try:
        ended = ssh_cluster.run(
            [*launcher, "-n", RANKS, "--hostfile", ssh_cluster.hostfile(2), "--start-timeout", 20, "script.py"],
            folder=tmp_path,
            timeout=_END_SECONDS,
        )
    finally:
        EVENTS[event].mend(ssh_cluster, path)
    seconds = time.monotonic() - begun
    said = next((line for line in ended.errors.splitlines() if any(words in line for words in EVENTS[event].words)), "")
    record_failure(f"start: {event}", library(interpreter), len(ssh_cluster.names), seconds, ended.code, said.strip())
    assert ended.code not in (0, -9), ended.errors
    assert said, ended.errors
    assert ssh_cluster.left_after(3, "launch.rank.worker") == {}
