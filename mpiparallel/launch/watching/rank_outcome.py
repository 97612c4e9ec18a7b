"""What became of one rank, from what it said to the launcher and what it left in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import MISMATCH
from mpiparallel.launch.control.rank_registry import RankEntry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder

_CONSEQUENCE_SECONDS = 1.0
# Errors that a rank has because another one is gone.
_OF_OTHERS = ("CommunicationError", "RankFailureError", "MPI_ERR", "mpi4py.MPI.Exception")


@dataclass(frozen=True)
class RankOutcome:
    """One rank: whether it ended well, failed (with its ``failure``), died, or was never heard of again.

    ``time`` is when, in seconds since 1970; infinite where nothing is known.
    """

    folder: RankFolder
    entry: RankEntry
    ended_well: bool
    is_preempted: bool
    failure: Failure | None
    time: float

    @classmethod
    def of(cls, folder: RankFolder, entry: RankEntry) -> RankOutcome:
        """Return the outcome of the rank of ``folder`` and ``entry``."""
        preempted = entry.last_word == "preempted" or folder.preempted.is_file()
        has_failed = entry.failing is not None or entry.failure is not None
        ended_well = not has_failed and (preempted or entry.ended_well or folder.completed.is_file())
        failure = None if ended_well else entry.failure or folder.read_failure() or entry.failing
        moments = [entry.failing_at, entry.said_at, entry.lost_at, failure.time if failure else None]
        time = next((moment for moment in moments if moment is not None), float("inf"))
        return cls(folder, entry, ended_well, preempted, failure, time)

    @property
    def rank(self) -> int:
        """The rank."""
        return self.folder.rank

    @property
    def process(self) -> int:
        """The number that mpirun calls it by."""
        return self.rank if self.entry.process is None else self.entry.process

    @property
    def host(self) -> str:
        """Its host, empty where it never said it."""
        return " ".join(self.entry.host.split())

    @property
    def has_died(self) -> bool:
        """Whether it was lost without a word or an exception."""
        return self.entry.has_died and not self.ended_well and self.failure is None

    @property
    def has_begun(self) -> bool:
        """Whether its worker was started."""
        return self.entry.called_at is not None or self.ended_well or self.folder.log.exists()

    @property
    def is_consequence(self) -> bool:
        """Whether its exception is one that the end of another rank causes."""
        if self.failure is None or self.failure.origin is not None:
            return False
        summary = self.failure.summary
        return MISMATCH not in summary and any(name in summary for name in _OF_OTHERS)

    def blamed(self, teller: RankOutcome) -> RankOutcome:
        """Return this outcome, whose problem ``teller`` told, in the teller's words where it has none left."""
        if self.ended_well:
            return teller
        has_words = self.failure is not None and self.failure is not self.entry.failing and not self.is_consequence
        return self if has_words else replace(self, failure=teller.failure, time=teller.time)


def first_cause(outcomes: Sequence[RankOutcome], ended_at: float, survives_deaths: bool) -> RankOutcome | None:
    """Return the rank that failed or died first, if one did before the launcher ended the job at ``ended_at``.

    If its error reports a problem of another rank, as an error that ranks agree on does, the cause is that other rank.
    An error of communication shortly before another rank is seen to end for a reason of its own is taken as caused by
    that. Where deaths are survived, a rank that failed for a reason of its own comes before those that died.
    """
    first = _first(outcomes, ended_at, survives_deaths)
    if first is None or first.failure is None:
        return first
    return next((outcome.blamed(first) for outcome in outcomes if outcome.rank == first.failure.origin), first)


def _first(outcomes: Sequence[RankOutcome], ended_at: float, survives_deaths: bool) -> RankOutcome | None:
    bad = sorted(
        (outcome for outcome in outcomes if (outcome.failure or outcome.has_died) and outcome.time <= ended_at),
        key=lambda outcome: outcome.time,
    )
    if not bad:
        return None
    own = [outcome for outcome in bad if outcome.failure and not outcome.is_consequence]
    if survives_deaths and own:
        return own[0]
    near = [outcome for outcome in bad if outcome.time <= bad[0].time + _CONSEQUENCE_SECONDS]
    own = [outcome for outcome in near if outcome.failure and not outcome.is_consequence]
    deaths = [outcome for outcome in near if outcome.has_died]
    if not bad[0].is_consequence:
        return bad[0]
    return (own or deaths or bad)[0]
