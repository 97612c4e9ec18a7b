"""A ResNet by ``auto_parallel`` on several hosts: strategies are found, and the losses are those of one rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.communication.threads import run_world
from tests.cluster.batch import PMI, losses
from tests.cluster.hosts import Ended, Hosts
from tests.cluster.searches.resnet_training import STEPS, train
from tests.conformance.mpi_launcher import interpreters, library
from tests.unit.train.staged_networks import Losses

pytestmark = pytest.mark.cluster

_SCRIPT = Path(__file__).parent / "resnet_training.py"
# Compiling kernels anew, for hosts whose caches are empty, would take longest.
_ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[3]), "MPIPARALLEL_JIT": "0"}
_SECONDS = 120.0
_RUN = ["-m", "mpiparallel", "run"]


@pytest.fixture(scope="module")
def expected() -> dict[int, float]:
    """The losses of one rank."""
    told = Losses()
    run_world(1, lambda communicator: train([told]))
    assert len(told.found) == STEPS
    return dict(enumerate(told.found, 1))


def _check(ended: Ended, expected: dict[int, float]) -> None:
    assert ended.code == 0, ended.errors
    assert "auto_parallel: recursive_programming found strategies" in ended.output + ended.errors
    assert losses(ended.output) == pytest.approx(expected, rel=1e-9, abs=0)


def test_on_two_ssh_hosts(ssh_cluster: Hosts, tmp_path: Path, expected: dict[int, float]) -> None:
    launcher = [interpreters()[0], *_RUN, "-n", 4, "--hostfile", ssh_cluster.hostfile(2)]
    _check(ssh_cluster.run([*launcher, _SCRIPT], "n0", _SECONDS, _ENVIRONMENT, tmp_path), expected)


def test_under_slurm_on_two_nodes(slurm_cluster: Hosts, tmp_path: Path, expected: dict[int, float]) -> None:
    interpreter = interpreters()[-1]
    srun = ["srun", "--kill-on-bad-exit=1", f"--mpi={PMI[library(interpreter)]}", "--nodes=2", "--ntasks-per-node=2"]
    words = [*srun, interpreter, *_RUN, _SCRIPT]
    _check(slurm_cluster.run(words, "n0", _SECONDS, _ENVIRONMENT, tmp_path), expected)
