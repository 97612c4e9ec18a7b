"""``mpiparallel calibrate`` on two hosts: the links inside and between them are kept, and searches price by them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.launch.cli import main
from mpiparallel.search.machine.cluster_file import machine_json
from mpiparallel.search.machine.kept import kept_machine
from mpiparallel.search.machine.machine import COLLECTIVES, Link, Machine
from tests.cluster.hosts import Hosts
from tests.conformance.mpi_launcher import interpreters

pytestmark = pytest.mark.cluster

_NETWORK = Path(__file__).parent / "resnet_training.py"
_SECONDS = 120.0
_FREE = Link(1e-12, 1e18)
_FOUND = re.compile("auto_parallel: recursive_programming found strategies .*")


def _price(capsys: pytest.CaptureFixture[str], *words: object) -> float:
    """Return the seconds of a step on four ranks, by strategies that a search finds for them."""
    assert main(["simulate", str(_NETWORK), "--ranks=4", "--json", *map(str, words)]) == 0
    return float(json.loads(capsys.readouterr().out)["seconds"])


def test_the_links_of_two_hosts_are_measured_kept_and_searched_by(
    ssh_cluster: Hosts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without compiled loops, which would take longest here."""
    variables = {"NUMBA_CACHE_DIR": str(tmp_path), "MPIPARALLEL_JIT": "0", "PYTHONPATH": str(Path(__file__).parents[3])}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    hosts = tmp_path / "hosts"
    hosts.write_text("n0 slots=2\nn1 slots=2\n")
    command = [interpreters()[0], "-m", "mpiparallel"]
    words = [*command, "calibrate", "--json", "--hostfile", hosts]
    ended = ssh_cluster.run(words, "n0", _SECONDS, variables, tmp_path)
    assert ended.code == 0, ended.errors
    kept = Path(json.loads(ended.output.splitlines()[-1])["kept"])
    assert kept.is_relative_to(tmp_path)
    found = kept_machine()
    assert (found.hosts, found.ranks_per_host, found.cores) == (2, 2, len(os.sched_getaffinity(0)))
    assert {(one.kind, one.ranks) for one in found.collectives} == {(kind, 2) for kind in COLLECTIVES}
    assert Machine().between != found.between != found.inside != Machine().inside

    free = tmp_path / "free.json"
    free.write_text(machine_json(replace(found, between=_FREE)))
    price = _price(capsys)
    simulated = _FOUND.search(caplog.text)
    assert price == _price(capsys, "--cluster", kept) > _price(capsys, "--cluster", free)
    words = [*command, "run", "-n", 4, "--hostfile", hosts, _NETWORK]
    trained = ssh_cluster.run(words, "n0", _SECONDS, variables, tmp_path)
    assert trained.code == 0, trained.errors
    assert simulated is not None
    assert simulated[0] in trained.output + trained.errors
