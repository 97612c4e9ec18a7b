"""How a job ended, by what its ranks said and left: mpirun's exit code 0 was seen after a host had died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mpiparallel.cluster.exit_codes import COMPLETED, FAILED, HUNG, REFUSED, REQUEUE, SIGNALLED, TIMED_OUT
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.line.roll import Roll
from mpiparallel.launch.watching.abort import Abort
from mpiparallel.launch.watching.death import Death
from mpiparallel.launch.watching.exit_statuses import OF_MPIRUN, exit_statuses
from mpiparallel.launch.watching.fate import Fate, first_cause
from mpiparallel.launch.watching.launch import Launch
from mpiparallel.launch.watching.signals import name_of
from mpiparallel.launch.watching.summary import Summary

_SAME_MOMENT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code of the job, and what to tell the user; nothing if it ended well.

    ``cause`` is the same for two jobs that failed by the same exception of the same rank, and empty for other ends.
    ``has_begun`` is whether any rank was started. ``by_user`` is whether the user, or a limit that the user set, ended
    it.
    """

    code: int
    message: str = ""
    cause: str = ""
    has_begun: bool = True
    by_user: bool = False

    @property
    def may_go_on(self) -> bool:
        """Whether starting the job again can help: it failed, and neither was refused nor ended by the user."""
        return self.code not in (COMPLETED, REFUSED, REQUEUE) and not self.by_user


def judge(folders: Sequence[RankFolder], launch: Launch, roll: Roll | None = None) -> Outcome:
    """Return how the job ended whose ranks left ``folders`` and said what is in ``roll``.

    It ended well only if every rank completed. Otherwise the rank that failed or died first is named, with its
    traceback or its last lines, or the ranks that did not complete.
    """
    known = roll or Roll(len(folders))
    fates = [Fate.of(folder, entry) for folder, entry in zip(folders, known, strict=True)]
    return replace(_judged(fates, launch), by_user=launch.signal_number is not None or launch.timeout is not None)


def _judged(fates: Sequence[Fate], launch: Launch) -> Outcome:
    if launch.survives_deaths and not launch.sentence and _survived(fates):
        return _good_end(fates, launch)
    cause = first_cause(fates, launch.ended_at, launch.survives_deaths)
    has_completed = launch.code == 0 and all(fate.ended_well for fate in fates)
    abort = None if has_completed else Abort.of(fates, launch)
    if abort and not (cause and cause.failure and cause.rank != (abort.fate and abort.fate.rank)):
        summary = Summary(abort.headline(len(fates)), fates, launch)
        return Outcome(abort.code, summary.of_death(abort.fate) if abort.fate else summary.of_job())
    if cause and cause.failure:
        return _failed(cause, fates, launch)
    if launch.sentence and launch.signal_number is None:
        return Outcome(HUNG, Summary(f"the job hung: {launch.sentence}", fates, launch).of_hang())
    if _is_mpirun_killed(cause, launch):
        headline = f"mpirun itself was killed by {name_of(-launch.code)}"
        return Outcome(SIGNALLED - launch.code, Summary(headline, fates, launch).of_job())
    if cause:
        return _died(cause, fates, launch)
    return _no_cause(fates, launch)


def _no_cause(fates: Sequence[Fate], launch: Launch) -> Outcome:
    missing = [fate for fate in fates if not fate.ended_well]
    if launch.timeout is not None:
        headline = f"not ended after {launch.timeout:g} s, so stopped; where the ranks were:"
        return Outcome(TIMED_OUT, Summary(headline, fates, launch).of_places())
    if not missing and (not launch.code or launch.ended_at < float("inf")):
        return _good_end(fates, launch)
    if launch.signal_number is not None:
        code = SIGNALLED + launch.signal_number
        return Outcome(code, f"ended by {name_of(launch.signal_number)}")
    named = exit_statuses(launch.output, len(fates))
    culprits = [fate for fate in missing if len(named) == 1 and named.get(fate.process)]
    if culprits:
        return _died(culprits[0], fates, launch)
    return _incomplete(fates, launch)


