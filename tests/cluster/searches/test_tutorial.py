"""The ResNet of the first tutorial in ``auto_parallel``, as listed, on two hosts: the losses of one host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.batch import PMI
from tests.cluster.hosts import Ended, Hosts
from tests.conformance import patience
from tests.conformance.made_up_data import write_images
from tests.conformance.mpi_launcher import interpreters, library
from tests.tutorials.reader import Reader, losses
from tests.tutorials.reading import listings_at_hand
from tests.tutorials.resnet_in_auto_parallel import DOCUMENT, LISTINGS, types_resnet_in_auto_parallel

pytestmark = pytest.mark.cluster

_ROOT = Path(__file__).parents[3]
_RANKS = 4
_IMAGES = 4
"""In each of the six files: as many as one step of all ranks takes, and some that are left over."""
_DIFFERENCES = (1e-6, 1e-5, 1e-2)
"""In proportion, by step. Hosts add up in another order, and what float32 rounds grows a thousandfold in the third."""
_SECONDS = 120.0
_RUN = ["-m", "mpiparallel", "run"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the listings, beside its images and its network."""
    folder = tmp_path_factory.mktemp("tutorial")
    write_images(folder / "images", _IMAGES)
    return types_resnet_in_auto_parallel(Reader(listings_at_hand(), DOCUMENT, LISTINGS, folder, interpreters()[0]))


@pytest.fixture(scope="module")
def variables(program: Path) -> dict[str, str]:
    """The variables of a job: kernels that nothing has to compile, and no machine that somebody has measured."""
    caches = program.parent / "caches"
    given = {"DATA_PATH": program.parent / "images", "PYTHONPATH": _ROOT, "NUMBA_CACHE_DIR": caches}
    return {"MPIPARALLEL_JIT": "0", "OPENBLAS_NUM_THREADS": "1", **{name: str(path) for name, path in given.items()}}


@pytest.fixture(scope="module")
def expected(program: Path, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of as many ranks on one host."""
    ended = patience.run(
        [str(interpreters()[0]), *_RUN, "-n", str(_RANKS), str(program)],
        cwd=tmp_path_factory.mktemp("one"),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    found = losses(ended.stdout)
    assert len(found) == len(_DIFFERENCES)
    return found


def _check(ended: Ended, expected: list[float]) -> None:
    assert ended.code == 0, ended.errors
    assert "auto_parallel: recursive_programming found strategies" in ended.output + ended.errors
    told = losses(ended.output)
    assert len(told) == len(_DIFFERENCES)
    for loss, wanted, difference in zip(told, expected, _DIFFERENCES, strict=True):
        assert loss == pytest.approx(wanted, rel=difference, abs=0)


def test_the_listing_trains_on_two_ssh_hosts_as_on_one(
    ssh_cluster: Hosts, program: Path, variables: dict[str, str], expected: list[float], tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n0 slots=2\nn1 slots=2\n")
    words = [interpreters()[0], *_RUN, "-n", _RANKS, "--hostfile", hosts, program]
    _check(ssh_cluster.run(words, "n0", _SECONDS, variables, tmp_path), expected)


def test_the_listing_trains_on_two_nodes_of_slurm_as_on_one_host(
    slurm_cluster: Hosts, program: Path, variables: dict[str, str], expected: list[float], tmp_path: Path
) -> None:
    interpreter = interpreters()[-1]
    srun = ["srun", "--kill-on-bad-exit=1", f"--mpi={PMI[library(interpreter)]}", "--nodes=2", "--ntasks-per-node=2"]
    words = [*srun, interpreter, *_RUN, program]
    _check(slurm_cluster.run(words, "n0", _SECONDS, variables, tmp_path), expected)
