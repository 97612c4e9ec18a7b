"""Jobs on hosts that have each a log folder of their own: what the launcher says is true all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.cluster.exit_codes import REFUSED
from tests.cluster.hosts import Hosts
from tests.cluster.job import Job

pytestmark = pytest.mark.cluster

_END_SECONDS = 15.0


@pytest.fixture
def own_logs(ssh_cluster: Hosts, tmp_path: Path) -> Iterator[Path]:
    """A folder that is another one on every host."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for host in ssh_cluster.names[1:]:
        assert ssh_cluster.run(["mount", "-t", "tmpfs", "none", logs], host).code == 0
    yield logs
    for host in ssh_cluster.names[1:]:
        ssh_cluster.run(["umount", "--lazy", logs], host)


@pytest.fixture
def job(ssh_cluster: Hosts, interpreter: Path, own_logs: Path, tmp_path: Path) -> Job:
    return Job.turning(ssh_cluster, interpreter, tmp_path, "--log-dir", str(own_logs))


def test_a_job_that_completes_ends_well(job: Job, own_logs: Path) -> None:
    (job.folder / "enough").touch()
    ended = job.running.ended(_END_SECONDS)
    assert ended.code == 0, ended.errors
    assert ended.output == "rank 0 on n0\n"
    assert sorted(path.name for path in own_logs.glob("device*")) == ["device0", "device1"]
    assert job.cluster.run(["cat", own_logs / "device5" / "train.log5"], "n2").output == "rank 5 on n2\n"


def test_an_exception_on_another_host_is_told_in_full(job: Job) -> None:
    (job.folder / "raise_5").touch()
    ended = job.running.ended(_END_SECONDS)
    assert ended.code == 1
    assert "rank 5 of 8 failed first: ArithmeticError: asked of rank 5" in ended.errors
    assert 'turning.py", line ' in ended.errors
    assert "on host n2" in ended.errors


def test_a_rank_that_is_killed_on_another_host_is_named(job: Job) -> None:
    job.kill_rank(5)
    ended = job.running.ended(_END_SECONDS)
    assert ended.code in (128 + 9, 1), ended.errors
    assert "rank 5 of 8 died first" in ended.errors
    assert "on host n2" in ended.errors


def test_a_host_that_cannot_write_its_logs_is_named_with_the_reason(
    ssh_cluster: Hosts, interpreter: Path, own_logs: Path, tmp_path: Path
) -> None:
    assert ssh_cluster.run(["mount", "-o", "remount,ro", own_logs], "n3").code == 0
    (tmp_path / "script.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\n")
    hosts = ["-n", 8, "--hostfile", ssh_cluster.hostfile(2), "--log-dir", own_logs]
    ended = ssh_cluster.run([interpreter, "-m", "mpiparallel", "run", *hosts, "script.py"], folder=tmp_path)
    assert ended.code == REFUSED, ended.errors
    assert f"--log-dir {own_logs} on n3: Read-only file system" in ended.errors
