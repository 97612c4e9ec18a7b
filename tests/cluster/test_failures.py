"""What becomes of a job on four hosts when a rank, a daemon, a host, the network or the launcher fails."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.hosts import Ended, Hosts
from tests.cluster.job import Job
from tests.reliability.counts import record_failure

pytestmark = pytest.mark.cluster

# What the launcher promises of jobs on several hosts, and how long ranks may outlive it.
_END_SECONDS = 15.0
_ORPHAN_SECONDS = 3.0
_INTERRUPTION_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to a job, the exit codes that are right then, and all that must be said."""

    happen: Callable[[Job], None]
    codes: tuple[int, ...]
    words: tuple[str, ...]
    orphan_seconds: float = _ORPHAN_SECONDS


def _signalled(number: int, *words: str) -> Event:
    return Event(lambda job: job.kill_launcher(number), (128 + number,), words)


_LOST = ("host n3 was lost first, with ranks 6, 7 of 8",)
EVENTS = {
    "a rank is killed": Event(lambda job: job.kill_rank(5), (128 + 9,), ("rank 5 of 8 died first", "on host n2")),
    "a rank beside the launcher is killed": Event(
        lambda job: job.kill_rank(1), (128 + 9,), ("rank 1 of 8 died first", "on host n0")
    ),
    "a rank raises": Event(
        lambda job: (job.folder / "raise_2").touch(),
        (1,),
        ("rank 2 of 8 failed first: ArithmeticError: asked of rank 2", "on host n1"),
    ),
    "mpirun's daemon on a host is killed": Event(lambda job: job.kill_daemon("n3"), (1, 128 + 9), _LOST),
    "a host crashes": Event(lambda job: job.cluster.crash("n3"), (1,), _LOST),
    "the network of a host is cut": Event(lambda job: job.cluster.cut("n3"), (1,), _LOST, _END_SECONDS),
    "the launcher is killed": _signalled(signal.SIGKILL),
    "the launcher gets SIGTERM": _signalled(signal.SIGTERM, "ended by SIGTERM"),
    "the launcher gets SIGINT": _signalled(signal.SIGINT, "ended by SIGINT"),
    "the launcher gets SIGHUP": _signalled(signal.SIGHUP, "ended by SIGHUP"),
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_job_on_four_hosts_ends_soon_says_who_went_first_and_leaves_no_rank(
    event: str, ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    job = Job.turning(ssh_cluster, interpreter, tmp_path)
    begun = time.monotonic()
    EVENTS[event].happen(job)
    ended = job.running.ended(_END_SECONDS)
    seconds = time.monotonic() - begun
    left = ssh_cluster.left_after(EVENTS[event].orphan_seconds, "launch.rank.worker")
    gone_after = time.monotonic() - begun - seconds
    record_failure(event, job.mpi, len(ssh_cluster.names), seconds, ended.code, _said(ended), gone_after)
    assert left == {}, ended.errors
    assert ended.code in EVENTS[event].codes, ended.errors
    assert [words for words in EVENTS[event].words if words not in ended.errors] == [], ended.errors


def test_an_interruption_of_the_network_of_a_few_seconds_ends_nothing(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    job = Job.turning(ssh_cluster, interpreter, tmp_path)
    ssh_cluster.cut("n3")
    time.sleep(_INTERRUPTION_SECONDS)
    ssh_cluster.heal("n3")
    (tmp_path / "enough").touch()
    ended = job.running.ended(_END_SECONDS)
    assert ended.code == 0, ended.errors


def _said(ended: Ended) -> str:
    lines = [line for line in ended.errors.splitlines() if line.startswith("mpiparallel: error: ")]
    return lines[0].removeprefix("mpiparallel: error: ") if lines else ""
