"""How a job ended, by what its ranks said and left: mpirun's exit code 0 was seen after a host had died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpiparallel.cluster.exit_codes import COMPLETED, FAILED, HUNG, OF_MPIRUN, REFUSED, REQUEUE, SIGNALLED, TIMED_OUT
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.watching.abort import Abort
from mpiparallel.launch.watching.exit_statuses import exit_statuses
from mpiparallel.launch.watching.first_failure import FirstFailure, signal_name
from mpiparallel.launch.watching.mpirun_result import MpirunResult
from mpiparallel.launch.watching.rank_outcome import RankOutcome, first_cause
from mpiparallel.launch.watching.summary import Summary

_SAME_MOMENT_SECONDS = 0.5


@dataclass(frozen=True)
class JobOutcome:
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


def judge(folders: Sequence[RankFolder], result: MpirunResult, registry: RankRegistry | None = None) -> JobOutcome:
    """Return how the job ended whose ranks left ``folders`` and said what is in ``registry``.

    It ended well only if every rank completed. Otherwise the rank that failed or died first is named, with its
    traceback or its last lines, or the ranks that did not complete.
    """
    known = registry or RankRegistry(len(folders))
    outcomes = [RankOutcome.of(folder, entry) for folder, entry in zip(folders, known, strict=True)]
    return replace(_judged(outcomes, result), by_user=result.signal_number is not None or result.timeout is not None)


def _judged(outcomes: Sequence[RankOutcome], result: MpirunResult) -> JobOutcome:
    if result.survives_deaths and not result.sentence and _survived(outcomes):
        return _good_end(outcomes, result)
    cause = first_cause(outcomes, result.ended_at, result.survives_deaths)
    has_completed = result.code == 0 and all(outcome.ended_well for outcome in outcomes)
    abort = None if has_completed else Abort.of(outcomes, result)
    if abort and not (cause and cause.failure and cause.rank != (abort.outcome and abort.outcome.rank)):
        summary = Summary(abort.headline(len(outcomes)), outcomes, result)
        return JobOutcome(abort.code, summary.of_death(abort.outcome) if abort.outcome else summary.of_job())
    if cause and cause.failure:
        return _failed(cause, cause.failure, outcomes, result)
    if result.sentence and result.signal_number is None:
        return JobOutcome(HUNG, Summary(f"the job hung: {result.sentence}", outcomes, result).of_hang())
    if _is_mpirun_killed(cause, result):
        headline = f"mpirun itself was killed by {signal_name(-result.code)}"
        return JobOutcome(SIGNALLED - result.code, Summary(headline, outcomes, result).of_job())
    if cause:
        return _died(cause, outcomes, result)
    return _no_cause(outcomes, result)


def _no_cause(outcomes: Sequence[RankOutcome], result: MpirunResult) -> JobOutcome:
    missing = [outcome for outcome in outcomes if not outcome.ended_well]
    if result.timeout is not None:
        headline = f"not ended after {result.timeout:g} s, so stopped; where the ranks were:"
        return JobOutcome(TIMED_OUT, Summary(headline, outcomes, result).of_places())
    if not missing and (not result.code or result.ended_at < float("inf")):
        return _good_end(outcomes, result)
    if result.signal_number is not None:
        code = SIGNALLED + result.signal_number
        return JobOutcome(code, f"ended by {signal_name(result.signal_number)}")
    named = exit_statuses(result.output, len(outcomes))
    culprits = [outcome for outcome in missing if len(named) == 1 and named.get(outcome.process)]
    if culprits:
        return _died(culprits[0], outcomes, result)
    return _incomplete(outcomes, result)


def _good_end(outcomes: Sequence[RankOutcome], result: MpirunResult) -> JobOutcome:
    if any(outcome.is_preempted for outcome in outcomes):
        return JobOutcome(REQUEUE, "preempted: committed, start again with the same command")
    dead = [outcome for outcome in outcomes if not outcome.ended_well]
    if dead:
        return JobOutcome(COMPLETED, Summary("", outcomes, result).of_survival(dead))
    if result.ended_at < float("inf") and result.signal_number is None:
        return JobOutcome(
            COMPLETED, f"all {len(outcomes)} ranks completed; mpirun did not end after them, so it was ended"
        )
    return JobOutcome(COMPLETED)


def _survived(outcomes: Sequence[RankOutcome]) -> bool:
    """Return whether ranks have completed, and all others have died without an exception of their own."""
    return any(outcome.ended_well for outcome in outcomes) and all(
        outcome.ended_well or outcome.has_died for outcome in outcomes
    )


def _is_mpirun_killed(cause: RankOutcome | None, result: MpirunResult) -> bool:
    """Return whether a signal that was not the launcher's ended mpirun, before any rank had died."""
    if result.code >= 0 or result.ended_at < float("inf"):
        return False
    return cause is None or cause.time > result.over_at - _SAME_MOMENT_SECONDS


