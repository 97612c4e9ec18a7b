"""Under SLURM, on three nodes, by every way of starting: the losses of one host, also when jobs are requeued."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.batch import PMI, Batch, losses, preempt_each_at
from tests.cluster.hosts import Ended, Hosts
from tests.conformance.mpi_launcher import interpreters, library

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
# Python runs it as it starts: the memory of the process is then full of text, also where MPI takes some later.
_FULL_MEMORY = """
import ctypes, itertools
memory = ctypes.CDLL(None)
memory.malloc.restype = ctypes.c_void_p
memory.free.argtypes = [ctypes.c_void_p]
sizes = itertools.islice(itertools.cycle((104, 200, 296, 392, 504, 744, 1000, 2040)), 50000)
blocks = [(memory.malloc(size), size) for size in sizes]
for block, size in blocks:
    ctypes.memset(block, ord("A"), size)
for block, _ in blocks[::3]:
    memory.free(block)
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of one rank on one host that nothing disturbs."""
    launcher = [interpreters()[0], "-m", "mpiparallel", "run", "-n", "1"]
    folder = tmp_path_factory.mktemp("one")
    ended = subprocess.run([*launcher, _TRAINING, "checkpoints"], cwd=folder, stdout=subprocess.PIPE, text=True)
    found = losses(ended.stdout)
    assert list(found) == list(_STEPS)
    return found


def _srun(
    cluster: Hosts, interpreter: Path, folder: Path, pmi: str, program: str, *options: str, environment=None
) -> Ended:
    (folder / "script.py").write_text(program)
    launcher = ["srun", "--kill-on-bad-exit=1", f"--mpi={pmi}", "--nodes=3", "--ntasks-per-node=2"]
    words = [*launcher, interpreter, "-m", "mpiparallel", "run", *options, "script.py"]
    return cluster.run(words, folder=folder, environment=environment)


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
        # Each host says it once. But srun ends what is late by SIGTERM once a task has failed: a slow host may say
        # nothing then, and the code is the highest of all.
        assert ended.code in (2, 128 + signal.SIGTERM)
        said = [line for line in ended.errors.splitlines() if line.startswith("mpiparallel")]
        assert 1 <= len(said) <= 3
        assert f"srun --mpi={pmi} started 6 ranks, but" in said[0]
        assert f"start them by srun --mpi={fitting}, or by" in said[0]
        assert not list(tmp_path.glob("device*"))


def test_ranks_start_whatever_the_memory_holds_in_which_their_library_keeps_its_address(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FULL_MEMORY)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    pmi = PMI[library(interpreter)]
    ended = _srun(slurm_cluster, interpreter, tmp_path, pmi, _HELLO, environment={"PYTHONPATH": path})
    assert ended.code == 0, ended.errors
    assert ended.output.strip() == "0 n1 0"


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


def test_ranks_are_started_from_a_shell_that_is_a_task_itself(
    slurm_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(_HELLO)
    shell = ["srun", "--nodes=1", "--ntasks=1", "--cpus-per-task=2", f"--mpi={PMI[library(interpreter)]}"]
    ended = slurm_cluster.run([*shell, interpreter, "-m", "mpiparallel", "run", "-n", 3, "script.py"], folder=tmp_path)
    assert ended.code == 0, ended.errors
    assert (tmp_path / "device2" / "train.log2").read_text() == "2 n1 2\n"


def test_preempted_jobs_commit_the_same_step_on_all_ranks_and_come_again(
    slurm_cluster: Hosts, tmp_path: Path, expected: dict[int, float]
) -> None:
    """The first is told by SLURM as its time runs out; the others, which srun started, by hand."""
    first = interpreters()[0]
    limits = ["--time=1", "--signal=B:USR1@30"]
    limited = Batch.submitted(slurm_cluster, first, tmp_path, "slurm_requeue.sh", "run", *limits, pause=1.5)
    told = [
        Batch.submitted(slurm_cluster, interpreter, tmp_path, "slurm_requeue.sh", PMI[library(interpreter)], pause=0.4)
        for interpreter in interpreters()
    ]
    preempt_each_at(5, told)
    limited.wait_until(lambda: "preempted by SIGUSR1" in limited.output)
    for batch in (limited, *told):
        state = batch.ended()
        assert state["ExitCode"] == "0:0", batch.output
        # SLURM may tell the first more than once: its minute is short.
        starts = int(state["Restarts"]) + 1
        assert starts == 2 or batch is limited
        for rank in range(3):
            paths = [batch.logs(start) / f"device{rank}/train.log{rank}" for start in range(starts)]
            if batch is limited:  # it may have been told before its ranks began
                paths = [path for path in paths if path.exists()]
            logs = [path.read_text() for path in paths]
            assert [step for log in logs for step in losses(log)] == list(_STEPS)
            assert losses("".join(logs)) == pytest.approx(expected, rel=1e-9, abs=0)
        assert starts > 1


def test_jobs_that_lose_a_node_come_again(slurm_cluster: Hosts, tmp_path: Path, expected: dict[int, float]) -> None:
    """Where the lost node, n2, ran the batch script itself, only SLURM can requeue the job."""
    started = []
    for number, interpreter in enumerate(interpreters()):
        launchers = ["run", PMI[library(interpreter)]]
        for launcher, nodes in zip(launchers, (("n1,n2,n3", "n2,n3"), ("n2,n3", "n1,n2,n3"))[number % 2], strict=True):
            options = [f"--nodelist={nodes}", f"--nodes={nodes.count('n')}"]
            started.append(
                Batch.submitted(slurm_cluster, interpreter, tmp_path, "slurm_requeue.sh", launcher, *options, pause=0.6)
            )
    for batch in started:
        batch.wait_until(lambda batch=batch: batch.is_at(3))
    slurm_cluster.crash("n2")
    for batch in started:
        batch.wait_until(lambda batch=batch: batch.state()["JobState"] == "PENDING")
    slurm_cluster.start("n2")
    for batch in started:
        state = batch.ended()
        assert state["ExitCode"] == "0:0", batch.output
        assert int(state["Restarts"]) >= 1
        assert losses(batch.output) == pytest.approx(expected, rel=1e-9, abs=0)
