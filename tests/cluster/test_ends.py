"""No process that a rank has started outlives a job on four hosts, on any of them; who does not leave is named."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.cluster.job import RANKS, Job
from tests.cluster.leaving import VICTIM

pytestmark = pytest.mark.cluster

_SCRIPT = Path(__file__).parent / "leaving.py"
_END_SECONDS = 120.0
_LATE_SECONDS = 60.0
ENDS = {
    "well": (0, ""),
    "raise": (1, f"rank {VICTIM} of {RANKS} failed first: ArithmeticError"),
    "launcher": (128 + signal.SIGKILL, ""),
    "thread": (86, f"the job hung: rank {VICTIM} has ended its script, but its process has not left within 5 s"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_job_on_four_hosts_leaves_none_of_the_processes_that_its_ranks_have_started(
    end: str, ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    job = Job(ssh_cluster, interpreter, tmp_path, [_SCRIPT, tmp_path, end], "--watchdog", "5")
    if end == "launcher":
        job.wait_until(lambda: all((tmp_path / f"turning_{rank}").exists() for rank in range(RANKS)))
        assert all(len(ssh_cluster.processes(host, "child-")) >= 4 for host in ssh_cluster.names)
        job.kill_launcher(signal.SIGKILL)
    ended = job.running.ended(_END_SECONDS)
    left = ssh_cluster.left_after(_LATE_SECONDS, "child-") or ssh_cluster.left_after(_LATE_SECONDS, "launch.rank")
    code, words = ENDS[end]
    assert (ended.code, left) == (code, {}), ended.errors
    assert words in ended.errors
