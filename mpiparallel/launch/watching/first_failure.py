"""Who failed first: a rank or a whole host, by the control channel, else by what mpirun saw."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from operator import itemgetter

from mpiparallel.cluster.exit_codes import FAILED, OF_MPIRUN, SIGNALLED, of_wait
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.watching.exit_statuses import exit_statuses, fatal_signal
from mpiparallel.launch.watching.host_loss import killed_process, lost_host, lost_some_host
from mpiparallel.launch.watching.rank_outcome import RankOutcome

_SAME_MOMENT_SECONDS = 0.5


@dataclass(frozen=True)
class FirstFailure:
    """The rank that died first, its exit code if known, and all ranks of its host if the host was lost.

    ``is_explained`` is whether mpirun or the network told how it came: a signal that mpirun itself sends is no news.
    """

    outcome: RankOutcome
    status: int | None = None
    of_host: tuple[RankOutcome, ...] = ()
    is_explained: bool = True

    @classmethod
    def of(cls, cause: RankOutcome, outcomes: Sequence[RankOutcome], output: str) -> FirstFailure:
        """Return the first death, when ``cause`` was the first to be missed and mpirun has printed ``output``.

        mpirun ends other ranks so soon that they may be missed before the one that was first. A host counts as lost
        where mpirun or the network says so, and no rank of it has said another word.
        """
        statuses = exit_statuses(output, len(outcomes))
        for outcome in outcomes:
            if statuses.get(outcome.process) and not outcome.has_begun:
                return cls(outcome, statuses[outcome.process])
        together = [outcome for outcome in outcomes if _is_silent(outcome, cause.time + _SAME_MOMENT_SECONDS)]
        named = lost_host(output)
        lost = _all_of(named, together, outcomes) or (
            _all_of(cause.host, together, outcomes) if _is_cut_off(cause) else ()
        )
        if lost:
            return cls(lost[0], None, lost)
        cause = _first_on_its_host(cause, together)
        killed = killed_process(output)
        # Where mpiexec lists how all have ended, on one host, this is as often one of those that it ended itself; so it
        # is where a guard outlives the rank, whose end is then first on the control channel.
        if killed and cause.process not in statuses and not cause.entry.is_guarded:
            for outcome in together:
                if (outcome.host, outcome.entry.starter) == (killed.host, killed.pid) and outcome.host == cause.host:
                    return cls(outcome, of_wait(killed.status))
        status = _status(cause, statuses)
        if status in (0, *OF_MPIRUN):
            for outcome in outcomes:
                # It died while MPI was finalizing, after its last word; that took the others along.
                if outcome.ended_well and statuses.get(outcome.process) and _left_before(outcome, cause):
                    return cls(outcome, statuses[outcome.process])
        if status is None and lost_some_host(output) and not killed:
            of_host = _all_of(cause.host, together, outcomes)
            return cls(cause, None, of_host, is_explained=bool(of_host))
        is_mpiruns = status in OF_MPIRUN and not killed and not statuses.get(cause.process)
        return cls(cause, status, is_explained=status is not None and not is_mpiruns)

    @property
    def code(self) -> int:
        """The exit code of the job."""
        return self.status or FAILED

    def headline(self, size: int) -> str:
        """Say who of ``size`` ranks died first, and how."""
        if self.of_host:
            ranks = ", ".join(str(outcome.rank) for outcome in self.of_host)
            return (
                f"host {self.outcome.host} was lost first, with rank{'s' * (len(self.of_host) > 1)} {ranks} of {size}"
            )
        if not self.outcome.has_begun:
            return f"rank {self.outcome.rank} of {size} ended with exit code {self.status} before it had begun"
        action = self.outcome.folder.last_action()
        return f"rank {self.outcome.rank} of {size} died first{action and f', in {action}'}: {_how(self.status)}"


def _first_on_its_host(cause: RankOutcome, together: Sequence[RankOutcome]) -> RankOutcome:
    """Return who of those missed together on the host of ``cause`` died first, as the parents of all of them saw it."""
    ends = [
        (outcome.folder.read_wait_status(), outcome) for outcome in (cause, *together) if outcome.host == cause.host
    ]
    if ends[0][0] is None:
        return cause
    return min(((told[0], outcome) for told, outcome in ends if told is not None), key=itemgetter(0))[1]


def _is_silent(outcome: RankOutcome, until: float) -> bool:
    """Return whether the rank died before ``until``, or was there and has not been missed yet, or by the network."""
    if outcome.ended_well or outcome.failure or not outcome.entry.called_at:
        return False
    # The connections of a host that is cut off end one after the other, a second or two apart.
    return outcome.entry.lost_at is None or outcome.entry.is_unreachable or outcome.time <= until


def _left_before(outcome: RankOutcome, other: RankOutcome) -> bool:
    left, then = outcome.entry.lost_at, other.entry.lost_at
    return left is not None and then is not None and left <= then


def _is_cut_off(cause: RankOutcome) -> bool:
    return cause.entry.is_unreachable


def _all_of(
    host: str | None, silent: Sequence[RankOutcome], outcomes: Sequence[RankOutcome]
) -> tuple[RankOutcome, ...]:
    """Return the ranks of ``host`` if all of them are ``silent``, and there are ranks elsewhere."""
    found = tuple(outcome for outcome in silent if outcome.host == host)
    is_all = len(found) == sum(outcome.host == host for outcome in outcomes)
    return found if is_all and len(found) < len(outcomes) else ()


def _status(cause: RankOutcome, statuses: Mapping[int, int]) -> int | None:
    told = cause.folder.read_wait_status()
    status = statuses.get(cause.process) if told is None else of_wait(told[1])
    if status is None:
        # Open MPI names one of several that died at the same moment.
        status = fatal_signal(cause.folder) or next((code for code in statuses.values() if code), None)
    return status


def _how(status: int | None) -> str:
    if status is None:
        return "it was killed, or left by os._exit"
    if status == SIGNALLED + 9:
        return "killed by SIGKILL (where nobody did: the kernel, for want of memory; see dmesg)"
    if status > SIGNALLED:
        return f"killed by {signal_name(status - SIGNALLED)}"
    return f"it left with exit code {status} in the middle of the job, without an exception"


def signal_name(number: int) -> str:
    """Return what to call signal ``number``.

    >>> signal_name(9), signal_name(63)
    ('SIGKILL', 'signal 63')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
