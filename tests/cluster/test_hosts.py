"""Trainings on eight ranks of four hosts: the losses of one host, the environment everywhere, all logs at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.cluster.job import RANKS, Job

pytestmark = pytest.mark.cluster

_SCRIPT = Path(__file__).parent / "training.py"
_STEPS = 20
_RESTARTED_SECONDS = 90.0


def _losses(log: str) -> list[float]:
    return [float.fromhex(line.split()[-1]) for line in log.splitlines() if line.startswith("step ")]


@pytest.fixture
def expected(ssh_cluster: Hosts, interpreter: Path, tmp_path: Path) -> list[float]:
    """The losses of one rank."""
    folder = tmp_path / "one"
    folder.mkdir()
    launcher = [interpreter, "-m", "mpiparallel", "run", "-n", 1]
    ended = ssh_cluster.run([*launcher, _SCRIPT, "checkpoints"], folder=folder)
    assert ended.code == 0, ended.errors
    losses = _losses(ended.output)
    assert len(losses) == _STEPS
    return losses


def test_eight_ranks_on_four_hosts_train_with_the_losses_of_one(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: list[float]
) -> None:
    hosts = ["-n", RANKS, "--hostfile", ssh_cluster.hostfile(2)]
    ended = ssh_cluster.run(
        [interpreter, "-m", "mpiparallel", "run", *hosts, _SCRIPT, "checkpoints"],
        folder=tmp_path,
        environment={"DATA_PATH": "/data"},
    )
    assert ended.code == 0, ended.errors
    logs = [(tmp_path / f"device{rank}" / f"train.log{rank}").read_text() for rank in range(RANKS)]
    for rank, log in enumerate(logs):
        assert f"rank {rank} on n{rank // 2}: /data" in log
        assert _losses(log) == pytest.approx(expected, rel=1e-9, abs=0)
    assert _losses(ended.output) == _losses(logs[0])
    shards = sorted(path.parent.name for path in (tmp_path / "checkpoints").glob("rank_*/*_5.h5"))
    assert shards == [f"rank_{rank}" for rank in range(RANKS)]


def test_a_rank_killed_under_restart_costs_no_more_than_the_steps_since_the_last_commit(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: list[float]
) -> None:
    script = [_SCRIPT, "checkpoints", "--pause", 0.2]
    job = Job(ssh_cluster, interpreter, tmp_path, script, "--on-failure", "restart:1")
    job.wait_until(lambda: bool(list((tmp_path / "checkpoints").glob("*.manifest.json"))))
    job.kill_rank(5)
    ended = job.running.ended(_RESTARTED_SECONDS)
    assert ended.code == 0, ended.errors
    assert "rank 5 of 8 died first" in ended.errors
    losses = _losses((tmp_path / "device5" / "train.log5").read_text())
    assert 0 < len(losses) < _STEPS
    assert losses == pytest.approx(expected[-len(losses) :], rel=1e-9, abs=0)
