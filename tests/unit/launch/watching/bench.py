"""A watch over an mpirun that does nothing, by a clock that a test moves."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.watching import watch as module
from mpiparallel.launch.watching.run_policy import RunPolicy
from mpiparallel.launch.watching.watch import Watch

PID = 1 << 30
"""No process has it."""


class Bench:
    """Watches an mpirun of four ranks that does nothing; ``told`` is what it was sent, "killed" for its end."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.told: list[str] = []
        self.passed: list[int] = []
        self.shown: list[bytes] = []
        self.hang: str | None = None
        self.state = "sleeping"
        self.connected: set[int] = set()
        self.listened = 0
        self.on_listen: Callable[[], None] = lambda: None
        self.registry = RankRegistry(4)
        self.folders = [RankFolder(folder, rank) for rank in range(4)]
        self.killed_children: list[int] = []
        clock = SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now)
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "state_of", lambda process: self.state if process == PID else "")
        monkeypatch.setattr(module, "children_of", lambda process: [])
        monkeypatch.setattr(module, "kill_children", self.killed_children.append)
        monkeypatch.setattr(os, "killpg", self._killed)

    def _killed(self, process: int, number: int) -> None:
        assert (process, number) == (PID, signal.SIGKILL)
        self.told.append("killed")

    def listen(self, seconds: float) -> None:
        self.listened += 1
        self.on_listen()
        self.now += seconds

    def look(self) -> str | None:
        return self.hang

    def look_for_overdue(self, now: float) -> str | None:
        assert now == self.now
        return self.hang

    def watch(self, **policy: Any) -> Watch:
        process: Any = SimpleNamespace(
            pid=PID,
            poll=lambda: None,
            wait=lambda: 0,
            send_signal=lambda number: self.told.append(signal.Signals(number).name),
        )
        bench: Any = self
        console: Any = SimpleNamespace(show=self.shown.append)
        output: Any = SimpleNamespace(copy=lambda: None)
        self.pass_signal = self.passed.append
        agreed = RunPolicy(**policy)
        return Watch(process, self.folders, agreed, bench, self.registry, bench, console, output)

    def all_call(self) -> None:
        for entry in self.registry:
            self.registry.call(entry.rank, entry.rank, "elsewhere", 100 + entry.rank)
            entry.called_at = self.now

    def heard(self, watch: Watch, *steps: tuple[float, list[str]]) -> None:
        """Look after some seconds, at each step, and see what mpirun was sent since the last."""
        begin = self.now
        for seconds, told in steps:
            self.now = begin + seconds
            self.told.clear()
            watch._look()
            assert self.told == told, seconds
