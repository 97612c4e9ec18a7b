"""How far the clock of another host is off, by the quickest of its answers, and what is asked of that host besides."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.cluster.hostfile import Host
from mpiparallel.launch.doctor import other_hosts
from tests.unit.launch.doctor.faked_machine import FakedMachine, told

FACTS = {"mpiparallel": "1.0", "mpi": "Open MPI v5.0.11", "python": "3.11.1", "numpy": "2.0", "kernels": "Haswell"}
QUICKEST: list[tuple[list[tuple[float, float]], tuple[float, float]]] = [
    ([(2.0, 7.0), (0.5, 3.0), (1.0, 5.0), (0.625, 9.0), (0.5, 11.0)], (3.0, 0.25)),
    ([(2.0, 7.0), (1.5, -3.0), (1.75, 5.0), (1.75, 5.0), (1.75, 5.0)], (-3.0, 0.75)),
]


@pytest.mark.parametrize(("answers", "found"), QUICKEST)
def test_of_five_answers_the_quickest_tells_how_far_a_clock_is_ahead_and_half_its_seconds_are_uncertain(
    answers: list[tuple[float, float]], found: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, left = [1000.0], list(answers)

    def ask(question: Mapping[str, str], seconds: float) -> dict[str, float]:
        assert question == {"ask": "clock"}
        took, ahead = left.pop(0)
        middle = now[0] + took / 2
        now[0] += took
        return {"clock": middle + ahead}

    monkeypatch.setattr(other_hosts, "time", SimpleNamespace(time=lambda: now[0]))
    there: Any = SimpleNamespace(ask=ask)
    assert other_hosts._skew(there) == found
    assert not left
    there.ask = lambda question, seconds: None
    assert other_hosts._skew(there)[0] is None


@pytest.mark.parametrize(
    ("skew", "clock", "off"),
    [
        ((-0.003, 0.0), "+0.00", ""),
        ((0.0625, 0.0), "+0.06", ""),
        ((0.75, 0.25), "+0.75", ""),
        ((-0.75, 0.125), "-0.75", "-0.8"),
        ((1.0, 0.25), "+1.00", "+1.0"),
    ],
)
def test_a_clock_is_off_by_more_than_half_a_second_beside_what_is_uncertain(
    skew: tuple[float, float], clock: str, off: str, faked: FakedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, asked = faked(), []
    answers = {
        "connect": {"reached": "10.0.0.1", "tried": ["10.0.0.1"]},
        "examine": {"facts": FACTS, "findings": [], "sees_token": True},
    }

    def ask(question: Mapping[str, Any], seconds: float) -> Any:
        asked.append((question, seconds))
        return answers[question["ask"]]

    monkeypatch.setattr(other_hosts, "_skew", lambda there: skew)
    monkeypatch.setattr(other_hosts, "own_addresses", lambda: ["10.0.0.1", "127.0.0.1"])
    home: Any = SimpleNamespace(machine=machine, facts=FACTS, token=Path("/token"), port=4711)
    there: Any = SimpleNamespace(ask=ask)
    first, *others = told(other_hosts._compared(Host("node1", 3), home, there, 0.25))
    assert first == ("host", "ok", f"answers in 0.2 s, clock {clock} s, Open MPI v5.0.11", "")
    warning = ("clock", "warning", f"is {off} s off this machine's", "chronyc makestep, on node1 or here")
    assert others == ([warning] if off else [])
    (way_back, _), (examination, seconds) = asked
    assert way_back == {"ask": "connect", "addresses": ["10.0.0.1"], "port": 4711}
    assert (examination["ranks"], examination["token"], examination["log_dir"]) == (3, "/token", str(machine.log_dir))
    # Its checks run in two turns, and all must be done before nobody waits any more.
    assert 2 * examination["seconds"] == seconds


def test_hosts_are_given_a_port_of_the_system_s_choice_and_a_file_that_is_gone_afterwards(
    faked: FakedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_hosts, "facts_of", lambda machine: FACTS)
    machine = faked()
    for is_removed in (False, True):
        with other_hosts._home(machine) as home:
            assert home.port > 1023
            socket.create_connection(("127.0.0.1", home.port), 60).close()
            assert home.token.parent == machine.log_dir
            assert home.token.exists()
            if is_removed:
                home.token.unlink()
        assert not home.token.exists()
