"""Ranks whose scripts have ended, but whose processes do not leave."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from mpiparallel.cluster.flight.process_state import state_of
from mpiparallel.cluster.flight.recorder import spans
from mpiparallel.launch.control.rank_registry import RankEntry, RankRegistry

# MPI may end slowly where there are many ranks; without a watchdog nothing else bounds it.
_FINALIZING_SECONDS = 60.0


class Leaving:
    """Finds out who does not leave, once the script of every rank has ended, or can go on no more.

    Each of them has ``seconds`` since any rank was last seen to come nearer to its end, None for any time. Ranks that
    have said their last word are bounded then too. A script goes on no more where its rank is stopped.
    """

    def __init__(self, registry: RankRegistry, seconds: float | None, state: Callable[[int], str] = state_of) -> None:
        self._registry = registry
        self._seconds = seconds
        self._state = state
        self._host = socket.gethostname()
        self._stage = 0
        self._since: float | None = None

    def sentence(self, now: float) -> str | None:
        """Return who has not left in time at ``now``, None where nobody is late, or some script still runs."""
        limit = self._limit(now)
        if self._since is None or limit is None or now <= self._since + limit:
            return None
        return self._words([entry for entry in self._registry if entry.lost_at is None], limit)

    def _limit(self, now: float) -> float | None:
        running = [entry for entry in self._registry if not _has_come_to_its_end(entry)]
        # A job that is stopped as a whole is only held up by its user.
        if len(running) == self._registry.size or not all(map(self._is_stopped, running)):
            self._since = None
            return None
        stage = sum(entry.is_over + (entry.lost_at is not None) for entry in self._registry)
        if self._since is None or stage != self._stage:
            self._stage, self._since = stage, now
        if all(entry.lost_at is not None for entry in self._registry):
            return None
        return _FINALIZING_SECONDS if self._seconds is None and self._all_are_over() else self._seconds

    def _all_are_over(self) -> bool:
        return all(entry.is_over for entry in self._registry)

    def _words(self, staying: list[RankEntry], seconds: float) -> str:
        amid = [entry for entry in staying if not _has_come_to_its_end(entry)]
        if amid:
            return f"{_ranks(amid)} {'is' if len(amid) == 1 else 'are'} stopped by a signal, and all others have ended"
        silent = [entry for entry in staying if not entry.is_over]
        # The others wait for them in MPI_Finalize.
        pool = silent or staying
        stopped = [entry for entry in pool if self._is_stopped(entry)]
        closed = [entry for entry in pool if entry.has_called_again]
        if stopped:
            late, why = stopped, "stopped by a signal"
        elif closed:
            late, why = closed, "descriptors that the script had not opened are closed, and MPI needs them to finalize"
        elif silent:
            late, why = silent, "held by a thread that is no daemon, or by an exit handler"
        else:
            late, why = [*pool], "MPI does not finalize"
        whose = (
            "has ended its script, but its process has"
            if len(late) == 1
            else ("have ended their scripts, but their processes have")
        )
        return f"{_ranks(late)} {whose} not left within {seconds:g} s: {why}"

    def _is_stopped(self, entry: RankEntry) -> bool:
        return entry.pid is not None and entry.host == self._host and self._state(entry.pid) == "stopped"


def _has_come_to_its_end(entry: RankEntry) -> bool:
    return entry.is_over or entry.script_has_ended


def _ranks(entries: Sequence[RankEntry]) -> str:
    return f"rank{'' if len(entries) == 1 else 's'} {spans([entry.rank for entry in entries])}"
