from __future__ import annotations

import io
import json

import pytest

from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.json_output import document
from mpiparallel.launch.doctor.report import coloured, report, summary

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
        ([NOTE, NOTE], "no errors, no warnings, 2 notes"),
        ([NOTE, Finding("slots", "note", "1 core", "", "Processor", "node1")], "no errors, no warnings, 1 note"),
        ([WARNING, WARNING], "2 warnings; mend this first: ulimit -s 8192"),
        ([WARNING, ERROR, ELSEWHERE], "1 warning, 2 errors; mend this first: mount -o remount /dev/shm"),
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


@pytest.mark.parametrize(("width", "most"), [(10, 60), (60, 60), (61, 61), (100, 100), (101, 100), (9999, 100)])
def test_a_report_is_60_to_100_characters_wide(width: int, most: int) -> None:
    words = Finding("stack", "warning", "ab " * 200, "cd " * 200, group="Limits")
    lines = report([words], width).splitlines()
    assert most - 3 < max(map(len, lines)) <= most
    assert all(
        line.startswith(" " * 26) for line in lines[2:] if "ab" in line and "->" not in line and "mend" not in line
    )


def test_what_is_too_long_for_a_line_goes_on_below_where_it_began() -> None:
    words = Finding(
        "stack", "warning", "one two three four five six seven", "one two three four five six seven eight", "A"
    )
    assert report([words], 60).splitlines()[:5] == [
        "A",
        "  warning  stack          one two three four five six seven",
        "           -> one two three four five six seven eight",
        "",
        "1 warning; mend it: one two three four five six seven eight",
    ]
    path = "/" + "x-" * 45
    lines = report([Finding("s", "ok", f"a {path} b-c", group="A")], 60).splitlines()
    assert lines[:4] == ["A", "  ok       s              a", f"{' ' * 26}{path}", f"{' ' * 26}b-c"]


@pytest.mark.parametrize(("count", "lines"), [(8, 8), (9, 1)])
def test_more_than_eight_hosts_that_answer_are_told_together(count: int, lines: int) -> None:
    reached = [Finding("host", "ok", "answers", "", "Hosts", f"node{number}") for number in range(count)]
    noted = [Finding("host", "note", "n", "", "Hosts", "node1"), Finding("slots", "ok", "s", "", "Hosts", "node1")]
    shown = report([*reached, *noted], 80).splitlines()
    assert shown[0] == "Hosts"
    assert shown[-2:] == ["", "no errors, no warnings, 0 notes"]
    assert len(shown) == 3 + lines
    together = f"  ok       hosts          {count} answer, from node0 to node{count - 1}"
    assert shown[1] == ("  ok       node0          answers" if lines > 1 else together)


def test_findings_of_other_hosts_come_last_and_under_one_title() -> None:
    there = Finding("stack", "warning", "64 KiB", "ulimit", "Limits", "node1")
    host = Finding("host", "error", "gone", "look", "Hosts", "node2")
    assert report([there, host, OK], 80).splitlines()[:8] == [
        "MPI",
        "  ok       library        Open MPI",
        "",
        "Hosts",
        "  warning  node1          stack: 64 KiB",
        "           -> ulimit",
        "  ERROR    node2          gone",
        "           -> look",
    ]


def test_states_are_coloured_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "  ok       a\n  warning  b\n  ERROR    ok\n  note     c\n  okay\nok"
    assert coloured(text, io.StringIO()) == text
    green, yellow, red = (
        f"\x1b[{number}m{word}\x1b[0m" for number, word in ((32, "ok"), (33, "warning"), (31, "ERROR"))
    )
    assert coloured(text, Terminal()).splitlines() == [
        f"  {green}       a",
        f"  {yellow}  b",
        f"  {red}    ok",
        *text.splitlines()[3:],
    ]


def test_the_document_can_be_read_by_people_and_counts_each_state() -> None:
    text = document([OK, OK, NOTE, WARNING, ERROR, ERROR, ERROR], {}, 2, 0.5)
    assert '\n "ranks": 2,' in text
    assert json.loads(text)["counts"] == {"ok": 2, "note": 1, "warning": 1, "error": 3}
