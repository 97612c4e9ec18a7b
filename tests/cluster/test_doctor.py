"""The doctor on four hosts: what it says of them before a job is what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hosts import Ended, Hosts

pytestmark = pytest.mark.cluster

_LIMIT = 120.0


def _examined(cluster: Hosts, python: Path, folder: Path, *options: object) -> tuple[Ended, list[Mapping[str, Any]]]:
    command = [python, "-m", "mpiparallel", "doctor", "--json", "--hostfile", cluster.hostfile(2), *options]
    ended = cluster.run(command, timeout=_LIMIT, folder=folder)
    assert ended.output, ended.errors
    return ended, json.loads(ended.output)["findings"]


def _states(findings: list[Mapping[str, Any]], subject: str) -> dict[str, str]:
    return {found["host"]: found["state"] for found in findings if found["subject"] == subject and found["host"]}


def test_hosts_that_are_well_are_found_well(ssh_cluster: Hosts, interpreter: Path, tmp_path: Path) -> None:
    ended, findings = _examined(ssh_cluster, interpreter, tmp_path)
    assert ended.code == 0, findings
    assert _states(findings, "host") == dict.fromkeys(ssh_cluster.names, "ok")
    assert not _states(findings, "way back")
    assert not _states(findings, "clock")
    assert set(_states(findings, "logs").values()) == {"ok"}
    assert list(tmp_path.iterdir()) == []


def test_hosts_that_are_gone_or_cut_off_are_errors(ssh_cluster: Hosts, interpreter: Path, tmp_path: Path) -> None:
    ssh_cluster.cut("n2")
    ssh_cluster.crash("n3")
    ended, findings = _examined(ssh_cluster, interpreter, tmp_path)
    assert ended.code == 1
    assert _states(findings, "host") == {"n0": "ok", "n1": "ok"}
    assert _states(findings, "ssh") == {"n2": "error", "n3": "error"}


def test_folder_of_one_host_only_is_found(ssh_cluster: Hosts, interpreter: Path, tmp_path: Path) -> None:
    # Each host has a /dev/shm of its own.
    _, findings = _examined(ssh_cluster, interpreter, tmp_path, "--log-dir", "/dev/shm")
    # Of a host's own folder another finding says that it is well.
    warned = {found["host"] for found in findings if (found["subject"], found["state"]) == ("logs", "warning")}
    assert warned - {""} == {"n1", "n2", "n3"}


def test_allocation_and_the_srun_that_fits_are_found(slurm_cluster: Hosts, interpreter: Path, tmp_path: Path) -> None:
    doctor = [interpreter, "-m", "mpiparallel", "doctor", "--json"]
    ended = slurm_cluster.run(["salloc", "-N", 2, "--ntasks-per-node", 2, *doctor], timeout=_LIMIT, folder=tmp_path)
    findings = {found["subject"]: found for found in json.loads(ended.output)["findings"]}
    assert ended.code == 0, findings
    assert "2 nodes, 2(x2) tasks a node" in findings["SLURM"]["what"]
    assert findings["srun"]["state"] == "ok"
    assert findings["start"]["state"] in ("ok", "warning")
    inside = slurm_cluster.run(["srun", "-N", 1, "-n", 1, *doctor], timeout=_LIMIT, folder=tmp_path)
    started = [found["state"] for found in json.loads(inside.output)["findings"] if found["subject"] == "start"]
    assert (inside.code, started) == (0, ["note"])