def _good_end(fates: Sequence[Fate], launch: Launch) -> Outcome:
    if any(fate.is_preempted for fate in fates):
        return Outcome(REQUEUE, "preempted: committed, start again with the same command")
    dead = [fate for fate in fates if not fate.ended_well]
    if dead:
        return Outcome(COMPLETED, Summary("", fates, launch).of_survival(dead))
    if launch.ended_at < float("inf") and launch.signal_number is None:
        return Outcome(COMPLETED, f"all {len(fates)} ranks completed; mpirun did not end after them, so it was ended")
    return Outcome(COMPLETED)


def _survived(fates: Sequence[Fate]) -> bool:
    """Return whether ranks have completed, and all others have died without an exception of their own."""
    return any(fate.ended_well for fate in fates) and all(fate.ended_well or fate.has_died for fate in fates)


def _is_mpirun_killed(cause: Fate | None, launch: Launch) -> bool:
    """Return whether a signal that was not the launcher's ended mpirun, before any rank had died."""
    if launch.code >= 0 or launch.ended_at < float("inf"):
        return False
    return cause is None or cause.time > launch.over_at - _SAME_MOMENT_SECONDS


def _failed(cause: Fate, fates: Sequence[Fate], launch: Launch) -> Outcome:
    failure = cause.failure
    if failure is None:
        return _died(cause, fates, launch)
    if failure.exit_code == HUNG:
        return Outcome(HUNG, Summary(f"the job hung: {failure.summary}", fates, launch).of_hang())
    headline = f"rank {cause.rank} of {len(fates)} failed first: {failure.summary}"
    text = Summary(headline, fates, launch).of_failure(cause)
    return Outcome(failure.exit_code, text, cause=f"{cause.rank} {failure.summary}")


def _died(cause: Fate, fates: Sequence[Fate], launch: Launch) -> Outcome:
    death = Death.of(cause, fates, launch.output)
    unborn = [fate for fate in fates if not fate.has_begun]
    if unborn and not death.is_explained and launch.ended_at == float("inf"):
        # mpirun ended by itself, and those that it had started with it: as when it can start nothing on some host.
        return _incomplete(fates, launch)
    summary = Summary(death.headline(len(fates)), fates, launch)
    return Outcome(death.code, summary.of_death(death.fate) if death.fate.has_begun else summary.of_job())


def _incomplete(fates: Sequence[Fate], launch: Launch) -> Outcome:
    code = _exit_code(fates, launch)
    missing = [fate for fate in fates if not fate.ended_well]
    unborn = [fate for fate in missing if not fate.has_begun]
    if len(unborn) == len(fates):
        headline = f"no rank has begun: mpirun ended with exit code {launch.code}"
    elif unborn:
        headline = f"{_ranks(unborn, fates)} had not begun"
    elif missing:
        headline = f"{_ranks(missing, fates)} did not complete, and left no exception"
    elif late := _failed_at_last(fates, launch):
        headline = f"rank {late.rank} of {len(fates)} {_end(code)} after its script had ended, before MPI was finalized"
    else:
        headline = f"all {len(fates)} ranks completed, but mpirun then ended with exit code {code}"
    return Outcome(code, Summary(headline, fates, launch).of_job(), has_begun=len(unborn) < len(fates))


def _ranks(some: Sequence[Fate], fates: Sequence[Fate]) -> str:
    return f"rank{'s' * (len(some) > 1)} {', '.join(str(fate.rank) for fate in some)} of {len(fates)}"


def _failed_at_last(fates: Sequence[Fate], launch: Launch) -> Fate | None:
    """Return the rank that was the only one to end badly of its own, by what mpirun says, which kills the others."""
    statuses = exit_statuses(launch.output, len(fates))
    bad = [fate for fate in fates if statuses.get(fate.process)]
    own = [fate for fate in bad if statuses[fate.process] not in OF_MPIRUN]
    found = own or bad
    return found[0] if len(found) == 1 else None


def _end(code: int) -> str:
    return f"was ended by {name_of(code - SIGNALLED)}" if code > SIGNALLED else f"left with exit code {code}"


def _exit_code(fates: Sequence[Fate], launch: Launch) -> int:
    statuses = exit_statuses(launch.output, len(fates))
    late = _failed_at_last(fates, launch)
    if late:
        return statuses[late.process]
    told = [code for code in statuses.values() if code]
    if told:
        return told[0]
    if launch.code < 0:
        return SIGNALLED - launch.code
    return launch.code or FAILED
