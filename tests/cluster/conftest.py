"""Clusters of several hosts on this machine: by ssh, and under SLURM. Skipped, and said why, where they cannot be."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.conformance import patience
from tests.conformance.mpi_launcher import interpreters, library

_FOLDER = Path(__file__).parent / "virtual_hosts"


def _up(script: str, names: Sequence[str], factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    probed = patience.run([_FOLDER / script, "probe"], stdout=subprocess.PIPE, text=True)
    if probed.returncode:
        pytest.skip(f"no cluster here: {probed.stdout.strip()}")
    hosts = Hosts(_FOLDER / script, factory.mktemp(script.removesuffix(".sh")), names)
    try:
        yield hosts
    finally:
        hosts.close()


@pytest.fixture(scope="session")
def _ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    yield from _up("ssh_cluster.sh", ("n0", "n1", "n2", "n3"), tmp_path_factory)


@pytest.fixture(scope="session")
def _slurm_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    yield from _up("slurm_cluster.sh", ("n0", "n1", "n2", "n3"), tmp_path_factory)


@pytest.fixture
def ssh_cluster(_ssh_hosts: Hosts) -> Iterator[Hosts]:
    """Four hosts, n0 to n3, on which ``ssh`` to the others works as it is; restored after each test."""
    yield _ssh_hosts
    _ssh_hosts.restore()


@pytest.fixture
def slurm_cluster(_slurm_hosts: Hosts) -> Iterator[Hosts]:
    """A SLURM head n0 and three nodes, n1 to n3, of four processors each; restored, without jobs, after each test."""
    yield _slurm_hosts
    _slurm_hosts.run(["scancel", "--user=root"])
    _slurm_hosts.restore()


@pytest.fixture(params=interpreters(), ids=library)
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI library is tested."""
    found: Path = request.param
    return found
