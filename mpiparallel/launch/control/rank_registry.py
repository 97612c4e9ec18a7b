"""What the launcher knows of each rank, from what the ranks say and from the moment they fall silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import field

from mpiparallel.dataclass import dataclass
from mpiparallel.launch.control.message import COMPLETED, FAILED, FAILING, LAST_WORDS, PREEMPTED, SCRIPT_ENDED
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.rank_folder import Failure


@dataclass
class RankEntry:
    """One rank: the MPI process it is, where it runs, its last word, and when it was lost.

    Times are in seconds since 1970 by the launcher's clock; None is what has not happened. ``process`` is the number
    that mpirun calls it by. ``starter`` is the process that mpirun started for it: ``pid`` itself unless there is a
    guard between the two. It ``is_unreachable`` where the network to it, not the process, was seen to end. It
    ``has_called_again`` where it has lost a connection that the launcher still had. Since ``failing_at`` it fails, at
    first by no more than what ``failing`` says. ``lost`` is what it could not print.
    """

    rank: int
    process: int | None = None
    host: str = ""
    pid: int | None = None
    starter: int | None = None
    called_at: float | None = None
    last_word: str | None = None
    failing: Failure | None = None
    failing_at: float | None = None
    failure: Failure | None = None
    lost: LostOutput = field(default_factory=LostOutput)
    said_at: float | None = None
    lost_at: float | None = None
    is_unreachable: bool = False
    is_ready: bool = False
    script_has_ended: bool = False
    has_called_again: bool = False

    @property
    def is_guarded(self) -> bool:
        """Whether a guard stands between what mpirun started and the rank."""
        return self.starter != self.pid

    @property
    def is_over(self) -> bool:
        """Whether the rank has said its last word or is lost."""
        return self.last_word is not None or self.lost_at is not None

    @property
    def has_died(self) -> bool:
        """Whether the rank was lost without a last word."""
        return self.lost_at is not None and self.last_word is None

    @property
    def ended_well(self) -> bool:
        """Whether it said that it has completed, or that it was preempted after a commit."""
        return self.last_word in (COMPLETED, PREEMPTED)


class RankRegistry:
    """The entries of all ranks of a job, told by an `Exchange`."""

    def __init__(self, size: int) -> None:
        self.entries = tuple(RankEntry(rank) for rank in range(size))

    def __iter__(self) -> Iterator[RankEntry]:
        """Yield the entries by rank."""
        return iter(self.entries)

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return len(self.entries)

    @property
    def anyone_called(self) -> bool:
        """Whether any rank has begun."""
        return any(entry.called_at is not None for entry in self.entries)

    def call(self, rank: int, process: int, host: str, pid: int | None, starter: int | None = None) -> None:
        """Note that ``rank`` is connected; it is lost no more, where an earlier connection was."""
        entry = self.entries[rank]
        entry.lost_at, entry.is_unreachable = None, False
        entry.process, entry.host, entry.pid, entry.starter = process, host, pid, starter or pid
        entry.has_called_again = entry.called_at is not None
        entry.called_at = entry.called_at or time.time()

    def hear(self, rank: int, word: str, failure: Failure | None, lost: LostOutput | None = None) -> None:
        """Note that the script of ``rank`` has ended, that it begins to fail, or its last word; the first counts."""
        entry = self.entries[rank]
        entry.script_has_ended = entry.script_has_ended or word == SCRIPT_ENDED
        is_failure = word in (FAILING, FAILED)
        if entry.last_word is not None or is_failure != (failure is not None):
            return
        if word == FAILING and entry.failing_at is None:
            entry.failing, entry.failing_at = failure, time.time()
        if word in LAST_WORDS:
            entry.last_word, entry.said_at = word, time.time()
            entry.failure = failure
            entry.lost = lost or LostOutput()

    def be_ready(self, rank: int) -> bool:
        """Note that ``rank`` is ready for what all must be ready for; return whether all are now."""
        self.entries[rank].is_ready = True
        return all(entry.is_ready for entry in self.entries)

    def lose(self, rank: int, is_unreachable: bool = False) -> None:
        """Note that ``rank`` is no longer connected."""
        self.entries[rank].lost_at = time.time()
        self.entries[rank].is_unreachable = is_unreachable
