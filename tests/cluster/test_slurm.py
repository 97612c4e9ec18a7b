"""Under SLURM, on three nodes, by every way of starting: the losses of one host, also when jobs are requeued."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.batch import PMI, Batch, losses
from tests.cluster.hosts import Hosts
from tests.conformance.mpi_launcher import library

pytestmark = pytest.mark.cluster

_TRAINING = Path(__file__).parent / "training.py"
_STEPS = range(1, 21)
_HELLO = """
import os, socket
from mpiparallel.communication import get_rank, init
init()
print(get_rank(), socket.gethostname(), os.environ["DEVICE_ID"])
"""
_FAILING = """
import numpy as np
from mpiparallel.communication import init, get_rank, world
init()
if get_rank() == 1:
    raise ArithmeticError("no sum")
world.current().all_reduce(np.zeros(1), "sum")
"""


@pytest.fixture
def expected(slurm_cluster: Hosts, interpreter: Path, tmp_path: Path) -> dict[int, float]:
    """The losses of one rank that nothing disturbs."""
    folder = tmp_path / "one"
    folder.mkdir()
    launcher = [interpreter, "-m", "mpiparallel", "run", "-n", 1]
    ended = slurm_cluster.run([*launcher, _TRAINING, "checkpoints"], folder=folder)
    assert ended.code == 0, ended.errors
    found = losses(ended.output)
    assert list(found) == list(_STEPS)
    return found


def _srun(cluster: Hosts, interpreter: Path, folder: Path, pmi: str, program: str, *options: str):
    (folder / "script.py").write_text(program)
    launcher = ["srun", "--kill-on-bad-exit=1", f"--mpi={pmi}", "--nodes=3", "--ntasks-per-node=2"]
    words = [*launcher, interpreter, "-m", "mpiparallel", "run", *options, "script.py"]
    return cluster.run(words, folder=folder)


def test_batch_scripts_train_with_the_losses_of_one_host(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: dict[int, float]
) -> None:
    started = [
        Batch.submitted(slurm_cluster, interpreter, tmp_path, "slurm_multi_node.sh", launcher, tasks=2)
        for launcher in ("run", PMI[library(interpreter)])
    ]
    for batch in started:
        state = batch.ended()
        assert state["ExitCode"] == "0:0", batch.output
        assert losses(batch.output) == pytest.approx(expected, rel=1e-9, abs=0)
        logs = [(batch.logs(0) / f"device{rank}" / f"train.log{rank}").read_text() for rank in range(6)]
        for rank, log in enumerate(logs):
            assert f"rank {rank} on n{rank // 2 + 1}" in log
            assert losses(log) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("pmi", ["none", "pmix", "pmi2"])
def test_srun_that_would_start_as_many_jobs_as_tasks_is_refused(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path, pmi: str
) -> None:
    fitting = PMI[library(interpreter)]
    ended = _srun(slurm_cluster, interpreter, tmp_path, pmi, _HELLO)
    if pmi == fitting:
        assert ended.code == 0, ended.errors
        told = {(tmp_path / f"device{rank}" / f"train.log{rank}").read_text().strip() for rank in range(6)}
        assert told == {f"{rank} n{rank // 2 + 1} {rank % 2}" for rank in range(6)}
        assert ended.output.strip() == "0 n1 0"
    else:
        assert ended.code == 2
        said = [line for line in ended.errors.splitlines() if line.startswith("mpiparallel")]
        assert len(said) == 3
        assert f"srun --mpi={pmi} started 6 ranks, but" in said[0]
        assert f"start them by srun --mpi={fitting}, or by" in said[0]
        assert not list(tmp_path.glob("device*"))


def test_tasks_are_the_ranks_of_their_servers_in_a_rank_table(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.json"
    ranks = {"n3": (0, 3), "n1": (5, 1), "n2": (2, 4)}
    servers = ", ".join(
        f'{{"server_id": "{host}", "device": ['
        + ", ".join(
            f'{{"device_id": "{6 + index}", "device_ip": "10.0.0.{rank}", "rank_id": "{rank}"}}'
            for index, rank in enumerate(owned)
        )
        + '], "host_nic_ip": "reserve"}'
        for host, owned in ranks.items()
    )
    table.write_text(f'{{"version": "1.0", "server_count": "3", "server_list": [{servers}], "status": "completed"}}')
    pmi = PMI[library(interpreter)]
    ended = _srun(slurm_cluster, interpreter, tmp_path, pmi, _HELLO, "--rank-table", str(table))
    assert ended.code == 0, ended.errors
    told = {(tmp_path / f"device{rank}" / f"train.log{rank}").read_text().strip() for rank in range(6)}
    assert told == {f"{rank} {host} {6 + index}" for host, owned in ranks.items() for index, rank in enumerate(owned)}


def test_a_failing_rank_ends_the_step_and_its_error_is_shown(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    ended = _srun(slurm_cluster, interpreter, tmp_path, PMI[library(interpreter)], _FAILING)
    assert ended.code != 0
    assert "mpiparallel: error: rank 1 of 6 failed" in ended.errors
    assert 'raise ArithmeticError("no sum")' in ended.errors
    assert slurm_cluster.left_after(10, "script.py") == {}


def test_time_runs_out_and_the_requeued_job_goes_on(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: dict[int, float]
) -> None:
    options = ["--time=1", "--signal=B:USR1@30"]
    batch = Batch.submitted(
        slurm_cluster, interpreter, tmp_path, "slurm_requeue.sh", "run", *options, tasks=2, pause=1.5
    )
    batch.wait_until(lambda: "preempted by SIGUSR1" in batch.output)
    slurm_cluster.run(["scontrol", "update", f"JobId={batch.number}", "TimeLimit=10"])
    assert batch.ended()["ExitCode"] == "0:0", batch.output
    assert batch.state()["Restarts"] == "1"
    assert losses(batch.output) == pytest.approx(expected, rel=1e-9, abs=0)
    again = losses((batch.logs(1) / "device5" / "train.log5").read_text())
    assert again
    assert min(again) == max(losses((batch.logs(0) / "device5" / "train.log5").read_text())) + 1


def test_preempted_ranks_of_srun_commit_the_same_step_and_come_again(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: dict[int, float]
) -> None:
    pmi = PMI[library(interpreter)]
    batch = Batch.submitted(slurm_cluster, interpreter, tmp_path, "slurm_requeue.sh", pmi, tasks=2, pause=0.4)
    batch.wait_until(lambda: batch.is_at(5))
    slurm_cluster.run(["scancel", "--signal=USR1", "--batch", batch.number])
    assert batch.ended()["ExitCode"] == "0:0", batch.output
    assert batch.state()["Restarts"] == "1"
    first, again = ({}, {})
    for rank in range(6):
        first = losses((batch.logs(0) / f"device{rank}" / f"train.log{rank}").read_text())
        again = losses((batch.logs(1) / f"device{rank}" / f"train.log{rank}").read_text())
        assert min(again) == max(first) + 1
        assert first | again == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("lost", ["n1", "n3"])
def test_a_node_is_lost_and_the_requeued_job_goes_on(
    lost: str, slurm_cluster: Hosts, interpreter: Path, tmp_path: Path, expected: dict[int, float]
) -> None:
    """The batch script runs on n1: where that is lost, only SLURM can requeue the job."""
    launcher = {"n1": "run", "n3": PMI[library(interpreter)]}[lost]
    batch = Batch.submitted(slurm_cluster, interpreter, tmp_path, "slurm_requeue.sh", launcher, pause=0.4)
    batch.wait_until(lambda: batch.is_at(7))
    slurm_cluster.crash(lost)
    batch.wait_until(lambda: batch.state()["JobState"] == "PENDING")
    slurm_cluster.start(lost)
    assert batch.ended()["ExitCode"] == "0:0", batch.output
    assert int(batch.state()["Restarts"]) >= 1
    assert losses(batch.output) == pytest.approx(expected, rel=1e-9, abs=0)
