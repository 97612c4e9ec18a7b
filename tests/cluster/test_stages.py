"""Stages of a pipeline on hosts: each on one; the losses of one rank, also when a host is lost or a job requeued."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.communication.threads import run_world
from tests.cluster.batch import PMI, Batch, losses, preempt_each_at
from tests.cluster.hosts import Hosts
from tests.cluster.job import Job
from tests.cluster.staged_training import STEPS, train
from tests.conformance.mpi_launcher import interpreters, library
from tests.unit.train.staged_networks import Losses

pytestmark = pytest.mark.cluster

_ROOT = Path(__file__).parents[2]
_SCRIPT = Path(__file__).parent / "staged_training.py"
_ENVIRONMENT = {"PYTHONPATH": str(_ROOT)}
_END_SECONDS = 15.0
_ALL_SECONDS = 60.0


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of one rank that nothing disturbs."""
    told = Losses()
    folder = tmp_path_factory.mktemp("one")
    run_world(1, lambda communicator: train(folder / "checkpoints", 1, [told]) and None)
    assert len(told.found) == STEPS
    return dict(enumerate(told.found, 1))


def _places(logs: Path, ranks: int) -> list[tuple[str, str]]:
    """Return the host and the stage of each rank, by what it has printed."""
    lines = [(logs / f"device{rank}" / f"train.log{rank}").read_text().splitlines() for rank in range(ranks)]
    words = [next(line for line in of_rank if line.startswith("rank ")).split() for of_rank in lines]
    return [(one[3], one[6]) for one in words]


def test_a_host_is_lost_within_a_step_and_others_go_on_in_more_stages(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: dict[int, float]
) -> None:
    job = Job(ssh_cluster, interpreter, tmp_path, [_SCRIPT, "checkpoints"], environment=_ENVIRONMENT, ranks=4)
    job.wait_until(lambda: bool(list((tmp_path / "checkpoints").glob("*.manifest.json"))))
    (tmp_path / "held").touch()
    job.wait_until((tmp_path / "standing").exists)
    ssh_cluster.crash("n1")
    ended = job.running.ended(_END_SECONDS)
    (tmp_path / "held").unlink()
    assert ended.code != 0
    assert "host n1 was lost first, with ranks 2, 3 of 4" in ended.errors, ended.errors
    assert ssh_cluster.left_after(3, "launch.rank.worker") == {}
    assert _places(tmp_path, 4) == [("n0", "0"), ("n0", "0"), ("n1", "1"), ("n1", "1")]
    hosts = tmp_path / "hosts"
    hosts.write_text("n0 slots=2\nn2 slots=2\n")
    launcher = [interpreter, "-m", "mpiparallel", "run", "-n", 4, "--hostfile", hosts, "--log-dir", "again"]
    script = [_SCRIPT, "checkpoints", "--stages", 4]
    again = ssh_cluster.run([*launcher, *script], "n0", _ALL_SECONDS, _ENVIRONMENT, tmp_path)
    assert again.code == 0, again.errors
    assert _places(tmp_path / "again", 4) == [("n0", "0"), ("n0", "1"), ("n2", "2"), ("n2", "3")]
    before, after = losses(ended.output), losses(again.output)
    assert min(after) > 2
    assert {**before, **after} == pytest.approx(expected, rel=1e-9, abs=0)


def test_a_preempted_job_comes_again_in_other_stages(
    slurm_cluster: Hosts, tmp_path: Path, expected: dict[int, float]
) -> None:
    training = [_SCRIPT, "--stages", "2,4"]
    first, *others = interpreters()
    started = [
        Batch.submitted(
            slurm_cluster,
            interpreter,
            tmp_path,
            "slurm_requeue.sh",
            launcher,
            "--nodes=2",
            tasks=2,
            pause=0.25,
            training=training,
            environment=_ENVIRONMENT,
        )
        for interpreter, launcher in ((first, "run"), *((one, PMI[library(one)]) for one in others))
    ]
    preempt_each_at(3, started)
    for batch in started:
        state = batch.ended()
        assert (state["ExitCode"], state["Restarts"]) == ("0:0", "1"), batch.output
        before, after = (_places(batch.logs(start), 4) for start in (0, 1))
        assert [stage for _, stage in before] == ["0", "0", "1", "1"]
        assert len(set(before)) == len({host for host, _ in before}) == 2
        assert [stage for _, stage in after] == ["0", "1", "2", "3"]
        assert losses(batch.output) == pytest.approx(expected, rel=1e-9, abs=0)
