"""A training on eight ranks of four hosts: the losses of one host, the environment everywhere, all logs at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts

pytestmark = pytest.mark.cluster

_SCRIPT = Path(__file__).parent / "training.py"
_STEPS = 20


def _losses(log: str) -> list[float]:
    return [float.fromhex(line.split()[-1]) for line in log.splitlines() if line.startswith("step ")]


def test_eight_ranks_on_four_hosts_train_with_the_losses_of_one(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    one, eight = tmp_path / "one", tmp_path / "eight"
    one.mkdir()
    eight.mkdir()
    launcher = [interpreter, "-m", "mpiparallel", "run"]
    alone = ssh_cluster.run([*launcher, "-n", 1, _SCRIPT, "checkpoints"], folder=one)
    assert alone.code == 0, alone.errors
    hosts = ["--hostfile", ssh_cluster.hostfile(2)]
    together = ssh_cluster.run(
        [*launcher, "-n", 8, *hosts, _SCRIPT, "checkpoints"], folder=eight, environment={"DATA_PATH": "/data"}
    )
    assert together.code == 0, together.errors
    expected = _losses(alone.output)
    assert len(expected) == _STEPS
    logs = [(eight / f"device{rank}" / f"train.log{rank}").read_text() for rank in range(8)]
    for rank, log in enumerate(logs):
        assert f"rank {rank} on n{rank // 2}: /data" in log
        assert _losses(log) == pytest.approx(expected, rel=1e-9, abs=0)
    assert _losses(together.output) == _losses(logs[0])
    shards = sorted(path.parent.name for path in (eight / "checkpoints").glob("rank_*/*_5.h5"))
    assert shards == [f"rank_{rank}" for rank in range(8)]
