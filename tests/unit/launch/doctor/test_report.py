from __future__ import annotations

import json

import pytest

from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.json_output import document
from mpiparallel.launch.doctor.report import report, summary

LONG = "a sentence that is so long that it does not fit a line of a terminal of eighty columns, " * 2
OK = Finding("library", "ok", "Open MPI", group="MPI")
NOTE = Finding("user", "note", "root", "export A=1", group="MPI")
WARNING = Finding("stack", "warning", LONG, "ulimit -s 8192", group="Limits")
ERROR = Finding("/dev/shm", "error", "full", "mount -o remount /dev/shm", group="Limits")
ELSEWHERE = Finding("ssh", "error", "refused", "start sshd", "Hosts", "node1")


@pytest.mark.parametrize("width", [60, 80, 100, 300])
def test_lines_fit_the_terminal(width: int) -> None:
    text = report([OK, NOTE, WARNING, ERROR, ELSEWHERE], width)
    assert max(map(len, text.splitlines())) <= min(width, 100)


def test_report_is_grouped_and_mends_follow_what_is_wrong() -> None:
    assert report([OK, NOTE, ERROR], 80).splitlines() == [
        "MPI",
        "  ok       library        Open MPI",
        "  note     user           root",
        "",
        "Limits",
        "  ERROR    /dev/shm       full",
        "           -> mount -o remount /dev/shm",
        "",
        "1 error; mend it: mount -o remount /dev/shm",
    ]


def test_mends_of_notes_are_shown_when_asked_for() -> None:
    assert "-> export A=1" not in report([NOTE], 80)
    assert "-> export A=1" in report([NOTE], 80, all_mends=True)


def test_of_other_hosts_only_what_is_wrong_is_shown() -> None:
    reached = [Finding("host", "ok", "answers", "", "Hosts", f"node{number}") for number in range(20)]
    quiet = [Finding("slots", "ok", "2 cores", "", "Processor", "node3")]
    text = report([*reached, *quiet, ELSEWHERE], 80)
    assert "20 answer, from node0 to node19" in text
    assert "2 cores" not in text
    assert "  ERROR    node1          ssh: refused" in text
    assert report(reached[:2], 80).count("answers") == 2


@pytest.mark.parametrize(
    ("findings", "line"),
    [
        ([OK], "no errors, no warnings, 0 notes"),
        ([NOTE], "no errors, no warnings, 1 note"),
        ([WARNING], "1 warning; mend it: ulimit -s 8192"),
        ([WARNING, ERROR, WARNING], "2 warnings, 1 error; mend the error first: mount -o remount /dev/shm"),
        ([ELSEWHERE, ERROR], "2 errors; mend this first: on node1, start sshd"),
    ],
)
def test_summary_is_one_line_that_names_the_worst(findings: list[Finding], line: str) -> None:
    assert summary(findings) == line


def test_document_has_the_promised_keys() -> None:
    read = json.loads(document([OK, ELSEWHERE], {"mpi": "Open MPI"}, 8, 1.23456))
    assert list(read) == ["version", "facts", "ranks", "seconds", "counts", "findings"]
    assert (read["version"], read["ranks"], read["seconds"], read["facts"]) == (1, 8, 1.235, {"mpi": "Open MPI"})
    assert read["counts"] == {"ok": 1, "note": 0, "warning": 0, "error": 1}
    assert set(read["findings"][1]) == {"host", "group", "subject", "state", "what", "mend"}
    assert read["findings"][1]["host"] == "node1"
