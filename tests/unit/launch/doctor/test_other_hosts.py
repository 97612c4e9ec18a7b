"""Other hosts: a program in the place of ssh runs what it is told on this machine."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.launch.doctor.conversation import Conversation
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.other_hosts import examine_hosts
from mpiparallel.launch.doctor.ssh import mend_of, remote_program, ssh_argv
from tests.unit.launch.doctor.faked_machine import OPENMPI, FakedMachine, only

# Runs the last word on this machine, as a login of another host that greets its users.
HERE = 'echo "Welcome to node1"; echo "{}"; shift 3; exec sh -c "$1"'
SHIFTED_CLOCK = "import time; here = time.time; time.time = lambda: here() + 40"


def examined(machine: ExaminedMachine, *names: str) -> list[Finding]:
    return examine_hosts([Host(name, 2) for name in names or ("node1",)], machine)


def by_ssh(faked: FakedMachine, shell: str, **given: object) -> ExaminedMachine:
    return faked(programs={"ssh": shell}, probes={"launcher": OPENMPI, "mpi_library": "true"}, **given)


def test_host_that_is_well_answers_and_is_examined(faked: FakedMachine, tmp_path: Path) -> None:
    findings = examined(by_ssh(faked, HERE))
    assert {finding.host for finding in findings} == {"node1"}
    assert only(findings, "host").state == "ok"
    assert ", clock +0.00 s, " in only(findings, "host").what
    assert {"libraries", "slots", "ulimits", "/dev/shm"} <= {finding.subject for finding in findings}
    assert not {"clock", "way back", "mpiparallel"} & {finding.subject for finding in findings}
    assert not list(tmp_path.glob(".mpiparallel_doctor_*"))


def test_this_machine_is_not_reached_by_ssh(faked: FakedMachine) -> None:
    names = ("localhost", "127.0.0.1", socket.gethostname())
    findings = examined(by_ssh(faked, "exit 255"), *names)
    assert [(finding.host, finding.what) for finding in findings] == [(name, "is this machine") for name in names]


@pytest.mark.parametrize(
    ("shell", "subject", "what", "mend"),
    [
        ("echo 'Permission denied (publickey).' >&2; exit 255", "ssh", "Permission denied", "ssh-copy-id node1, "),
        ("echo 'Host key verification failed.' >&2; exit 255", "ssh", "Host key", "ssh-keyscan node1 >> "),
        ("exit 71", "folder", "has no folder", "start the job in a folder that all hosts share"),
        ("exit 72", "Python", "has no ", "install the environment there"),
        ("echo 'python: No module named mpiparallel' >&2; exit 1", "mpiparallel", "lacks mpiparallel", "pip install"),
        ("echo 'Traceback' >&2; kill -SEGV $$", "ssh", "Traceback", "ssh -v node1 true"),
    ],
)
def test_host_that_cannot_be_reached_is_an_error(
    faked: FakedMachine, shell: str, subject: str, what: str, mend: str
) -> None:
    (finding,) = examined(by_ssh(faked, shell))
    assert (finding.host, finding.subject, finding.state) == ("node1", subject, "error")
    assert what in finding.what
    assert mend in finding.mend


def test_missing_ssh_is_an_error(faked: FakedMachine) -> None:
    machine = faked(
        probes={"launcher": OPENMPI, "mpi_library": "true"}, variables={"PRTE_MCA_plm_ssh_agent": "/no/ssh"}
    )
    (finding,) = examined(machine)
    assert (finding.state, finding.what) == ("error", "ssh cannot be started (No such file or directory)")


def test_host_that_never_answers_costs_its_time_only(faked: FakedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpiparallel.launch.doctor.other_hosts._SECONDS_TO_GREET", 0.3)
    (finding,) = examined(by_ssh(faked, "sleep 1000"))
    assert (finding.state, finding.what) == ("error", "has not answered within 0.3 s")


def test_host_that_falls_silent_is_an_error(faked: FakedMachine) -> None:
    shell = "echo '{\"doctor\": true}'; read question; echo 'Connection reset by peer' >&2"
    (finding,) = examined(by_ssh(faked, shell))
    assert (finding.state, finding.what.endswith("Connection reset by peer")) == ("error", True)


def test_other_clock_is_a_warning(faked: FakedMachine, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    shifted = HERE.replace("exec sh", f"export LATER={tmp_path}/site; exec sh").replace(
        '"$1"', '"$(echo "$1" | sed "s|PYTHONPATH=|PYTHONPATH=$LATER:|")"'
    )
    finding = only(examined(by_ssh(faked, shifted)), "clock")
    assert (finding.state, finding.what) == ("warning", "is +40.0 s off this machine's")


def test_other_versions_are_told(faked: FakedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"mpiparallel": "9.9", "mpi": "MPICH 5.0.2", "python": "3.10.1", "numpy": "1.26", "kernels": "SkylakeX"}
    monkeypatch.setattr("mpiparallel.launch.doctor.other_hosts.facts_of", lambda machine: here)
    findings = examined(by_ssh(faked, HERE))
    states = {name: only(findings, name).state for name in ("mpiparallel", "MPI library", "python", "numpy")}
    assert states == {"mpiparallel": "error", "MPI library": "error", "python": "warning", "numpy": "warning"}
    assert only(findings, "mpiparallel").mend.endswith("-m pip install mpiparallel==9.9, on node1")


def test_host_that_cannot_connect_back_is_an_error(faked: FakedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpiparallel.launch.doctor.other_hosts.own_addresses", lambda: ["not an address", "127.0.0.1"])
    finding = only(examined(by_ssh(faked, HERE)), "way back")
    assert (finding.state, finding.what.startswith("cannot connect back to not an address")) == ("error", True)


def test_folder_that_is_not_shared_is_a_warning(faked: FakedMachine, tmp_path: Path) -> None:
    # The other end is asked for a file of another name, so it sees none.
    elsewhere = HERE.replace("exec", "sed -u 's/.mpiparallel_doctor_/absent_/' |")
    warnings = [finding for finding in examined(by_ssh(faked, elsewhere)) if finding.subject == "logs"]
    assert warnings[0].what == f"does not share {tmp_path}: logs and checkpoints of its ranks stay there"
    assert (warnings[0].state, warnings[0].mend) == ("warning", "--log-dir DIR, a folder that all hosts share")
    shared = [finding for finding in examined(by_ssh(faked, HERE)) if finding.subject == "logs"]
    assert [finding.state for finding in shared] == ["ok"]


def test_ssh_is_that_of_mpirun() -> None:
    variables = {"HYDRA_LAUNCHER_EXEC": "/opt/ssh", "PRTE_MCA_plm_ssh_agent": "ssh -p 2222 : rsh"}
    assert ssh_argv("n", "true", "openmpi", variables)[:3] == ["ssh", "-p", "2222"]
    assert ssh_argv("n", "true", "mpich", variables)[0] == "/opt/ssh"
    assert ssh_argv("n", "true", "mpich", {})[:2] == ["ssh", "-oBatchMode=yes"]


def test_program_of_the_other_end_survives_its_quotes(tmp_path: Path) -> None:
    folder = tmp_path / "it's; here"
    folder.mkdir()
    argv = ssh_argv("n", remote_program(sys.executable, "this", folder, {"PYTHONPATH": "a b"}), "mpich", {})
    with Conversation(["sh", "-c", argv[-1].replace("-m this", "-c 'import os; print(os.getcwd())'")], {}) as there:
        assert there.hear(0.1) is None
    assert "exit 71" in argv[-1]


def test_what_the_other_end_complained_of_last_is_told() -> None:
    with Conversation(["sh", "-c", "echo first >&2; echo second >&2; echo >&2; exit 7"], {}) as there:
        assert there.hear(10) is None
        assert there.ending() == (7, "second")


@pytest.mark.parametrize("said", ["timed out", "No route to host", "Name or service not known", "refused", "else"])
def test_every_complaint_of_ssh_has_a_mend(said: str) -> None:
    assert mend_of(said, "node1")