def _failed(cause: RankOutcome, failure: Failure, outcomes: Sequence[RankOutcome], result: MpirunResult) -> JobOutcome:
    if failure.exit_code == HUNG:
        return JobOutcome(HUNG, Summary(f"the job hung: {failure.summary}", outcomes, result).of_hang())
    where = f", in {failure.action}" if failure.action else ""
    headline = f"rank {cause.rank} of {len(outcomes)} failed first{where}: {failure.summary}"
    text = Summary(headline, outcomes, result).of_failure(cause)
    return JobOutcome(failure.exit_code, text, cause=f"{cause.rank} {failure.summary}")


def _died(cause: RankOutcome, outcomes: Sequence[RankOutcome], result: MpirunResult) -> JobOutcome:
    first_failure = FirstFailure.of(cause, outcomes, result.output)
    unborn = [outcome for outcome in outcomes if not outcome.has_begun]
    if unborn and not first_failure.is_explained and result.ended_at == float("inf"):
        # mpirun ended by itself, and those that it had started with it: as when it can start nothing on some host.
        return _incomplete(outcomes, result)
    summary = Summary(first_failure.headline(len(outcomes)), outcomes, result)
    return JobOutcome(
        first_failure.code,
        summary.of_death(first_failure.outcome) if first_failure.outcome.has_begun else summary.of_job(),
    )


def _incomplete(outcomes: Sequence[RankOutcome], result: MpirunResult) -> JobOutcome:
    code = _exit_code(outcomes, result)
    missing = [outcome for outcome in outcomes if not outcome.ended_well]
    unborn = [outcome for outcome in missing if not outcome.has_begun]
    if len(unborn) == len(outcomes):
        headline = f"no rank has begun: mpirun ended with exit code {result.code}"
    elif unborn:
        headline = f"{_ranks(unborn, outcomes)} had not begun"
    elif missing:
        headline = f"{_ranks(missing, outcomes)} did not complete, and left no exception"
    elif late := _failed_at_last(outcomes, result):
        headline = (
            f"rank {late.rank} of {len(outcomes)} {_end(code)} after its script had ended, before MPI was finalized"
        )
    else:
        headline = f"all {len(outcomes)} ranks completed, but mpirun then ended with exit code {code}"
    return JobOutcome(code, Summary(headline, outcomes, result).of_job(), has_begun=len(unborn) < len(outcomes))


def _ranks(some: Sequence[RankOutcome], outcomes: Sequence[RankOutcome]) -> str:
    return f"rank{'s' * (len(some) > 1)} {', '.join(str(outcome.rank) for outcome in some)} of {len(outcomes)}"


def _failed_at_last(outcomes: Sequence[RankOutcome], result: MpirunResult) -> RankOutcome | None:
    """Return the only rank that failed by itself, as mpirun reports it; mpirun kills the others."""
    statuses = exit_statuses(result.output, len(outcomes))
    bad = [outcome for outcome in outcomes if statuses.get(outcome.process)]
    own = [outcome for outcome in bad if statuses[outcome.process] not in OF_MPIRUN]
    found = own or bad
    return found[0] if len(found) == 1 else None


def _end(code: int) -> str:
    return f"was ended by {signal_name(code - SIGNALLED)}" if code > SIGNALLED else f"left with exit code {code}"


def _exit_code(outcomes: Sequence[RankOutcome], result: MpirunResult) -> int:
    statuses = exit_statuses(result.output, len(outcomes))
    late = _failed_at_last(outcomes, result)
    if late:
        return statuses[late.process]
    told = [code for code in statuses.values() if code]
    if told:
        return told[0]
    if result.code < 0:
        return SIGNALLED - result.code
    return result.code or FAILED
