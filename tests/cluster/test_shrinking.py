"""Open MPI jobs on four hosts that go on without ranks that have died, and what they cannot survive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.cluster.job import Job
from tests.conformance.mpi_launcher import library
from tests.reliability.counts import record_failure

pytestmark = pytest.mark.cluster

_ROOT = Path(__file__).parents[1]
_SCRIPT = _ROOT / "mpi" / "train" / "shrink_ranks.py"
_ENVIRONMENT = {"PYTHONPATH": str(_ROOT.parent)}
_SECONDS = 90.0
_END_SECONDS = 15.0


@pytest.fixture
def openmpi(interpreter: Path) -> Path:
    """The interpreter of Open MPI."""
    if library(interpreter) != "openmpi":
        pytest.skip("MPICH ends the job when a rank dies")
    return interpreter


def _losses(path: Path) -> dict[int, float]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {int(step): float(loss) for step, loss, _ in lines}


@pytest.mark.parametrize(
    ("chaos", "left"), [("kill@5:200", 6), ("kill@6:200,kill@7:200", 6)], ids=["a rank", "all ranks of a host"]
)
def test_survivors_on_other_hosts_have_the_losses_of_one_rank(
    chaos: str, left: int, ssh_cluster: Hosts, openmpi: Path, tmp_path: Path
) -> None:
    one, eight = tmp_path / "one", tmp_path / "eight"
    one.mkdir()
    eight.mkdir()
    launcher = [openmpi, "-m", "mpiparallel", "run"]
    alone = ssh_cluster.run([*launcher, "-n", 1, _SCRIPT, "replicas", one], environment=_ENVIRONMENT, folder=one)
    assert alone.code == 0, alone.errors
    options = ("--on-failure", "shrink", "--chaos", chaos)
    script = [_SCRIPT, "cut", eight, eight / "checkpoints"]
    job = Job(ssh_cluster, openmpi, eight, script, *options, environment=_ENVIRONMENT)
    ended = job.running.ended(_SECONDS)
    assert ended.code == 0, ended.errors
    assert f"{left} ranks go on from step" in ended.output + ended.errors
    expected = _losses(one / "losses_0")
    assert _losses(eight / "losses_0") == pytest.approx(expected, rel=1e-9, abs=0)


def test_the_crash_of_a_host_ends_the_job_that_shrinks(ssh_cluster: Hosts, openmpi: Path, tmp_path: Path) -> None:
    script = [Path(__file__).parent / "training.py", "checkpoints", "--pause", 0.3]
    job = Job(ssh_cluster, openmpi, tmp_path, script, "--on-failure", "shrink")
    job.wait_until(lambda: bool(list((tmp_path / "checkpoints").glob("*.manifest.json"))))
    begun = time.monotonic()
    ssh_cluster.crash("n3")
    ended = job.running.ended(_END_SECONDS)
    seconds = time.monotonic() - begun
    said = next((line for line in ended.errors.splitlines() if "n3" in line), "")
    record_failure("a host crashes, --on-failure shrink", job.mpi, 4, seconds, ended.code, said.strip())
    assert ended.code != 0, ended.errors
    assert "host n3 was lost first, with ranks 6, 7 of 8" in ended.errors
    assert ssh_cluster.left_after(3, "launch.rank.worker") == {}
