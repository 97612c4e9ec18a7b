"""Watching mpirun and the control channel to its ranks until the job is over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from mpiparallel.cluster.flight.process_state import state_of
from mpiparallel.cluster.preemption_signal import PreemptionHandler
from mpiparallel.launch.control.control_server import ControlServer
from mpiparallel.launch.control.rank_registry import RankEntry, RankRegistry
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.rank.process_tree import children_of, kill_children
from mpiparallel.launch.watching.hang_check import HangCheck
from mpiparallel.launch.watching.leaving import Leaving
from mpiparallel.launch.watching.mpirun_output import MpirunOutput
from mpiparallel.launch.watching.run_policy import RunPolicy
from mpiparallel.launch.watching.shared_segments import LeftSegments
from mpiparallel.launch.watching.tee import Tee

_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.5
_TIMEOUT_GRACE_SECONDS = 5.0
# mpirun ends the other ranks when one has failed; Open MPI's was seen not to when all fail at one moment.
_FAILURE_GRACE_SECONDS = 2.0
# How long a rank that has begun to fail may take to put it in words.
_FAILING_SECONDS = 10.0
_KILL_GRACE_SECONDS = 1.0
_SIGNAL_GRACE_SECONDS = 2.0
_LAST_WORDS_SECONDS = 1.0
_OVER_GRACE_SECONDS = 5.0
_LAST_GRACE_SECONDS = 15.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Watch:
    """Waits for mpirun, and ends it at a signal, at the timeout, or when it goes on after a rank has failed."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folders: Sequence[RankFolder],
        policy: RunPolicy,
        server: ControlServer,
        registry: RankRegistry,
        hangs: HangCheck,
        console: Console,
        output: MpirunOutput,
    ) -> None:
        self.process = process
        self.timed_out = False
        self.signal_number: int | None = None
        self.ended_at = float("inf")
        self.over_at = float("inf")
        self.sentence: str | None = None
        self._folders = folders
        self._policy = policy
        self._server = server
        self.segments = LeftSegments()
        self._registry = registry
        self._hangs = hangs
        self._leaving = Leaving(registry, policy.watchdog)
        self._host = socket.gethostname()
        self._output = output
        self._tee = Tee(policy.shown, folders, console)
        self._followed = policy.shown.ranks[0]
        self._failed_at: float | None = None
        self._stage, self._staged_at = 0, 0.0
        self._next_look = 0.0
        self._is_ending = False
        self._is_held_up = False
        self._was_told = 0
        self._former: dict[int, Any] = {}
        self._deadline = time.monotonic() + (float("inf") if policy.timeout is None else policy.timeout - policy.spent)

    def to_end(self) -> None:
        """Return when mpirun has ended; nothing of its process group is left then, and all last words are heard."""
        # What is ignored, as nohup does with SIGHUP, stays so.
        ending = (number for number in _ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN)
        watched = {*ending, *self._policy.preemption}
        self._former = {number: signal.getsignal(number) for number in watched}
        for number, former in self._former.items():
            signal.signal(number, self._on_signal)
            if isinstance(former, PreemptionHandler) and former.has_come:
                self._server.pass_signal(number)
        try:
            while self.process.poll() is None:
                self._tee.show()
                self._output.copy()
                self._follow_survivor()
                self._look()
                self._server.listen(_POLL_SECONDS)
            self.over_at = time.time()
        finally:
            self._kill()
            self.process.wait()
            for number, former in self._former.items():
                signal.signal(number, former)
        self._hear_last_words()
        self._output.copy()
        self._tee.show(is_last=True)

    def _look(self) -> None:
        now = time.monotonic()
        if now > self._deadline:
            self._on_deadline()
        elif not self._is_ending:
            has_failed = self._is_past(self._first_failure(now), _FAILURE_GRACE_SECONDS, now)
            if has_failed or self._is_past(self._end_of_all(now), self._over_grace(), now):
                self._end(signal.SIGTERM, _KILL_GRACE_SECONDS)

    @staticmethod
    def _is_past(moment: float | None, grace: float, now: float) -> bool:
        return moment is not None and now > moment + grace

    def _first_failure(self, now: float) -> float | None:
        """Return when a rank was first seen to have failed or, unless deaths are survived, died.

        None where the only ones that seemed to have died have called again, within the grace that is left to them.
        """
        if not any(map(self._is_failure, self._registry)):
            if self._failed_at is not None and not self._has_written_failure():
                self._failed_at = None
        elif self._failed_at is None:
            self._failed_at = now
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._look_closely(now)
        return self._failed_at

    def _is_failure(self, entry: RankEntry) -> bool:
        is_stuck = entry.failing_at is not None and time.time() > entry.failing_at + _FAILING_SECONDS
        return entry.failure is not None or is_stuck or (entry.has_died and not self._policy.survives_deaths)

    def _has_written_failure(self) -> bool:
        return any(folder.failure.exists() for folder in self._folders)

    def _look_closely(self, now: float) -> None:
        """Look at what is not said on the control channel: records of failures, and whether somebody waits for ever."""
        own = (entry for entry in self._registry if entry.host == self._host and not entry.is_over)
        self.segments.note(entry.pid for entry in own if entry.pid is not None)
        if self._failed_at is None and self._has_written_failure():
            self._failed_at = now
        if self._failed_at is None:
            self.sentence = self._hang(now)
        self._is_held_up = all(entry.ended_well for entry in self._registry) and self._has_stopped()
        if self._failed_at is None and not self._is_held_up:
            self.sentence = self.sentence or self._leaving.sentence(now)
        if self.sentence:
            self._end(signal.SIGTERM, _KILL_GRACE_SECONDS)
        if self._some_never_begin():
            self._end(signal.SIGTERM, _KILL_GRACE_SECONDS)

    def _hang(self, now: float) -> str | None:
        """Return who waits for whom for ever, and that mpirun is stopped if it is: MPI does not start without it."""
        found = self._hangs.look() if self._some_have_ended() else None
        found = found or self._hangs.look_for_overdue(now)
        return f"mpirun is stopped by a signal; {found}" if found and self._has_stopped() else found

    def _some_never_begin(self) -> bool:
        """Return whether ranks are so late that they must have ended before they could call; MPICH waits for them."""
        calls = [entry.called_at for entry in self._registry if entry.called_at is not None]
        if not calls or len(calls) == self._registry.size or time.time() < min(calls) + self._policy.start_timeout:
            return False
        # A rank that cannot reach the launcher has a log all the same.
        return any(
            entry.called_at is None and not folder.log.exists()
            for entry, folder in zip(self._registry, self._folders, strict=True)
        )

    def _follow_survivor(self) -> None:
        """Show the lowest living rank where the only shown one has died: it tells how the others go on."""
        shown = self._policy.shown
        if self._policy.survives_deaths and not shown.is_prefixed and self._registry.entries[self._followed].has_died:
            living = [entry.rank for entry in self._registry if not entry.is_over]
            if living:
                self._followed = living[0]
                self._tee.follow(self._folders[self._followed])

    def _some_have_ended(self) -> bool:
        ended = [entry for entry in self._registry if entry.ended_well or entry.has_died]
        return 0 < len(ended) < self._registry.size

    def _end_of_all(self, now: float) -> float | None:
        """Return when the last rank was seen to have said its last word, or to have left; None while one goes on."""
        stage = all(entry.is_over for entry in self._registry) + self._all_have_left()
        if stage != self._stage:
            self._stage, self._staged_at = stage, now
        return self._staged_at if stage else None

    def _over_grace(self) -> float:
        """Return how long mpirun may go on after that; MPI was seen never to finalize where a rank had died."""
        if any(entry.has_died for entry in self._registry):
            return _OVER_GRACE_SECONDS if self._all_have_left() else _FAILURE_GRACE_SECONDS
        # Ranks that are still there are given their time by what looks after their leaving.
        return _LAST_GRACE_SECONDS if self._all_have_left() or self._is_held_up else float("inf")

    def _all_have_left(self) -> bool:
        return all(entry.lost_at is not None for entry in self._registry)

    def _has_stopped(self) -> bool:
        """Return whether mpirun is stopped, or what it has started to start the ranks: none of them can leave then."""
        starters = {entry.starter for entry in self._registry if entry.host == self._host}
        its_own = [self.process.pid, *(child for child in children_of(self.process.pid) if child not in starters)]
        return any(state_of(process) == "stopped" for process in its_own)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in self._policy.preemption:
            # Not through mpirun, which does not pass on every signal, nor to every host, and may die of it.
            self._server.pass_signal(number)
            if isinstance(former := self._former.get(number), PreemptionHandler):
                former(number, frame)
        elif self.signal_number is None:
            self.signal_number = number
            # Open MPI's mpirun takes SIGHUP for its own to die of.
            self._end(signal.SIGTERM if number == signal.SIGHUP else number, _SIGNAL_GRACE_SECONDS)
        else:
            self._kill()

    def _on_deadline(self) -> None:
        if not self._is_ending:
            self.timed_out = True
            self._end(signal.SIGTERM, _TIMEOUT_GRACE_SECONDS)
        elif self._was_told == signal.SIGINT:
            # A rank in a long call of MPI never comes to see it.
            self._end(signal.SIGTERM, _SIGNAL_GRACE_SECONDS)
        else:
            self._kill()

    def _end(self, number: int, grace: float) -> None:
        self._is_ending = True
        self._was_told = number
        self.ended_at = min(self.ended_at, time.time())
        self._deadline = time.monotonic() + grace
        self.process.send_signal(number)
        # Where it is stopped, so that it hears of it.
        self.process.send_signal(signal.SIGCONT)

    def _kill(self) -> None:
        if self.process.poll() is None:
            # MPICH's proxy, in a group of its own, may be stopped. Ranks die with their parent.
            kill_children(self.process.pid)
        # The group may be gone already.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _hear_last_words(self) -> None:
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while self._server.connected and time.monotonic() < deadline:
            self._server.listen(_POLL_SECONDS)
