"""What the system says of processes that run, are stopped, have died, or cannot be looked at."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.cluster.flight.process_state import birth_of, process_state, state_of
from mpiparallel.cluster.flight.recorder import FlightRecorder, process_space
from mpiparallel.cluster.flight.recording import Recording


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose name has what ends a name, and letters of states, in it."""
    program = tmp_path / "a) Z (T"
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    with subprocess.Popen([program, "600"]) as process:
        yield process
        process.kill()


def test_a_process_is_there_then_stopped_then_dead_before_and_after_its_parent_has_seen_it(
    sleeper: subprocess.Popen[bytes],
) -> None:
    number = sleeper.pid
    assert state_of(number) == ""
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, number, os.WSTOPPED | os.WNOWAIT)
    assert state_of(number) == "stopped"
    sleeper.kill()
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
    assert state_of(number) == "dead"
    sleeper.wait()
    assert state_of(number) == "dead"
    assert birth_of(number) is None


def test_a_process_was_born_between_the_moments_before_and_after_its_start() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    with subprocess.Popen(["sleep", "600"]) as process:
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        born = birth_of(process.pid)
        process.kill()
    assert born is not None
    assert before * ticks - 2 <= born <= after * ticks + 2


def test_of_a_process_that_may_not_be_looked_at_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: str) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    assert state_of(os.getpid()) == ""
    assert birth_of(os.getpid()) is None


def test_the_number_of_a_process_counts_on_its_host_and_in_its_namespace_only(
    sleeper: subprocess.Popen[bytes],
) -> None:
    sleeper.kill()
    sleeper.wait()
    own = Recording.of_memory(FlightRecorder(None, 0, 1).memory)
    assert process_state(own) == ""
    dead = replace(own, process=sleeper.pid)
    assert process_state(dead) == "dead"
    assert process_state(replace(dead, host="elsewhere")) == ""
    assert process_state(replace(dead, process_space=dead.process_space + 1)) == ""


def test_the_namespace_is_that_of_the_system_and_0_where_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"pid:[{process_space()}]" == str(Path("/proc/self/ns/pid").readlink())

    def refuse(path: Path) -> os.stat_result:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    assert process_space() == 0
