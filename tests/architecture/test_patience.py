"""Tests wait longer on a busy machine, and say what hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conformance import patience
from tests.conformance.patience import Patience, communicated, run, wait_until, waited


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by ten seconds each time it is looked at, and a load."""
    state = {"now": 0.0, "load": 0.0}

    def tell():
        state["now"] += 10.0
        return state["now"]

    monkeypatch.setattr(patience.time, "monotonic", tell)
    monkeypatch.setattr(patience.os, "getloadavg", lambda: (state["load"], 0.0, 0.0))
    monkeypatch.setattr(patience.os, "sched_getaffinity", lambda process: {0, 1})
    return state


@pytest.mark.parametrize(("load", "variable", "times"), [(0.5, "1", 10), (30.0, "1", 150), (0.5, "2", 20)])
def test_patience_is_measured_in_seconds_of_a_quiet_machine(clock, monkeypatch, load, variable, times) -> None:
    clock["load"] = load
    monkeypatch.setenv(patience.VARIABLE, variable)
    waiting, asked = Patience(100.0), 1
    while waiting.is_left():
        asked += 1
    assert asked == times


def test_a_process_that_hangs_is_ended_and_what_it_has_printed_is_shown(monkeypatch) -> None:
    program = "import sys, time; print('begun', file=sys.stderr); print(flush=True); time.sleep(3600)"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", program], **pipes)
    assert process.stdout.readline() == "\n"
    monkeypatch.setattr(patience.Patience, "is_left", lambda own: False)
    with pytest.raises(pytest.fail.Exception, match=r"hangs:\n\('', 'begun"):
        communicated(process)
    assert process.returncode is not None


def test_what_does_not_come_to_pass_is_told(monkeypatch) -> None:
    monkeypatch.setattr(patience.Patience, "is_left", lambda own: False)
    with pytest.raises(pytest.fail.Exception, match="the sky is blue"):
        wait_until(lambda: False, lambda: "the sky is blue")


def test_a_process_that_ends_is_reported_as_it_ended() -> None:
    ended = run([sys.executable, "-c", "print(1); raise SystemExit(3)"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "1\n", "")
    with pytest.raises(pytest.fail.Exception, match="ended with 3"):
        run([sys.executable, "-c", "raise SystemExit(3)"], check=True)
    assert waited(subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"])) == 4
