from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.child import ask
from mpiparallel.launch.doctor.examination import examine
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.registry import CHECKS, Check
from tests.unit.launch.doctor.faked_machine import FakedMachine

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def well(machine: ExaminedMachine) -> Iterator[Finding]:
    yield Finding("first", "ok", "well")
    yield Finding("second", "note", "well")


def broken(machine: ExaminedMachine) -> Iterator[Finding]:
    yield Finding("third", "ok", "well")
    raise ZeroDivisionError("of nothing")


def test_findings_come_in_the_order_of_the_checks_with_their_groups(faked: FakedMachine) -> None:
    checks = (Check("last", "A", well, alone=True), Check("b", "B", well))
    found = [(finding.group, finding.subject) for finding in examine(faked(), checks)]
    assert found == [("A", "first"), ("A", "second"), ("B", "first"), ("B", "second")]


def test_check_that_fails_costs_no_answer_of_others(faked: FakedMachine) -> None:
    failed, *others = examine(faked(), (Check("broken", "A", broken), Check("well", "B", well)))
    assert (failed.subject, failed.state) == ("broken", "warning")
    assert "ZeroDivisionError: of nothing" in failed.what
    assert len(others) == 2


def test_check_that_never_ends_is_told(faked: FakedMachine) -> None:
    let_go, before = threading.Event(), threading.enumerate()

    def blocked(machine: ExaminedMachine) -> Iterator[Finding]:
        let_go.wait()
        yield Finding("late", "ok", "")

    late, *others = examine(faked(), (Check("blocked", "A", blocked), Check("well", "B", well)), seconds=0.2)
    # Nor does it keep the program from ending.
    kept = [thread for thread in threading.enumerate() if thread not in before]
    let_go.set()
    assert [thread.daemon for thread in kept] == [True]
    assert (late.subject, late.state, "has not ended" in late.what) == ("blocked", "warning", True)
    assert len(others) == 2


def test_checks_that_measure_run_after_all_others(faked: FakedMachine) -> None:
    order: list[str] = []

    def noting(name: str) -> Check:
        def find(machine: ExaminedMachine) -> Iterator[Finding]:
            order.append(name)
            yield from ()

        return Check(name, "A", find, alone=name == "alone")

    examine(faked(), [noting(name) for name in ("alone", "a", "b")])
    assert order[-1] == "alone"


def test_a_check_that_never_ends_does_not_keep_the_program(faked: FakedMachine) -> None:
    daemons: list[bool] = []

    def find(machine: ExaminedMachine) -> Iterator[Finding]:
        daemons.append(threading.current_thread().daemon)
        yield from ()

    examine(faked(), (Check("a", "A", find), Check("b", "B", find, alone=True)))
    assert daemons == [True, True]


def test_no_more_threads_cost_no_answer(faked: FakedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert len(examine(faked(), (Check("a", "A", well), Check("b", "B", well)))) == 4


def test_children_do_not_take_themselves_for_ranks_of_a_job_around(faked: FakedMachine) -> None:
    around = {
        "PMI_RANK": "0",
        "OMPI_COMM_WORLD_RANK": "0",
        "SLURM_PROCID": "0",
        "MPIPARALLEL_LINE": "x",
        "RANK_ID": "0",
    }
    own = {"PMIX_MCA_gds": "hash", "OMPI_MCA_btl": "self", "SLURM_JOB_ID": "7"}
    seen = dict(line.partition("=")[::2] for line in faked(variables=around | own).ask("env").output.splitlines())
    assert own.items() <= seen.items()
    assert not around.keys() & seen.keys()


def test_names_of_checks_differ_and_other_hosts_start_no_ranks_and_have_no_user_shell_or_slurm() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert {check.name for check in CHECKS if check.here_only} == {"start", "root", "slurm", "threads"}
    assert [check.name for check in CHECKS if check.alone] == ["start"]


def test_child_that_blocks_is_ended_with_its_own_children() -> None:
    answer = ask(["sh", "-c", "trap '' TERM; echo $$; sleep 1000 & wait; sleep 1000"], ENVIRONMENT, 0.3)
    assert (answer.code, answer.failure) == (None, "has not ended within 0.3 s")
    status = Path(f"/proc/{int(answer.output)}/status")
    assert not status.exists() or "Z (zombie)" in status.read_text()


def test_child_is_not_waited_for_by_what_it_leaves_behind() -> None:
    answer = ask(["sh", "-c", "sleep 1000 & echo $!"], ENVIRONMENT, 30)
    os.kill(int(answer.output), 9)
    assert (answer.code, answer.failure) == (0, "")


def test_flood_is_cut_to_its_end() -> None:
    program = "import sys; [sys.stdout.write('x' * 65536) for _ in range(64)]; print('\\nlast')"
    answer = ask([sys.executable, "-c", program], ENVIRONMENT, 30)
    assert len(answer.output) == 1_000_000
    assert answer.last_words == "last"


def test_ways_to_end_are_told() -> None:
    tried = {
        "says nothing": "true",
        "says well": "echo well",
        "ended with exit code 3: mine": "echo mine >&2; exit 3",
        "was ended by SIGSEGV": "kill -SEGV $$",
    }
    assert [ask(["sh", "-c", shell], ENVIRONMENT, 30).complaint for shell in tried.values()] == list(tried)
    assert ask(["/no/such/program"], ENVIRONMENT, 30).failure == "cannot be started (No such file or directory)"


def test_how_many_checks_have_ended_is_told(faked: FakedMachine) -> None:
    told: list[tuple[int, int]] = []
    checks = (Check("a", "A", well), Check("b", "B", well, alone=True), Check("c", "C", broken))
    examine(faked(), checks, progress=lambda ended, total: told.append((ended, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
