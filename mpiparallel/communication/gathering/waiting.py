"""A process that waits for its place in a job, and for the other processes of its host."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType

from mpiparallel.cluster.gathering import meeting_point
from mpiparallel.cluster.gathering.hand_started import SECONDS_VARIABLE, HandStarted
from mpiparallel.cluster.gathering.meeting_point import CONFLICT, REFUSAL, STAND_IN, GatheringMessage
from mpiparallel.communication.gathering.mpirun_starter import MpirunStarter
from mpiparallel.communication.gathering.origin import Origin
from mpiparallel.errors import LaunchError

_LOOK_SECONDS = 0.1
# What starts mpirun may need that long after the last process has come.
_START_SECONDS = 60.0
# After the end of its stand-in a process waits that long for the reason.
_REASON_SECONDS = 15.0
_TOLD_SECONDS = 2.0
_MOST_AT_ONCE = 128


class Waiting:
    """Waits as ``started``, so that the stand-in of its rank finds it; a context manager."""

    def __init__(self, started: HandStarted, origin: Origin) -> None:
        self._started = started
        self._origin = origin
        self._begin = time.monotonic()
        self._lookout = meeting_point.Lookout(started.digest)
        self._check_alone(None)
        self._listener = meeting_point.listen(started.digest, started.rank)
        try:
            # Another may have come between.
            self._check_alone(self._listener)
        except LaunchError:
            self._listener.close()
            raise
        self._callers: list[socket.socket] = []
        self._stand_in: socket.socket | None = None
        self._left_at: float | None = None
        self._led_at = self._begin

    def __enter__(self) -> Waiting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.close()
        for caller in self._callers:
            caller.close()

    def for_all_here(self) -> None:
        """Wait until all processes of this host are there; raise LaunchError, also on them, where some do not come."""
        while missing := self._missing():
            if self._waited() > self._started.seconds:
                reason = self._late(missing)
                self.refuse_all(reason)
                raise LaunchError(reason)
            self._hear()

    def for_identity(self, starter: MpirunStarter | None) -> tuple[socket.socket, GatheringMessage]:
        """Wait until a stand-in hands over this rank's place in the job.

        Raises LaunchError where another process refuses, ``starter`` fails, or nobody comes.
        """
        while True:
            heard = self._hear()
            if heard:
                return heard
            if starter:
                starter.check()
            elif self._stand_in is None and time.monotonic() > self._deadline():
                raise LaunchError(self._late(self._missing()) if self._left_at is None else self._over())

    def refuse_all(self, reason: str) -> None:
        """Tell the other processes that wait on this host why there is no job."""
        for rank in self._lookout.waiting(self._others()):
            with suppress(OSError), meeting_point.call(self._started.digest, rank) as connection:
                meeting_point.send(connection, REFUSAL, reason=reason)

    def _hear(self) -> tuple[socket.socket, GatheringMessage] | None:
        """Listen for a moment; return the stand-in and what it hands over, if it has."""
        ready, _, _ = select.select([self._listener, *self._callers], [], [], _LOOK_SECONDS)
        for one in ready:
            if one is self._listener:
                self._accept()
                continue
            message = meeting_point.receive(one)
            if message is None:
                self._hang_up(one)
            elif message.word == STAND_IN:
                self._stand_in = one
            elif message.word == REFUSAL:
                raise LaunchError(str(message.fields.get("reason")))
            elif message.word == CONFLICT:
                self._answer(Origin.of(message.fields.get("origin")))
            else:
                self._check(Origin.of(message.fields.get("origin")))
                self._callers.remove(one)
                return one, message
        return None

    def _accept(self) -> None:
        # Strangers may call too, and more often than this process looks.
        with suppress(BlockingIOError):
            for _ in range(_MOST_AT_ONCE):
                connection, _ = self._listener.accept()
                if meeting_point.is_own(connection):
                    self._callers.append(connection)
                else:
                    connection.close()

    def _hang_up(self, caller: socket.socket) -> None:
        caller.close()
        self._callers.remove(caller)
        if caller is self._stand_in:
            self._stand_in = None
            self._left_at = time.monotonic()

    def _answer(self, other: Origin) -> None:
        # One that comes from elsewhere has gone by itself.
        if self._origin.is_related(other):
            raise self._twice(other.process)

    def _check(self, first: Origin) -> None:
        if not self._origin.is_related(first):
            raise LaunchError(
                f"init: rank 0 was started in {first.folder}, this process in {self._origin.folder}, from another "
                "session: two jobs with one rank table; start one after the other, or give each a copy of the table"
            )

    def _check_alone(self, listener: socket.socket | None) -> None:
        """Raise LaunchError where another process waits as the same rank than at ``listener``, having told it."""
        try:
            connection = meeting_point.call(self._started.digest, self._started.rank, besides=listener)
        except OSError:
            return
        with connection:
            process = meeting_point.process_of(connection)
            with suppress(OSError):
                meeting_point.send(connection, CONFLICT, origin=asdict(self._origin))
        raise self._twice(process)

    def _twice(self, process: int) -> LaunchError:
        return LaunchError(
            f"init: rank {self._started.rank} of this job is claimed by another process, number {process}, as well: "
            "RANK_ID is set twice to the same, or two jobs are started with one rank table at a time; start one after "
            "the other, or give each a copy of the table in its own folder"
        )

    def _others(self) -> Iterable[int]:
        return (rank for rank in self._started.here if rank != self._started.rank)

    def _missing(self) -> list[int]:
        there = self._lookout.waiting(self._others())
        return [rank for rank in self._others() if rank not in there]

    def _waited(self) -> float:
        return time.monotonic() - self._begin

    def _deadline(self) -> float:
        """Return until when to wait. As long as rank 0 of this host waits too, it is the one that gives up and says
        why. It may have just said it.
        """
        is_led = 0 in self._started.here
        if is_led and 0 not in self._missing():
            self._led_at = time.monotonic()
        if self._left_at is None:
            moment = self._begin + self._started.seconds + (0.0 if is_led else _START_SECONDS)
        else:
            moment = self._left_at + (_REASON_SECONDS if is_led else 0.0)
        return max(moment, self._led_at + _TOLD_SECONDS)

    def _over(self) -> str:
        return f"init: the job has ended before it began; rank 0 says why, or use {self._started.command}"

    def _late(self, missing: list[int]) -> str:
        started = self._started
        placeholder = ""
        if started.table and len(started.table.servers) > 1 and started.is_local:
            placeholder = (
                "; the rank table names no hosts, so all ranks are taken to be on this one: write their addresses as "
                "server_id"
            )
        return (
            f"init: {started.words(missing or [0])} of {started.size} did not come to rank {started.rank} within "
            f"{self._waited():.0f} s ({SECONDS_VARIABLE}){placeholder}; start all of them, or the whole job with "
            f"{started.command}"
        )
