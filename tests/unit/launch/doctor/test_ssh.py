"""The words that reach another host, the program that they start there, and the mend of each complaint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.ssh import mend_of, remote_program, ssh_argv

OPTIONS = ["-oBatchMode=yes", "-oConnectTimeout=5", "n"]


@pytest.mark.parametrize(
    ("vendor", "variables", "agent"),
    [
        ("openmpi", {}, ["ssh"]),
        ("openmpi", {"PRTE_MCA_plm_ssh_agent": "one", "OMPI_MCA_plm_ssh_agent": "two"}, ["one"]),
        ("openmpi", {"PRTE_MCA_plm_ssh_agent": "", "OMPI_MCA_plm_ssh_agent": "two"}, ["two"]),
        ("openmpi", {"OMPI_MCA_plm_rsh_agent": "'my ssh' -q : rsh"}, ["my ssh", "-q"]),
        ("openmpi", {"HYDRA_LAUNCHER_EXEC": "other"}, ["ssh"]),
        ("mpich", {"HYDRA_LAUNCHER_EXEC": "other -v"}, ["other", "-v"]),
        ("unknown", {"HYDRA_LAUNCHER_EXEC": "other"}, ["ssh"]),
    ],
)
def test_a_host_is_reached_by_the_agent_of_the_launcher(
    vendor: str, variables: dict[str, str], agent: list[str]
) -> None:
    assert ssh_argv("n", "exit 3", vendor, variables) == [*agent, *OPTIONS, "sh -c 'exit 3'"]


def run(program: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=False, env=variables)


def test_a_folder_or_a_python_that_is_not_there_has_a_code_of_its_own(tmp_path: Path) -> None:
    assert run(remote_program(sys.executable, "module", tmp_path / "none", {})).returncode == 71
    assert run(remote_program(str(tmp_path / "python"), "module", tmp_path, {})).returncode == 72


@pytest.mark.parametrize("path", ["", "/a b:/c"])
def test_the_program_runs_in_the_folder_with_the_path_of_python(tmp_path: Path, path: str) -> None:
    python = tmp_path / "it's python"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH|$PWD|$*"\n')
    python.chmod(0o755)
    ran = run(remote_program(str(python), "module", tmp_path, {"PYTHONPATH": path, "OTHER": "x"}))
    assert ran.stdout == f"{path}|{tmp_path}|-m module\n"


@pytest.mark.parametrize(
    ("complaint", "mend"),
    [
        ("Host key verification failed.", "ssh-keyscan node1 >> ~/.ssh/known_hosts"),
        ("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "ssh-keyscan node1 >> ~/.ssh/known_hosts"),
        ("Permission denied (publickey).", "ssh-copy-id node1, so that ssh needs no password"),
        ("Could not resolve hostname", "write its address into /etc/hosts, or mend its name in the hostfile"),
        ("Name or service not known", "write its address into /etc/hosts, or mend its name in the hostfile"),
        ("Connection timed out", "ping node1; is it up, and in this network?"),
        ("No route to host", "ping node1; is it up, and in this network?"),
        ("Connection refused", "start sshd on node1, or give its port in ~/.ssh/config"),
        ("something else", "ssh -v node1 true"),
    ],
)
def test_each_complaint_of_ssh_has_its_own_mend(complaint: str, mend: str) -> None:
    assert mend_of(f"ssh: {complaint}", "node1") == mend
