"""Watching mpirun and the line to its ranks until the job is over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.line.exchange import Exchange
from mpiparallel.launch.line.roll import Entry, Roll
from mpiparallel.launch.watching.shared_segments import LeftSegments
from mpiparallel.launch.watching.tee import Tee
from mpiparallel.launch.watching.terms import Terms

_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.5
_TIMEOUT_GRACE_SECONDS = 5.0
# mpirun ends the other ranks when one has failed; Open MPI's was seen not to when all fail at one moment.
_FAILURE_GRACE_SECONDS = 2.0
_KILL_GRACE_SECONDS = 1.0
_SIGNAL_GRACE_SECONDS = 2.0
_LAST_WORDS_SECONDS = 1.0
_OVER_GRACE_SECONDS = 5.0
_FINALIZING_SECONDS = 60.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Watch:
    """Waits for mpirun, and ends it at a signal, at the timeout, or when it goes on after a rank has failed."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folders: Sequence[RankFolder],
        terms: Terms,
        exchange: Exchange,
        roll: Roll,
        find_hang: Callable[[], str | None],
    ) -> None:
        self.process = process
        self.timed_out = False
        self.signal_number: int | None = None
        self.ended_at = float("inf")
        self.over_at = float("inf")
        self.sentence: str | None = None
        self._folders = folders
        self._terms = terms
        self._exchange = exchange
        self.segments = LeftSegments()
        self._roll = roll
        self._find_hang = find_hang
        self._host = socket.gethostname()
        self._tee = Tee(terms.shown, folders)
        self._followed = terms.shown.ranks[0]
        self._failed_at: float | None = None
        self._all_over_at: float | None = None
        self._next_look = 0.0
        self._is_ending = False
        self._was_told = 0
        self._deadline = time.monotonic() + (float("inf") if terms.timeout is None else terms.timeout - terms.spent)

    def to_end(self) -> None:
        """Return when mpirun has ended; nothing of its process group is left then, and all last words are heard."""
        # What is ignored, as nohup does with SIGHUP, stays so.
        ending = (number for number in _ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN)
        watched = {*ending, *self._terms.preemption}
        handlers = {number: signal.signal(number, self._on_signal) for number in watched}
        try:
            while self.process.poll() is None:
                self._tee.show()
                self._follow_survivor()
                self._look()
                self._exchange.listen(_POLL_SECONDS)
            self.over_at = time.time()
        finally:
            self._kill()
            self.process.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        self._hear_last_words()
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
        """Return when a rank was first seen to have failed or, unless deaths are survived, died."""
        if self._failed_at is None and any(map(self._is_failure, self._roll)):
            self._failed_at = now
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._look_closely(now)
        return self._failed_at

    def _is_failure(self, entry: Entry) -> bool:
        return entry.failure is not None or (entry.has_died and not self._terms.survives_deaths)

    def _look_closely(self, now: float) -> None:
        """Look at what is not said on the line: records of failures, and whether somebody waits for ever."""
        own = (entry for entry in self._roll if entry.host == self._host and not entry.is_over)
        self.segments.note(entry.pid for entry in own if entry.pid is not None)
        if self._failed_at is None and any(folder.failure.exists() for folder in self._folders):
            self._failed_at = now
        if self._failed_at is None and self._some_have_ended():
            self.sentence = self._find_hang()
            if self.sentence:
                self._end(signal.SIGTERM, _KILL_GRACE_SECONDS)
        if self._some_never_begin():
            self._end(signal.SIGTERM, _KILL_GRACE_SECONDS)

    def _some_never_begin(self) -> bool:
        """Return whether ranks are so late that they must have ended before they could call; MPICH waits for them."""
        calls = [entry.called_at for entry in self._roll if entry.called_at is not None]
        if not calls or len(calls) == self._roll.size or time.time() < min(calls) + self._terms.start_timeout:
            return False
        # A rank that cannot reach the launcher has a log all the same.
        return any(
            entry.called_at is None and not folder.log.exists()
            for entry, folder in zip(self._roll, self._folders, strict=True)
        )

    def _follow_survivor(self) -> None:
        """Show the lowest living rank where the only shown one has died: it tells how the others go on."""
        shown = self._terms.shown
        if self._terms.survives_deaths and not shown.is_prefixed and self._roll.entries[self._followed].has_died:
            living = [entry.rank for entry in self._roll if not entry.is_over]
            if living:
                self._followed = living[0]
                self._tee.follow(self._folders[self._followed])

    def _some_have_ended(self) -> bool:
        ended = [entry for entry in self._roll if entry.ended_well or entry.has_died]
        return 0 < len(ended) < self._roll.size

    def _end_of_all(self, now: float) -> float | None:
        """Return when the last rank was seen to have said its last word or to be lost, None while one goes on."""
        if self._all_over_at is None and all(entry.is_over for entry in self._roll):
            self._all_over_at = now
        return self._all_over_at

    def _over_grace(self) -> float:
        """Return how long mpirun may go on after that; MPI was seen never to finalize where a rank had died."""
        if all(entry.lost_at is not None for entry in self._roll):
            return _OVER_GRACE_SECONDS
        has_deaths = any(entry.has_died for entry in self._roll)
        return _FAILURE_GRACE_SECONDS if has_deaths else _FINALIZING_SECONDS

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in self._terms.preemption:
            # Not through mpirun, which does not pass on every signal, nor to every host, and may die of it.
            self._exchange.pass_signal(number)
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

    def _kill(self) -> None:
        # The group may be gone already; the ranks, in groups of their own, die with their parent.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _hear_last_words(self) -> None:
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while self._exchange.connected and time.monotonic() < deadline:
            self._exchange.listen(_POLL_SECONDS)
