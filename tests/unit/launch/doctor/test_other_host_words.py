"""What is told of another host, word by word, by a program in the place of ssh that answers as that host would."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.other_hosts import examine_hosts, is_here
from tests.unit.launch.doctor.faked_machine import OPENMPI, FakedMachine, program, told

FACTS = {"mpiparallel": "1.0", "mpi": "Open MPI v5.0.11", "python": "3.11.1", "numpy": "2.0", "kernels": "Haswell"}
OTHER_END = """
import json, sys, time
say = lambda words: print(json.dumps({"doctor": 1, **words}), flush=True)
say({})
for line in sys.stdin:
    question = json.loads(line)
    open(sys.argv[1], "a").write(line)
    if question["ask"] == "clock":
        say({"clock": time.time() + SHIFT})
    else:
        say(ANSWERS[question["ask"]])
"""
Found = list[tuple[str, str, str, str]]


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpiparallel.launch.doctor.other_hosts.facts_of", lambda machine: FACTS)
    monkeypatch.setattr("mpiparallel.launch.doctor.other_hosts.own_addresses", lambda: ["10.0.0.1", "127.0.0.1"])


def visited(faked: FakedMachine, folder: Path, shift: float = 0.0, **told_there: Any) -> list[Finding]:
    """Return what is found on node1, whose clock is ``shift`` seconds ahead."""
    facts = {**FACTS, **told_there.pop("facts", {})}
    way = {"reached": told_there.pop("reached", "10.0.0.1"), "tried": told_there.pop("tried", ["10.0.0.1"])}
    there = {"facts": facts, "findings": [], "sees_token": True, **told_there}
    text = OTHER_END.replace("SHIFT", repr(shift)).replace("ANSWERS", repr({"connect": way, "examine": there}))
    (folder / "end.py").write_text(text)
    program(folder / "bin", "ssh", f"exec {sys.executable} -S {folder}/end.py {folder}/asked")
    machine = faked(probes={"launcher": OPENMPI, "mpi_library": "true"})
    return examine_hosts([Host("node1", 3)], machine)


@pytest.mark.usefixtures("_known")
def test_a_host_that_is_well_is_told_in_one_line(faked: FakedMachine, tmp_path: Path) -> None:
    ((subject, state, what, mend),) = told(visited(faked, tmp_path))
    assert (subject, state, mend) == ("host", "ok", "")
    assert what.startswith("answers in ")
    assert what.endswith(" s, clock +0.00 s, Open MPI v5.0.11")
    asked = (tmp_path / "asked").read_text()
    assert asked.count('"clock"') == 5
    assert '"addresses": ["10.0.0.1"]' in asked
    assert '"ranks": 3' in asked


def differing(name: str, noun: str, state: str, mend: str) -> tuple[dict[str, str], Found]:
    what = f"is other, here it is {FACTS[name]}"
    return {name: "other"}, [(noun, state, what, mend)]


PIP = "PYTHON -m pip install"


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        differing("mpiparallel", "mpiparallel", "error", f"{PIP} mpiparallel==1.0, on node1"),
        differing("mpi", "MPI library", "error", "install the same MPI on all hosts, under the same path"),
        differing("python", "python", "warning", "use one Python on all hosts, under the same path"),
        differing("numpy", "numpy", "warning", f"{PIP} numpy==2.0, on node1"),
        differing(
            "kernels",
            "BLAS kernels",
            "note",
            "for sums that are equal to the last bit: export OPENBLAS_CORETYPE=Haswell",
        ),
        (
            {"numpy": ""},
            [("numpy", "warning", "is not there, here it is 2.0", f"{PIP} numpy==2.0, on node1")],
        ),
        ({"host": "other"}, []),
    ],
)
def test_what_differs_from_this_machine_is_told_with_its_mend(
    facts: dict[str, str], lines: Found, faked: FakedMachine, tmp_path: Path
) -> None:
    found = told(visited(faked, tmp_path, facts=facts))
    assert found[1:] == [(*line[:3], line[3].replace("PYTHON", str(tmp_path / "bin/python"))) for line in lines]


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize(
    ("shift", "told_there", "lines"),
    [
        (40.0, {}, [("clock", "warning", "is +40.0 s off this machine's", "chronyc makestep, on node1 or here")]),
        (-40.0, {}, [("clock", "warning", "is -40.0 s off this machine's", "chronyc makestep, on node1 or here")]),
        (0.3, {}, []),
        (
            0.0,
            {"reached": "", "tried": ["10.0.0.1", "10.0.0.2"]},
            [
                (
                    "way back",
                    "error",
                    "cannot connect back to 10.0.0.1, 10.0.0.2: mpirun would wait for ever",
                    "open the TCP ports between the hosts in their firewalls",
                )
            ],
        ),
        (
            0.0,
            {"reached": "", "tried": []},
            [
                (
                    "way back",
                    "error",
                    "cannot connect back to this machine: mpirun would wait for ever",
                    "open the TCP ports between the hosts in their firewalls",
                )
            ],
        ),
        (
            0.0,
            {"sees_token": False},
            [
                (
                    "logs",
                    "warning",
                    "does not share FOLDER: logs and checkpoints of its ranks stay there",
                    "--log-dir DIR, a folder that all hosts share",
                )
            ],
        ),
        (
            0.0,
            {
                "findings": [
                    {"subject": "slots", "state": "note", "what": "1 core", "mend": "", "group": "Processor"},
                    {"subject": "new", "state": "unheard of", "what": 3},
                ]
            },
            [("slots", "note", "1 core", ""), ("new", "warning", "3", "")],
        ),
    ],
)
def test_what_hinders_a_job_over_both_hosts_is_told(
    shift: float, told_there: dict[str, Any], lines: Found, faked: FakedMachine, tmp_path: Path
) -> None:
    findings = visited(faked, tmp_path, shift, **told_there)
    assert {finding.host for finding in findings} == {"node1"}
    assert findings[0].group == "Hosts"
    assert told(findings)[1:] == [(*line[:2], line[2].replace("FOLDER", str(tmp_path)), line[3]) for line in lines]


@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        ("exit 255", ("ssh", "ssh ended with exit code 255", "ssh -v node1 true")),
        ("exit 1", ("ssh", "ssh ended with exit code 1", "ssh -v node1 true")),
        (
            "echo 'No module named x' >&2; exit 2",
            ("ssh", "No module named x", "ssh -v node1 true"),
        ),
        (
            "echo 'No module named x' >&2; exit 1",
            (
                "mpiparallel",
                "PYTHON there lacks mpiparallel, or has another version (No module named x)",
                "PYTHON -m pip install mpiparallel==",
            ),
        ),
        ("exit 71", ("folder", "has no folder ", "start the job in a folder that all hosts share")),
        (
            "exit 72",
            ("Python", "has no PYTHON, which mpirun would start there", "install the environment there, under the"),
        ),
    ],
)
def test_a_host_that_is_not_reached_is_told_by_how_ssh_ends(
    shell: str, lines: tuple[str, str, str], faked: FakedMachine, tmp_path: Path
) -> None:
    machine = faked(programs={"ssh": shell}, probes={"launcher": OPENMPI, "mpi_library": "true"})
    ((subject, state, what, mend),) = told(examine_hosts([Host("node1", 2)], machine))
    wanted = [words.replace("PYTHON", str(tmp_path / "bin/python")) for words in lines]
    assert (subject, state) == (wanted[0], "error")
    assert what.startswith(wanted[1])
    assert mend.startswith(wanted[2])


def test_this_machine_is_known_by_its_name_with_or_without_its_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node1.cluster")
    here = {"node1.cluster": True, "node1": True, "localhost": True, "node2": False, "cluster": False, "node1.x": False}
    assert {name: is_here(Host(name, 1)) for name in here} == here
